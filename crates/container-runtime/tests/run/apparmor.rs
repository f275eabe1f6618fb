//! AppArmor by the kernel itself: which profile containers run under, and what it denies. Needs such a kernel; `scripts/test-cgroup2`
//! emulates one.

use std::path::Path;
use std::process::Command;

use cri::*;

use crate::Test;
use crate::node::{Node, container, own_pids, secured};

pub const TESTS: &[Test] = &[
    ("a_container_runs_under_the_profile_it_asks_for", a_container_runs_under_the_profile_it_asks_for),
    (
        "the_default_profile_denies_what_reaches_the_machine",
        the_default_profile_denies_what_reaches_the_machine,
    ),
    ("the_default_profile_allows_what_containers_do", the_default_profile_allows_what_containers_do),
    ("processes_outside_are_out_of_reach", processes_outside_are_out_of_reach),
    ("the_default_profile_comes_back", the_default_profile_comes_back),
];

const DEFAULT: &str = "setpoint-default (enforce)\n";
const CURRENT: &str = "cat /proc/self/attr/current";
/// Loaded by a test, as the machine's owner loads theirs.
const DENIES_WRITES: &str = "profile setpoint-test-deny-write flags=(attach_disconnected) {
  file,
  signal,
  deny /** w,
}
";

/// Whether there is something to test.
fn enabled() -> bool {
    let kernel = Path::new("/sys/kernel/security/apparmor/profiles").exists();
    if !kernel || !Path::new("/sbin/apparmor_parser").exists() {
        println!("skipped: no kernel with AppArmor and apparmor_parser: see scripts/test-cgroup2");
        return false;
    }
    true
}

/// `apparmor_parser` with one profile.
fn parse(option: &str, text: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let done = Command::new("/sbin/apparmor_parser").args(["--skip-cache", option]).arg(file.path()).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{option}: {}", String::from_utf8_lossy(&done.stderr));
}

fn profile(kind: ProfileType, name: &str) -> Option<SecurityProfile> {
    Some(SecurityProfile { profile_type: kind.into(), localhost_ref: name.to_owned() })
}

/// With more capabilities than usual, and nothing of `/proc` read-only: what is denied is denied by AppArmor.
fn powerful(name: &str, script: &str, profile: Option<SecurityProfile>) -> ContainerConfig {
    secured(container(name, script), |context| {
        context.apparmor = profile;
        context.masked_paths = vec!["/proc/keys".to_owned()];
        let add = ["SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "SYS_RESOURCE"];
        context.capabilities =
            Some(Capability { add_capabilities: add.map(str::to_owned).to_vec(), ..Default::default() });
    })
}

fn volume(host: &Path, inside: &str) -> Mount {
    Mount {
        host_path: host.to_str().unwrap().to_owned(),
        container_path: inside.to_owned(),
        ..Default::default()
    }
}

fn a_container_runs_under_the_profile_it_asks_for() {
    if !enabled() {
        return;
    }
    parse("--replace", DENIES_WRITES);
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let local = profile(ProfileType::Localhost, "setpoint-test-deny-write");
    let of_local = "setpoint-test-deny-write (enforce)\n";
    for (name, asked, privileged, expected) in [
        ("none", None, false, DEFAULT),
        ("default", profile(ProfileType::RuntimeDefault, ""), false, DEFAULT),
        ("unconfined", profile(ProfileType::Unconfined, ""), false, "unconfined\n"),
        ("local", local.clone(), false, of_local),
        ("prefixed", profile(ProfileType::Localhost, "localhost/setpoint-test-deny-write"), false, of_local),
        ("privileged", None, true, "unconfined\n"),
        ("privileged-default", profile(ProfileType::RuntimeDefault, ""), true, "unconfined\n"),
        ("privileged-local", local.clone(), true, of_local),
    ] {
        let config = secured(container(name, &format!("{CURRENT}; exec sleep 1000")), |context| {
            context.apparmor = asked;
            context.privileged = privileged;
        });
        let id = node.launch(&sandbox, config);
        node.until(|| node.log(&id).contains('\n').then_some(()));
        assert_eq!(node.log(&id), expected, "{name}");
        let executed = node.exec_sync(&id, CURRENT, 10).unwrap();
        assert_eq!(String::from_utf8_lossy(&executed.stdout), expected, "{name}: what is executed in it");
        node.stop(&id, 0);
    }
    // Whoever it runs as, and whatever else holds it.
    let config = secured(container("nobody", CURRENT), |context| {
        context.run_as_user = Some(Int64Value { value: 65_534 });
        context.no_new_privs = true;
        context.readonly_rootfs = true;
        context.seccomp = profile(ProfileType::RuntimeDefault, "");
    });
    assert_eq!(node.output(&sandbox, config), (0, DEFAULT.to_owned()));

    let writes = "echo x > /tmp/x";
    let config =
        secured(container("writes", &format!("{{ {writes}; }} 2>&1")), |context| context.apparmor = local);
    let (code, log) = node.output(&sandbox, config);
    assert!(code != 0 && log.contains("Permission denied"), "{code}: {log}");
    assert_eq!(node.output(&sandbox, container("writes-too", writes)).0, 0);

    let missing = profile(ProfileType::Localhost, "setpoint-test-missing");
    let config = secured(container("missing", "true"), |context| context.apparmor = missing);
    let error = node.create(&sandbox, config).unwrap_err();
    assert!(
        error.message.ends_with(
            "failed to generate apparmor spec opts: apparmor profile not found setpoint-test-missing"
        ),
        "{error}"
    );
    parse("--remove", DENIES_WRITES);
}

fn the_default_profile_denies_what_reaches_the_machine() {
    if !enabled() {
        return;
    }
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let folder = node.directory.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), "content").unwrap();
    // Each works without the profile; the kernel's word for a denial is "Permission denied".
    let scripts = [
        "mount -t tmpfs none /tmp",
        "mount -o bind /www /work",
        "cat /proc/sys/kernel/domainname > /tmp/own; cat /tmp/own > /proc/sys/kernel/domainname",
        "cat /proc/sys/kernel/sem > /tmp/own; cat /tmp/own > /proc/sys/kernel/sem",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "true >> /proc/sysrq-trigger",
        "true >> /proc/pressure/memory",
        "true >> /proc/irq/default_smp_affinity",
        "echo x > /sys/fs/bpf/new",
        "echo x > /sys/kernel/debug/new",
        "cat /sys/kernel/security/file",
    ];
    for (at, script) in scripts.iter().enumerate() {
        for (kind, allowed) in [(ProfileType::Unconfined, true), (ProfileType::RuntimeDefault, false)] {
            let name = format!("{}-{at}", if allowed { "free" } else { "held" });
            let mut config = powerful(&name, &format!("{{ {script}; }} 2>&1"), profile(kind, ""));
            let places = ["/sys/fs/bpf", "/sys/kernel/debug", "/sys/kernel/security"];
            config.mounts = places.map(|inside| volume(&folder, inside)).to_vec();
            let (code, log) = node.output(&sandbox, config);
            match allowed {
                true => assert_eq!(code, 0, "{script}: {log}"),
                false => assert!(code != 0 && log.contains("Permission denied"), "{script}: {code} {log}"),
            }
        }
    }
}

fn the_default_profile_allows_what_containers_do() {
    if !enabled() {
        return;
    }
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let folder = node.directory.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    for (at, script) in [
        "touch /x && chmod 4755 /x && /bin/busybox chown 33:34 /x && /bin/busybox ln /x /y && mknod /fifo p && rm /y",
        "echo x > /volume/file && cat /volume/file && /bin/busybox cp /bin/busybox /volume/sh && /volume/sh -c true",
        "sleep 1000 & kill $!; wait $!; test $? = 143",
        // By its parent, as Yama may want it: to open its memory is to trace.
        "sleep 1000 & sleep 0.1; readlink /proc/$!/exe && true < /proc/$!/mem && cat /proc/$!/maps > /dev/null",
        "httpd -p 8080 -h /www; /bin/busybox wget -q -O - http://127.0.0.1:8080/index.html",
        "ping -c 1 127.0.0.1",
        "echo web > /proc/self/comm && cat /proc/self/comm /proc/sys/kernel/ostype /proc/meminfo > /dev/null",
        "cat /sys/fs/cgroup/cgroup.controllers /sys/class/net/lo/mtu || cat /sys/class/net/lo/mtu",
        "/bin/busybox su -s /bin/sh web -c id",
    ]
    .iter()
    .enumerate()
    {
        let mut config = container(&format!("usual-{at}"), &format!("{{ {script}; }} 2>&1"));
        config.mounts = vec![volume(&folder, "/volume")];
        let (code, log) = node.output(&sandbox, config);
        assert_eq!(code, 0, "{script}: {log}");
    }
    // With what it is given: its own shared memory's limits, and an end to a mount.
    let script = "cat /proc/sys/kernel/shmmni > /tmp/own && cat /tmp/own > /proc/sys/kernel/shmmni && /bin/busybox umount /volume";
    let mut config = powerful("given", &format!("{{ {script}; }} 2>&1"), None);
    config.mounts = vec![volume(&folder, "/volume")];
    let (code, log) = node.output(&sandbox, config);
    assert_eq!(code, 0, "{log}");
    // The agent ends it.
    let id = node.launch(
        &sandbox,
        container("ends", "trap 'exit 3' USR1; echo ready; while true; do sleep 0.1; done"),
    );
    node.until(|| node.log(&id).contains("ready").then_some(()));
    node.stop(&id, 30);
    assert_eq!(node.ended(&id).exit_code, 3, "the image's stop signal is USR1");
    // Containers of one pod reach each other.
    let mut pod = node.sandbox_config("shared");
    let shared = NamespaceOption { pid: NamespaceMode::Pod.into(), ..Default::default() };
    pod.linux.as_mut().unwrap().security_context.as_mut().unwrap().namespace_options = Some(shared.clone());
    let sandbox = node.run(pod);
    let within = |name: &str, script: &str| {
        secured(container(name, script), |context| context.namespace_options = Some(shared.clone()))
    };
    let id = node.launch(&sandbox, within("one", "exec sleep 4321"));
    let script = "pid=$(ps | grep 'sleep 432[1]' | { read pid rest; echo $pid; }); readlink /proc/$pid/exe && kill -9 $pid";
    let (code, log) = node.output(&sandbox, within("two", &format!("{{ {script}; }} 2>&1")));
    assert_eq!(code, 0, "{log}");
    assert_eq!(node.ended(&id).exit_code, 137);
}

fn processes_outside_are_out_of_reach() {
    if !enabled() {
        return;
    }
    let node = Node::new();
    let mut pod = node.sandbox_config("web");
    let host = NamespaceOption { pid: NamespaceMode::Node.into(), ..own_pids() };
    pod.linux.as_mut().unwrap().security_context.as_mut().unwrap().namespace_options = Some(host.clone());
    let sandbox = node.run(pod);
    let mut outside = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = outside.id();
    for (at, script) in
        [format!("kill -CONT {pid}"), format!("readlink /proc/{pid}/exe"), format!("true < /proc/{pid}/mem")]
            .iter()
            .enumerate()
    {
        for (kind, allowed) in [(ProfileType::Unconfined, true), (ProfileType::RuntimeDefault, false)] {
            let name = format!("{}-{at}", if allowed { "free" } else { "held" });
            let mut config = powerful(&name, &format!("{{ {script}; }} 2>&1"), profile(kind, ""));
            config = secured(config, |context| context.namespace_options = Some(host.clone()));
            let (code, log) = node.output(&sandbox, config);
            assert_eq!(code == 0, allowed, "{script}: {log}");
        }
    }
    outside.kill().unwrap();
    outside.wait().unwrap();
}

fn the_default_profile_comes_back() {
    if !enabled() {
        return;
    }
    let mut node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let sleeps = |name: &str| powerful(name, "exec sleep 1000", None);
    let mounts = "mount -t tmpfs none /tmp";
    let says = |node: &Node, id: &str, script: &str| {
        let done = node.exec_sync(id, &format!("{{ {script}; }} 2>&1"), 10).unwrap();
        (done.exit_code == 0, String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let first = node.launch(&sandbox, sleeps("first"));
    assert!(!says(&node, &first, mounts).0);
    node.restart();
    assert_eq!(says(&node, &first, CURRENT), (true, DEFAULT.to_owned()));
    // One of another version, as an older agent may have left it.
    let older = "profile setpoint-default flags=(attach_disconnected) {
  file,
  capability,
  network,
  mount,
  umount,
  signal,
  ptrace,
}
";
    parse("--replace", older);
    assert!(says(&node, &first, &format!("{mounts} && /bin/busybox umount /tmp")).0);
    node.restart();
    let second = node.launch(&sandbox, sleeps("second"));
    for id in [&first, &second] {
        assert_eq!(says(&node, id, CURRENT), (true, DEFAULT.to_owned()));
        let (done, told) = says(&node, id, mounts);
        assert!(!done && told.contains("Permission denied"), "{told}");
    }
    // Somebody unloads it while the agent runs.
    parse("--remove", older);
    let third = node.launch(&sandbox, sleeps("third"));
    assert_eq!(says(&node, &third, CURRENT), (true, DEFAULT.to_owned()));
}
