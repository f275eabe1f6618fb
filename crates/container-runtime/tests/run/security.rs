//! What containers may do.

use cri::*;

use crate::Test;
use crate::node::{Node, container, own_pids, secured};

pub const TESTS: &[Test] = &[
    ("a_container_has_what_it_is_given", a_container_has_what_it_is_given),
    ("paths_are_masked_as_cri_names_them", paths_are_masked_as_cri_names_them),
    ("privileged_is_everything", privileged_is_everything),
    ("namespaces_are_shared_as_asked", namespaces_are_shared_as_asked),
    ("system_calls_are_filtered", system_calls_are_filtered),
    ("users_of_a_pod_are_others_on_the_host", users_of_a_pod_are_others_on_the_host),
];

fn a_container_has_what_it_is_given() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let script = "grep -E 'CapBnd|NoNewPrivs|Groups' /proc/self/status; touch /x; cat /proc/keys; ls /proc/acpi; \
                  echo 1 > /proc/sys/kernel/pid_max; mkdir /sys/fs/cgroup/x; ls /dev | wc -l; cat /proc/1/oom_score_adj";
    let config = secured(container("main", &format!("{{ {script}; }} 2>&1")), |context| {
        context.capabilities = Some(Capability {
            add_capabilities: vec!["NET_ADMIN".to_owned()],
            drop_capabilities: vec!["ALL".to_owned()],
            ..Default::default()
        });
        context.no_new_privs = true;
        context.readonly_rootfs = true;
        context.supplemental_groups = vec![2000];
    });
    let (_, log) = node.output(&sandbox, config);
    for line in [
        "CapBnd:\t0000000000001000",
        "NoNewPrivs:\t1",
        "touch: /x: Read-only file system",
        "can't create /proc/sys/kernel/pid_max: Read-only file system",
        "mkdir: can't create directory '/sys/fs/cgroup/x': Read-only file system",
    ] {
        assert!(log.contains(line), "{line}: {log}");
    }
    assert!(log.contains("Groups:\t0 2000"), "{log}");
    let error = node.create(
        &sandbox,
        secured(container("b", "true"), |context| {
            context.capabilities =
                Some(Capability { add_capabilities: vec!["FLY".to_owned()], ..Default::default() });
        }),
    );
    assert!(error.is_err());
}

/// What is mounted over parts of `/proc` and `/sys`.
fn paths_are_masked_as_cri_names_them() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let script = "cut -d' ' -f2 /proc/self/mounts | grep -E '^/proc/|^/sys/firmware' | sort; true";
    let (_, log) = node.output(&sandbox, container("masked", script));
    assert!(log.contains("/proc/keys\n") && log.contains("/proc/sys\n"), "{log}");
    let open = |name: &str| {
        secured(container(name, script), |context| {
            context.masked_paths.clear();
            context.readonly_paths.clear();
        })
    };
    assert_eq!(node.output(&sandbox, open("unmasked")), (0, String::new()));
    let config = secured(container("privileged", script), |context| context.privileged = true);
    assert_eq!(node.output(&sandbox, config), (0, String::new()));
    let config = secured(open("one"), |context| context.readonly_paths = vec!["/proc/sys".to_owned()]);
    assert_eq!(node.output(&sandbox, config), (0, "/proc/sys\n".to_owned()));
}

fn privileged_is_everything() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let script = "mount -t tmpfs none /tmp && echo mounted; ls /dev/kmsg; grep CapEff /proc/self/status";
    let (_, log) =
        node.output(&sandbox, secured(container("main", script), |context| context.privileged = true));
    assert!(log.contains("mounted\n") && log.contains("/dev/kmsg\n"), "{log}");
    let (_, log) = node.output(&sandbox, container("other", &format!("{{ {script}; }} 2>&1")));
    assert!(!log.contains("mounted\n") && log.contains("CapEff:\t00000000a80425fb"), "{log}");
    // /sys and the cgroups can be written to, whoever of the pod mounted them before; and by nobody else.
    let script = "grep -E ' /sys(/fs/cgroup)? ' /proc/self/mounts | cut -d' ' -f2,4 | cut -d, -f1";
    let (_, log) = node.output(&sandbox, container("plain", script));
    assert_eq!(log, "/sys ro\n/sys/fs/cgroup ro\n");
    let (_, log) =
        node.output(&sandbox, secured(container("free", script), |context| context.privileged = true));
    assert_eq!(log, "/sys rw\n/sys/fs/cgroup rw\n");
    let (_, log) = node.output(&sandbox, container("plain-again", script));
    assert_eq!(log, "/sys ro\n/sys/fs/cgroup ro\n");
}

fn namespaces_are_shared_as_asked() {
    let node = Node::new();
    let mut config = node.sandbox_config("web");
    let shared = NamespaceOption { pid: NamespaceMode::Pod.into(), ..Default::default() };
    let linux = config.linux.as_mut().unwrap();
    linux.security_context.as_mut().unwrap().namespace_options = Some(shared.clone());
    let sandbox = node.run(config);
    let with = |name: &str, script: &str, options: &NamespaceOption| {
        secured(container(name, script), |context| context.namespace_options = Some(options.clone()))
    };
    node.launch(&sandbox, with("main", "exec sleep 4321", &shared));
    let (_, log) = node.output(&sandbox, with("sees", "ps", &shared));
    assert!(log.contains("sleep 4321"), "{log}");
    let own = node.launch(&sandbox, with("own", "exec sleep 8765", &own_pids()));
    let (_, log) = node.output(&sandbox, with("alone", "ps", &own_pids()));
    assert!(!log.contains("sleep"), "{log}");
    // As an ephemeral container sees its target.
    let target =
        NamespaceOption { pid: NamespaceMode::Target.into(), target_id: own.clone(), ..Default::default() };
    let (_, log) = node.output(&sandbox, with("debug", "ps; readlink /proc/1/exe", &target));
    assert!(log.contains("sleep 8765") && !log.contains("sleep 4321"), "{log}");
    node.stop(&own, 0);
    let error = node.create(&sandbox, with("late", "ps", &target)).unwrap_err();
    assert!(error.message.contains("invalid target container"), "{error}");
    // The node's.
    let mut config = node.sandbox_config("node");
    let host = NamespaceOption {
        pid: NamespaceMode::Node.into(),
        network: NamespaceMode::Node.into(),
        ipc: NamespaceMode::Node.into(),
        ..Default::default()
    };
    config.linux.as_mut().unwrap().security_context.as_mut().unwrap().namespace_options = Some(host.clone());
    let sandbox = node.run(config);
    assert_eq!(node.sandbox_status(&sandbox).network.unwrap().ip, "");
    let script = "readlink /proc/self/ns/net; ps | grep -c sleep; ls /sys/class/net";
    let (code, log) = node.output(&sandbox, with("host", script, &host));
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert!(code == 0 && log.contains(own.to_str().unwrap()) && log.contains(&node.settings.bridge), "{log}");
}

fn system_calls_are_filtered() {
    let node = Node::new();
    let sandbox = node.run(node.sandbox_config("web"));
    let profile = |kind: ProfileType, path: &str| {
        Some(SecurityProfile { profile_type: kind.into(), localhost_ref: path.to_owned() })
    };
    let script = "exec 2> /dev/null; grep Seccomp: /proc/self/status; unshare -U true && echo unshared; mkdir /tmp/made && echo made; true";
    let own = node.directory.path().join("profile.json");
    let json = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}"#;
    std::fs::write(&own, json).unwrap();
    for (name, asked, expected) in [
        ("none", None, "Seccomp:\t0\nunshared\nmade\n"),
        ("unconfined", profile(ProfileType::Unconfined, ""), "Seccomp:\t0\nunshared\nmade\n"),
        ("default", profile(ProfileType::RuntimeDefault, ""), "Seccomp:\t2\nmade\n"),
        ("own", profile(ProfileType::Localhost, own.to_str().unwrap()), "Seccomp:\t2\nunshared\n"),
    ] {
        for (suffix, safe) in [("", false), ("-safe", true)] {
            let name = format!("{name}{suffix}");
            let config = secured(container(&name, script), |context| {
                context.seccomp = asked.clone();
                context.no_new_privs = safe;
            });
            assert_eq!(node.output(&sandbox, config), (0, expected.to_owned()), "{name}");
        }
    }
    // Who executes something later is not freer.
    let config = secured(container("main", "sleep 1000"), |context| {
        context.seccomp = profile(ProfileType::RuntimeDefault, "");
    });
    let id = node.launch(&sandbox, config);
    let executed = node.exec_sync(&id, script, 10).unwrap();
    assert_eq!(String::from_utf8_lossy(&executed.stdout), "Seccomp:\t2\nmade\n");
    let config = secured(container("missing", "true"), |context| {
        context.seccomp = profile(ProfileType::Localhost, "/no/such.json");
    });
    let id = node.create(&sandbox, config).unwrap();
    let error = node.start(&id).unwrap_err();
    assert!(error.message.contains("failed to load seccomp profile"), "{error}");
}

fn users_of_a_pod_are_others_on_the_host() {
    use std::os::unix::fs::MetadataExt;
    const HOST: u32 = 65_536 * 4;
    let node = Node::new();
    let mapping = vec![IDMapping { host_id: HOST, container_id: 0, length: 65_536 }];
    let users =
        UserNamespace { mode: NamespaceMode::Pod.into(), uids: mapping.clone(), gids: mapping.clone() };
    let own = NamespaceOption { userns_options: Some(users), ..own_pids() };
    let mut pod = node.sandbox_config("web");
    let linux = pod.linux.as_mut().unwrap();
    linux.security_context.as_mut().unwrap().namespace_options = Some(own.clone());
    let mut unmapped = pod.clone();
    unmapped.metadata.as_mut().unwrap().uid = "unmapped".to_owned();
    let sandbox = node.run(pod);
    let volume = node.directory.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let script = "id -u; touch /volume/x; cat /etc/hostname; wget 2>/dev/null; ls -n /www/index.html | cut -c15-17; \
                  ls -n /part; read end";
    let mut config = secured(container("main", &format!("exec 2>&1; {script}")), |context| {
        context.namespace_options = Some(own.clone());
    });
    config.stdin = true;
    config.mounts = vec![
        Mount {
            container_path: "/volume".to_owned(),
            host_path: volume.to_str().unwrap().to_owned(),
            uid_mappings: mapping.clone(),
            gid_mappings: mapping.clone(),
            ..Default::default()
        },
        Mount {
            container_path: "/part".to_owned(),
            image: Some(ImageSpec { image: crate::image::NAME.to_owned(), ..Default::default() }),
            image_sub_path: "www".to_owned(),
            readonly: true,
            ..Default::default()
        },
    ];
    let id = node.launch(&sandbox, config);
    node.until(|| node.log(&id).contains("index.html").then_some(()));
    let log = node.log(&id);
    assert!(log.starts_with("0\nweb\n"), "{log}");
    // What it writes to its volume is root's, as if there were no such users; the process itself is somebody else.
    assert_eq!(std::fs::metadata(volume.join("x")).unwrap().uid(), 0);
    let mine = |entry: &std::fs::DirEntry| {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        command.contains("touch /volume/x") && entry.metadata().is_ok_and(|of| of.uid() == HOST)
    };
    assert!(std::fs::read_dir("/proc").unwrap().flatten().any(|entry| mine(&entry)), "no process of {HOST}");
    // Without a range nothing is made.
    let options = unmapped.linux.as_mut().unwrap().security_context.as_mut().unwrap();
    options.namespace_options.as_mut().unwrap().userns_options.as_mut().unwrap().uids.clear();
    let error = node.try_run(unmapped).unwrap_err();
    assert!(error.message.contains("needs one range of users"), "{}", error.message);
}
