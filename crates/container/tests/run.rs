//! Containers from Debian's busybox, started, looked at and ended as the agent does. Needs root; says so and passes without.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test with its own main")]

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use container::cgroup::{Cgroup, Version};
use container::config::{
    ContainerConfig, Device, IdMapping, Mount, PidNamespace, PodConfig, Process, Propagation, Root, Source,
    User,
};
use container::wire::{self, PodState, Reply, Request, SpawnPod};

const BUSYBOX: &str = "/bin/busybox";

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--spawner") {
        if std::env::args().nth(2).as_deref() == Some("--shared") {
            // As most machines have their mounts.
            #[allow(deprecated)]
            rustix::thread::unshare(rustix::thread::UnshareFlags::NEWNS).unwrap();
            use rustix::mount::MountPropagationFlags;
            let shared = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
            rustix::mount::mount_change("/", shared).unwrap();
        }
        let socket = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        container::helper::serve_spawner(&socket).unwrap();
        return;
    }
    if !rustix::process::geteuid().is_root() || !Path::new(BUSYBOX).exists() {
        println!("skipped: needs root and Debian's busybox-static");
        return;
    }
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let tests: &[(&str, fn())] = &[
        ("a_container_runs_and_its_end_is_known", a_container_runs_and_its_end_is_known),
        ("a_start_that_fails_says_why", a_start_that_fails_says_why),
        ("identity_and_limits", identity_and_limits),
        ("mounts_do_not_lead_out", mounts_do_not_lead_out),
        ("exec_with_streams_and_terminal", exec_with_streams_and_terminal),
        ("attach_reads_and_writes", attach_reads_and_writes),
        ("containers_of_a_pod_share", containers_of_a_pod_share),
        ("memory_that_ran_out_is_told", memory_that_ran_out_is_told),
        ("devices_are_restricted", devices_are_restricted),
        ("nothing_is_made_in_the_hosts_devices", nothing_is_made_in_the_hosts_devices),
        ("a_program_restricts_devices_of_version_2", a_program_restricts_devices_of_version_2),
        ("the_shared_first_process_has_nothing", the_shared_first_process_has_nothing),
        ("a_false_device_is_refused_and_left_alone", a_false_device_is_refused_and_left_alone),
        ("cgroups_are_the_containers_own", cgroups_are_the_containers_own),
        ("a_container_with_groups_of_its_own_is_entered", a_container_with_groups_of_its_own_is_entered),
        ("mounts_go_to_the_host_only_when_asked_to", mounts_go_to_the_host_only_when_asked_to),
        ("nothing_of_the_helper_is_left_to_the_program", nothing_of_the_helper_is_left_to_the_program),
        ("a_start_does_not_wait_for_a_pipe", a_start_does_not_wait_for_a_pipe),
        ("the_spawner_can_be_a_sealed_copy", the_spawner_can_be_a_sealed_copy),
        ("a_helper_outlives_the_spawner", a_helper_outlives_the_spawner),
        ("a_slow_reader_gets_all", a_slow_reader_gets_all),
        ("attach_without_stdin_leaves_it", attach_without_stdin_leaves_it),
        ("proc_is_not_covered", proc_is_not_covered),
        ("a_signal_reaches_all_processes", a_signal_reaches_all_processes),
        ("groups_below_are_removed", groups_below_are_removed),
        ("the_helper_is_counted_for_the_pod", the_helper_is_counted_for_the_pod),
        ("a_link_to_nothing_can_be_mounted_on", a_link_to_nothing_can_be_mounted_on),
        ("many_layers_with_long_names", many_layers_with_long_names),
        ("a_start_holds_up_nobody", a_start_holds_up_nobody),
        ("the_hosts_null_device_stays_as_it_is", the_hosts_null_device_stays_as_it_is),
        ("short_execs_are_never_lost", short_execs_are_never_lost),
        ("nothing_of_a_container_outlives_it", nothing_of_a_container_outlives_it),
        ("what_is_left_to_the_helper_is_buried", what_is_left_to_the_helper_is_buried),
        ("users_of_a_pod_are_others_on_the_host", users_of_a_pod_are_others_on_the_host),
    ];
    let mut passed = 0;
    for (name, test) in tests.iter().filter(|(name, _)| name.contains(&*filter)) {
        test();
        println!("test {name} ... ok");
        passed += 1;
    }
    println!("\ntest result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
}

/// One pod with its helper.
struct Pod {
    directory: tempfile::TempDir,
    socket: UnixStream,
    spawner: Option<std::process::Child>,
    /// The spawner ends with it.
    _agent: UnixStream,
    uid: String,
}

impl Pod {
    fn new(change: impl FnOnce(&mut PodConfig)) -> Pod {
        Pod::with_spawner(&["--spawner"], change)
    }

    fn with_spawner(args: &[&str], change: impl FnOnce(&mut PodConfig)) -> Pod {
        let directory = tempfile::tempdir().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let spawner = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        let uid = directory.path().file_name().unwrap().to_str().unwrap().replace('.', "");
        let mut config = PodConfig {
            uid: uid.clone(),
            directory: directory.path().join("pod"),
            hostname: "web-0".to_owned(),
            own_network: true,
            own_ipc: true,
            own_uts: true,
            ..PodConfig::default()
        };
        change(&mut config);
        std::fs::create_dir(&config.directory).unwrap();
        wire::send(ours.as_fd(), &SpawnPod { pod: config.clone() }, &[]).unwrap();
        let (reply, _) = wire::receive::<Reply>(ours.as_fd()).unwrap().unwrap();
        assert!(matches!(reply, Reply::Spawned { .. }), "{reply:?}");
        let socket = UnixStream::connect(config.directory.join("helper.sock")).unwrap();
        let pod = Pod { directory, socket, spawner: Some(spawner), _agent: ours, uid };
        pod.image();
        pod
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A layer with busybox under all its names.
    fn image(&self) {
        let bin = self.path("layer/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::copy(BUSYBOX, bin.join("busybox")).unwrap();
        for name in [
            "sh", "cat", "echo", "id", "sleep", "hostname", "ls", "touch", "tty", "stty", "true", "ps",
            "mount", "mknod", "printf", "seq", "cut", "chmod", "readlink", "head", "tail", "wc", "env",
            "pwd", "kill", "mkdir",
        ] {
            std::os::unix::fs::symlink("busybox", bin.join(name)).unwrap();
        }
        std::fs::create_dir_all(self.path("layer/etc")).unwrap();
        std::fs::write(
            self.path("layer/etc/passwd"),
            "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/srv:/bin/sh\n",
        )
        .unwrap();
        std::fs::write(self.path("layer/etc/group"), "media:x:50:web\n").unwrap();
    }

    fn config(&self, id: &str, args: &[&str]) -> ContainerConfig {
        for part in ["upper", "work", "root"] {
            std::fs::create_dir_all(self.path(&format!("{part}-{id}"))).unwrap();
        }
        let filesystem = |kind: &str, options: &[(&str, &str)]| Source::Filesystem {
            kind: kind.to_owned(),
            options: options.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        };
        let mount = |target: &str, source: Source| Mount {
            target: target.into(),
            source,
            nosuid: true,
            ..Mount::default()
        };
        let device = |name: &str, minor| Device {
            path: format!("/dev/{name}").into(),
            block: false,
            major: 1,
            minor,
            mode: 0o666,
        };
        ContainerConfig {
            id: id.to_owned(),
            root: Root {
                layers: vec![self.path("layer")],
                upper: self.path(&format!("upper-{id}")),
                work: self.path(&format!("work-{id}")),
                target: self.path(&format!("root-{id}")),
                readonly: false,
            },
            process: Process {
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                env: vec!["PATH=/bin".into()],
                ..Process::default()
            },
            mounts: vec![
                mount("/proc", filesystem("proc", &[])),
                mount("/dev", filesystem("tmpfs", &[("mode", "755"), ("size", "65536k")])),
                mount(
                    "/dev/pts",
                    filesystem("devpts", &[("newinstance", ""), ("ptmxmode", "0666"), ("mode", "0620")]),
                ),
                mount("/dev/shm", Source::SharedMemory),
            ],
            devices: vec![device("null", 3), device("zero", 5)],
            masked_paths: vec!["/proc/keys".into(), "/proc/acpi".into()],
            readonly_paths: vec!["/proc/sys".into()],
            cgroup: format!("setpoint-test/{}/{id}", self.uid).into(),
            log: self.path(&format!("{id}.log")),
            ..ContainerConfig::default()
        }
    }

    fn ask(&self, request: &Request, beside: &[BorrowedFd<'_>]) -> (Reply, Vec<OwnedFd>) {
        wire::send(self.socket.as_fd(), request, beside).unwrap();
        wire::receive(self.socket.as_fd()).unwrap().unwrap()
    }

    fn start(&self, config: ContainerConfig) {
        let (reply, _) = self.ask(&Request::Start(Box::new(config)), &[]);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
    }

    fn watch(&self) -> (UnixStream, PodState) {
        let watcher = UnixStream::connect(self.path("pod/helper.sock")).unwrap();
        wire::send(watcher.as_fd(), &Request::Watch, &[]).unwrap();
        let state = next_state(&watcher);
        (watcher, state)
    }

    /// Waits for the end of a container.
    fn ended(&self, id: &str) -> container::wire::Ended {
        let (watcher, mut state) = self.watch();
        loop {
            let ended = state.containers.iter().find(|one| one.id == id).and_then(|one| one.ended.clone());
            if let Some(ended) = ended {
                return ended;
            }
            state = next_state(&watcher);
        }
    }

    /// What a container wrote to both streams, without times.
    fn log(&self, id: &str) -> String {
        let text = std::fs::read_to_string(self.path(&format!("{id}.log"))).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned() + "\n").collect()
    }

    /// Runs to its end.
    fn output(&self, config: ContainerConfig) -> (i32, String) {
        let id = config.id.clone();
        self.start(config);
        let code = self.ended(&id).code;
        (code, self.log(&id))
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = wire::send(self.socket.as_fd(), &Request::Shutdown, &[]);
        let _ = wire::receive::<Reply>(self.socket.as_fd());
        if let Some(mut spawner) = self.spawner.take() {
            let _ = spawner.kill();
            let _ = spawner.wait();
        }
        let root = Path::new("/sys/fs/cgroup");
        let trees = std::fs::read_dir(root).unwrap().flatten().map(|tree| tree.path());
        for tree in trees.chain([root.to_owned()]) {
            let _ = std::fs::remove_dir(tree.join("setpoint-test").join(&self.uid));
            let _ = std::fs::remove_dir(tree.join("setpoint-test"));
        }
    }
}

fn next_state(watcher: &UnixStream) -> PodState {
    match wire::receive::<Reply>(watcher.as_fd()).unwrap().unwrap().0 {
        Reply::State(state) => state,
        other => panic!("{other:?}"),
    }
}

fn shell(script: &str) -> [&str; 3] {
    ["sh", "-c", script]
}

fn a_container_runs_and_its_end_is_known() {
    let pod = Pod::new(|_| {});
    let script = "echo out; echo err >&2; hostname; echo $$; echo x > /written; exit 3";
    let (code, log) = pod.output(pod.config("a", &shell(script)));
    assert_eq!(code, 3);
    assert_eq!(
        log.lines().filter(|line| line.starts_with("stdout")).collect::<Vec<_>>(),
        ["stdout F out", "stdout F web-0", "stdout F 1"]
    );
    assert!(log.contains("stderr F err"));
    assert_eq!(std::fs::read_to_string(pod.path("upper-a/written")).unwrap(), "x\n");
    assert!(!pod.path("layer/written").exists());
    // Nothing of it is mounted here.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(pod.directory.path().to_str().unwrap()));
    // Killed by a signal.
    pod.start(pod.config("b", &["sleep", "1000"]));
    pod.ask(&Request::Signal { container: "b".to_owned(), signal: 9, all: false }, &[]);
    let ended = pod.ended("b");
    assert_eq!((ended.code, ended.signal, ended.oom_killed), (137, 9, false));
    let (reply, _) = pod.ask(&Request::Remove { container: "b".to_owned() }, &[]);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
}

fn a_start_that_fails_says_why() {
    let pod = Pod::new(|_| {});
    for (args, expected) in [
        (vec!["nothing"], "exec: \"nothing\": executable file not found in $PATH"),
        (vec!["/no/such"], "exec: \"/no/such\": stat /no/such: no such file or directory"),
        (vec!["/etc/passwd"], "exec: \"/etc/passwd\": permission denied"),
    ] {
        let (reply, _) = pod.ask(&Request::Start(Box::new(pod.config("a", &args))), &[]);
        assert!(matches!(&reply, Reply::Failed(why) if why == expected), "{reply:?}");
    }
    let mut config = pod.config("a", &["true"]);
    config.process.user = User { user: "nobody".to_owned(), ..User::default() };
    let (reply, _) = pod.ask(&Request::Start(Box::new(config)), &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("unable to find user nobody")), "{reply:?}");
    assert_eq!(pod.watch().1.containers, []);
}

fn identity_and_limits() {
    let pod = Pod::new(|pod| {
        pod.sysctls = vec![("net.ipv4.ip_unprivileged_port_start".to_owned(), "80".to_owned())]
    });
    let script = "id; cat /proc/self/status | head -60; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; \
                  touch /x; echo 1 > /proc/sys/kernel/pid_max; cat /proc/keys; ls /proc/acpi; pwd; env";
    let mut config = pod.config("a", &shell(script));
    config.process.user = User {
        user: "web".to_owned(),
        group: String::new(),
        additional_groups: vec![2000],
        merge_groups: true,
    };
    config.process.capabilities = vec!["CAP_CHOWN".to_owned(), "CAP_NET_RAW".to_owned()];
    config.process.no_new_privileges = true;
    config.process.cwd = "/made/here".into();
    config.root.readonly = true;
    config.resources.memory = Some(64 << 20);
    config.resources.cpu_shares = Some(102);
    config.resources.pids = Some(50);
    let (_, log) = pod.output(config);
    assert!(log.contains("uid=33(web) gid=34 groups=34,50(media),2000"), "{log}");
    let value = |name: &str| {
        log.lines().find_map(|line| line.strip_prefix(&format!("stdout F {name}:\t"))).unwrap_or("?")
    };
    assert_eq!(
        (value("CapEff"), value("CapBnd"), value("NoNewPrivs")),
        ("0000000000000000", "0000000000002001", "1")
    );
    assert!(log.contains("stdout F 80\n"), "{log}");
    assert!(log.contains("touch: /x: Read-only file system"), "{log}");
    assert!(log.contains("can't create /proc/sys/kernel/pid_max"), "{log}");
    assert!(log.contains("stdout F /made/here\n") && log.contains("HOME=/srv"), "{log}");
}

fn mounts_do_not_lead_out() {
    let pod = Pod::new(|_| {});
    let volume = pod.path("volume");
    std::fs::create_dir_all(volume.join("sub")).unwrap();
    std::fs::write(volume.join("sub/file"), "inside").unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("out")).unwrap();
    std::os::unix::fs::symlink("/etc", pod.path("layer/trap")).unwrap();
    let bind = |target: &str, sub_path: &str, readonly: bool| Mount {
        target: target.into(),
        source: Source::Bind { path: volume.clone(), sub_path: sub_path.into() },
        readonly,
        ..Mount::default()
    };
    let mut config = pod
        .config("a", &shell("cat /data/file /one /trap/deep/file; touch /ro/x; touch /data/new; ls /trap"));
    config.mounts.extend([
        bind("/data", "sub", false),
        bind("/one", "sub/file", false),
        bind("/ro", "", true),
        // The image says that /trap is /etc: its own, never ours.
        bind("/trap/deep", "sub", false),
    ]);
    let (_, log) = pod.output(config);
    assert!(log.contains("insideinsideinside"), "{log}");
    assert!(log.contains("touch: /ro/x: Read-only file system"), "{log}");
    assert!(volume.join("sub/new").exists());
    assert!(!Path::new("/etc/deep").exists());
    for sub_path in ["out", "../layer", "out/passwd"] {
        let mut config = pod.config("b", &["true"]);
        config.mounts.push(bind("/data", sub_path, false));
        let (reply, _) = pod.ask(&Request::Start(Box::new(config)), &[]);
        assert!(matches!(&reply, Reply::Failed(why) if why.contains("failed to open")), "{reply:?}");
    }
}

fn exec_with_streams_and_terminal() {
    let pod = Pod::new(|_| {});
    pod.start(pod.config("a", &["sleep", "1000"]));
    let run = |script: &str, has_terminal: bool| {
        let process = Process {
            args: shell(script).map(str::to_owned).to_vec(),
            env: vec!["PATH=/bin".into()],
            terminal: has_terminal,
            ..Process::default()
        };
        let (input, their_input) = UnixStream::pair().unwrap();
        let (mut output, their_output) = UnixStream::pair().unwrap();
        let beside = [their_input.as_fd(), their_output.as_fd(), their_output.as_fd()];
        let request = Request::Exec { container: "a".to_owned(), process: Box::new(process) };
        let (reply, terminal) = pod.ask(&request, &beside);
        assert!(matches!(reply, Reply::Execed { .. }), "{reply:?}");
        drop((their_input, their_output));
        if !has_terminal {
            (&input).write_all(b"typed\n").unwrap();
            input.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut text = String::new();
        if let Some(terminal) = terminal.into_iter().next() {
            let mut terminal = std::fs::File::from(terminal);
            terminal.write_all(b"typed\n").unwrap();
            let mut bytes = Vec::new();
            let _ = terminal.read_to_end(&mut bytes);
            text = String::from_utf8_lossy(&bytes).into_owned();
        } else {
            output.read_to_string(&mut text).unwrap();
        }
        match wire::receive::<Reply>(pod.socket.as_fd()).unwrap().unwrap().0 {
            Reply::ExecEnded { code, .. } => (code, text),
            other => panic!("{other:?}"),
        }
    };
    // A handful: its container's processes, and nobody else's.
    let (code, text) = run("cat; [ $(ps | wc -l) -lt 9 ] && echo few; readlink /proc/1/exe; exit 7", false);
    assert_eq!((code, &*text), (7, "typed\nfew\n/bin/busybox\n"));
    let (code, text) = run("tty; read line; echo got $line", true);
    assert_eq!(code, 0);
    assert!(text.contains("/dev/pts/0") && text.contains("got typed"), "{text}");
    let request = Request::Exec {
        container: "a".to_owned(),
        process: Box::new(Process { args: vec!["nothing".to_owned()], ..Process::default() }),
    };
    let (reply, _) = pod.ask(&request, &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("executable file not found")), "{reply:?}");
}

fn attach_reads_and_writes() {
    let pod = Pod::new(|_| {});
    let mut config = pod.config("a", &shell("while read line; do echo got $line; done; echo closed"));
    config.stdin = true;
    config.stdin_once = true;
    pod.start(config);
    let (mut output, theirs) = UnixStream::pair().unwrap();
    let (reply, input) = pod
        .ask(&Request::Attach { container: "a".to_owned(), stdin: true }, &[theirs.as_fd(), theirs.as_fd()]);
    assert!(matches!(reply, Reply::Attached), "{reply:?}");
    drop(theirs);
    let mut input = std::fs::File::from(input.into_iter().next().unwrap());
    input.write_all(b"hello\n").unwrap();
    drop(input);
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "got hello\nclosed\n");
    assert_eq!(pod.ended("a").code, 0);
    assert_eq!(pod.log("a"), "stdout F got hello\nstdout F closed\n");
}

fn containers_of_a_pod_share() {
    let pod = Pod::new(|pod| pod.shared_pid = true);
    let mut first = pod.config("a", &shell("echo shared > /dev/shm/x; sleep 1000"));
    first.pid = PidNamespace::Pod;
    pod.start(first);
    let mut second =
        pod.config("b", &shell("while ! cat /dev/shm/x; do true; done; readlink /proc/1/exe; ps"));
    second.pid = PidNamespace::Pod;
    let (code, log) = pod.output(second);
    assert_eq!(code, 0, "{log}");
    assert!(log.contains("stdout F shared") && log.contains("sleep 1000"), "{log}");
}

fn memory_that_ran_out_is_told() {
    let pod = Pod::new(|_| {});
    let mut config = pod.config("a", &["tail", "/dev/zero"]);
    config.resources.memory = Some(16 << 20);
    pod.start(config);
    let ended = pod.ended("a");
    assert_eq!((ended.code, ended.oom_killed), (137, true));
    // Whatever a shell whose command was ended makes of it; others may end with that code, too.
    let cases = [
        ("b", "tail /dev/zero; exit $?", (137, true)),
        ("c", "exit 137", (137, false)),
        ("e", "tail /dev/zero; exit 3", (3, true)),
        ("f", "tail /dev/zero; exit 0", (0, true)),
    ];
    for (id, script, expected) in cases {
        let mut config = pod.config(id, &shell(script));
        config.resources.memory = Some(16 << 20);
        pod.start(config);
        let ended = pod.ended(id);
        assert_eq!((ended.code, ended.oom_killed), expected, "{script}");
    }
    let mut config = pod.config("d", &["sleep", "1000"]);
    config.resources.memory = Some(16 << 20);
    pod.start(config);
    let group = Path::new("/sys/fs/cgroup/memory/setpoint-test").join(&pod.uid).join("d");
    if let Ok(limit) = std::fs::read_to_string(group.join("memory.memsw.limit_in_bytes")) {
        assert_eq!(limit.trim(), (16 << 20).to_string());
    }
}

fn devices_are_restricted() {
    let pod = Pod::new(|_| {});
    let volume = pod.path("volume");
    std::fs::create_dir(&volume).unwrap();
    let script = "head -c 1 /dev/zero | wc -c; mknod /dev/vda b 254 0; head -c 1 /dev/vda; mknod /x c 1 5; \
                  head -c 1 /x; mknod /data/x c 1 5; head -c 1 /data/x; mknod /dev/kmsg c 1 11; head -c 1 /dev/kmsg; true";
    let mut config = pod.config("a", &shell(script));
    config.process.capabilities = vec!["CAP_MKNOD".to_owned(), "CAP_SYS_ADMIN".to_owned()];
    config.resources.devices = Some(container::cgroup::devices::DEFAULT.map(str::to_owned).to_vec());
    config.mounts.push(Mount {
        target: "/data".into(),
        source: Source::Bind { path: volume, sub_path: PathBuf::new() },
        ..Mount::default()
    });
    let (code, log) = pod.output(config);
    assert!(code == 0 && log.contains("stdout F 1\n"), "{log}");
    for (path, why) in [
        ("/dev/vda", "Operation not permitted"),
        ("/dev/kmsg", "Operation not permitted"),
        ("/x", "Permission denied"),
        ("/data/x", "Permission denied"),
    ] {
        assert!(log.contains(&format!("{path}: {why}")), "{path}: {log}");
    }
    // What nobody can see to is not promised.
    let mut config = pod.config("b", &["true"]);
    config.cgroup = PathBuf::new();
    config.resources.devices = Some(Vec::new());
    let (reply, _) = pod.ask(&Request::Start(Box::new(config)), &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("devices are restricted")), "{reply:?}");
}

fn nothing_is_made_in_the_hosts_devices() {
    let pod = Pod::new(|_| {});
    let folder = pod.path("dev");
    std::fs::create_dir(&folder).unwrap();
    let mut config = pod.config("a", &["true"]);
    config.devices.clear();
    config.mounts.retain(|mount| !mount.target.starts_with("/dev"));
    config.mounts.push(Mount {
        target: "/dev/".into(),
        source: Source::Bind { path: folder.clone(), sub_path: PathBuf::new() },
        ..Mount::default()
    });
    assert_eq!(pod.output(config).0, 0);
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
}

/// A machine with version 1 has the tree of version 2 beside it, for programs at least.
fn a_program_restricts_devices_of_version_2() {
    let root = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .map(Path::new)
        .find(|root| root.join("cgroup.controllers").exists());
    let Some(root) = root else {
        println!("skipped: no tree of version 2");
        return;
    };
    let group = Cgroup::at(root, &Path::new("setpoint-test").join(format!("v2-{}", std::process::id())));
    group.create().unwrap();
    group.restrict_devices(&["c 1:3 rw".to_owned(), "c 1:5 w".to_owned()]).unwrap();
    let script =
        "read go; : < /dev/null && echo null; : > /dev/zero && echo zero; (: < /dev/zero) || echo denied";
    let mut child = Command::new(BUSYBOX)
        .args(["sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    group.add(child.id() as i32).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "null\nzero\ndenied\n");
    group.remove().unwrap();
    let _ = std::fs::remove_dir(root.join("setpoint-test"));
}

fn the_shared_first_process_has_nothing() {
    let pod = Pod::new(|pod| pod.shared_pid = true);
    let script = "exec 2>&1; ls -A /proc/1/root/ | wc -l; touch /proc/1/root/x; ls /proc/1/fd | wc -l; \
                  readlink /proc/1/fd/2; cat /proc/1/status";
    let mut config = pod.config("a", &shell(script));
    config.pid = PidNamespace::Pod;
    config.process.capabilities = vec!["CAP_SYS_PTRACE".to_owned(), "CAP_DAC_OVERRIDE".to_owned()];
    let (_, log) = pod.output(config);
    assert!(log.starts_with("stdout F 0\n") && log.contains("/x: Read-only file system"), "{log}");
    assert!(log.contains("stdout F 3\nstdout F /null\n"), "{log}");
    let none = "0000000000000000";
    for line in [
        format!("CapPrm:\t{none}"),
        format!("CapEff:\t{none}"),
        format!("CapBnd:\t{none}"),
        "NoNewPrivs:\t1".to_owned(),
        "Uid:\t65535\t65535\t65535\t65535".to_owned(),
        "Gid:\t65535\t65535\t65535\t65535".to_owned(),
    ] {
        assert!(log.contains(&line), "{line}: {log}");
    }
}

fn a_false_device_is_refused_and_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let pod = Pod::new(|_| {});
    let (volume, secret) = (pod.path("volume"), pod.path("secret"));
    std::fs::create_dir(&volume).unwrap();
    std::fs::write(&secret, "x").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&secret, volume.join("null")).unwrap();
    let config = |id| {
        let mut config = pod.config(id, &["cat", "/proc/keys"]);
        config.mounts.retain(|mount| !mount.target.starts_with("/dev"));
        config.mounts.push(Mount {
            target: "/dev".into(),
            source: Source::Bind { path: volume.clone(), sub_path: PathBuf::new() },
            ..Mount::default()
        });
        config
    };
    let (reply, _) = pod.ask(&Request::Start(Box::new(config("a"))), &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("there is something else")), "{reply:?}");
    assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    // What is masked is covered by the host's device, whatever the container has for one.
    let mut config = config("b");
    config.devices.clear();
    assert_eq!(pod.output(config), (0, String::new()));
}

fn cgroups_are_the_containers_own() {
    let pod = Pod::new(|_| {});
    let script = "cd /sys/fs/cgroup; mkdir x; [ -d memory ] && cd memory; cat cgroup.procs | wc -l; mkdir x; \
                  echo 1 > cgroup.procs; cat /proc/self/cgroup";
    let mut config = pod.config("a", &shell(script));
    config.resources.devices = Some(container::cgroup::devices::DEFAULT.map(str::to_owned).to_vec());
    config.mounts.push(Mount {
        target: "/sys/fs/cgroup".into(),
        source: Source::Cgroup { host: false },
        ..Mount::default()
    });
    let (_, log) = pod.output(config);
    // The shell, cat and wc.
    assert!(log.contains("stdout F 3\n"), "{log}");
    assert_eq!(log.matches("Read-only file system").count(), 3, "{log}");
    // Where it is on the host is not seen.
    assert!(!log.contains("setpoint-test"), "{log}");
}

/// As systemd divides a container, for example: of version 2 its own group then takes no process.
fn a_container_with_groups_of_its_own_is_entered() {
    if Version::of_host() == Version::V1 {
        println!("skipped: version 1 of cgroups");
        return;
    }
    let pod = Pod::new(|_| {});
    pod.start(pod.config("a", &["sleep", "1000"]));
    let group = Path::new("/sys/fs/cgroup/setpoint-test").join(&pod.uid).join("a");
    std::fs::create_dir(group.join("init")).unwrap();
    std::fs::write(group.join("init/cgroup.procs"), pod.watch().1.containers[0].pid.to_string()).unwrap();
    std::fs::write(group.join("cgroup.subtree_control"), "+memory").unwrap();
    let args = shell("cat /proc/self/cgroup").map(str::to_owned).to_vec();
    let process = Process { args, env: vec!["PATH=/bin".into()], ..Process::default() };
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let request = Request::Exec { container: "a".to_owned(), process: Box::new(process) };
    let (reply, _) = pod.ask(&request, &[null.as_fd(), writer.as_fd(), writer.as_fd()]);
    drop(writer);
    assert!(matches!(reply, Reply::Execed { .. }), "{reply:?}");
    let said = std::io::read_to_string(std::fs::File::from(reader)).unwrap();
    assert!(said.ends_with("/a/init\n"), "{said}");
}

fn mounts_go_to_the_host_only_when_asked_to() {
    let pod = Pod::with_spawner(&["--spawner", "--shared"], |_| {});
    let volume = pod.path("volume");
    std::fs::create_dir(&volume).unwrap();
    let host = format!("/proc/{}/mountinfo", pod.spawner.as_ref().unwrap().id());
    let mounted = || {
        let all = std::fs::read_to_string(&host).unwrap();
        let mut here: Vec<String> = all
            .lines()
            .map(|line| line.split(' ').nth(4).unwrap().to_owned())
            .filter(|at| at.starts_with(pod.directory.path().to_str().unwrap()))
            .collect();
        here.sort();
        here
    };
    let config = |id: &str, args: &[&str], propagation| {
        let mut config = pod.config(id, args);
        config.mounts.push(Mount {
            target: "/data".into(),
            source: Source::Bind { path: volume.clone(), sub_path: PathBuf::new() },
            propagation,
            ..Mount::default()
        });
        config
    };
    let start = |id: &str, name: &str, propagation| {
        let script = format!("mkdir /data/{name} && mount -t tmpfs none /data/{name} && read end");
        let mut config = config(id, &shell(&script), propagation);
        config.process.capabilities = vec!["CAP_SYS_ADMIN".to_owned()];
        let (code, log) = pod.output(config);
        assert!(code == 1 && log.is_empty(), "{code} {log}");
    };
    start("a", "own", Propagation::None);
    start("b", "slave", Propagation::HostToContainer);
    assert_eq!(mounted(), Vec::<String>::new());
    start("c", "shared", Propagation::Bidirectional);
    assert_eq!(mounted(), [volume.join("shared").to_str().unwrap()]);
    // The other way round: the host mounts something while they run.
    let all = [
        ("d", Propagation::None, false),
        ("e", Propagation::HostToContainer, true),
        ("f", Propagation::Bidirectional, true),
    ];
    for (id, propagation, _) in all {
        pod.start(config(id, &["sleep", "1000"], propagation));
    }
    let late = volume.join("late");
    std::fs::create_dir(&late).unwrap();
    let spawner = pod.spawner.as_ref().unwrap().id().to_string();
    let mut mount = Command::new(BUSYBOX);
    mount.args(["nsenter", "-t", &spawner, "-m", BUSYBOX, "mount", "-t", "tmpfs", "none"]).arg(&late);
    assert!(mount.status().unwrap().success());
    let (_, state) = pod.watch();
    for (id, _, is_there) in all {
        let pid = state.containers.iter().find(|one| one.id == id).unwrap().pid;
        let inside = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
        assert_eq!(inside.contains(" /data/late "), is_there, "{id}");
    }
}

fn nothing_of_the_helper_is_left_to_the_program() {
    let pod = Pod::new(|_| {});
    let script = "echo open > /dev/stdout; ls /proc/self/fd; cat /proc/self/status; id -u";
    let mut config = pod.config("a", &shell(script));
    config.process.user.user = "web".to_owned();
    let (_, log) = pod.output(config);
    assert!(log.contains("stdout F open\n") && log.contains("stdout F 33\n"), "{log}");
    // The fourth is the directory that is listed.
    assert!(log.contains("stdout F 2\nstdout F 3\nstdout F Name"), "{log}");
    let none = "0000000000000000";
    assert!(log.contains(&format!("SigIgn:\t{none}")), "{log}");
    assert!(log.contains(&format!("SigBlk:\t{none}")), "{log}");
    // Nor is the spawner's socket left to the helper.
    let helper = std::fs::read_to_string(pod.path("pod/helper.pid")).unwrap();
    let spawner = pod.spawner.as_ref().unwrap().id();
    let socket = std::fs::read_link(format!("/proc/{spawner}/fd/0")).unwrap();
    let open = std::fs::read_dir(format!("/proc/{helper}/fd")).unwrap().flatten();
    assert!(!open.into_iter().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == socket)));
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(pod.path("pod/helper.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

fn a_start_does_not_wait_for_a_pipe() {
    let pod = Pod::new(|_| {});
    for name in ["passwd", "group"] {
        let path = pod.path("layer/etc").join(name);
        std::fs::remove_file(&path).unwrap();
        let made = Command::new(BUSYBOX).arg("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
    }
    let (code, log) = pod.output(pod.config("a", &["echo", "started"]));
    assert_eq!((code, &*log), (0, "stdout F started\n"));
    let mut config = pod.config("b", &["true"]);
    config.process.user.user = u32::MAX.to_string();
    let (reply, _) = pod.ask(&Request::Start(Box::new(config)), &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("must be in range")), "{reply:?}");
}

fn the_spawner_can_be_a_sealed_copy() {
    use std::os::fd::AsRawFd;
    let copy = container::helper::spawner_program().unwrap();
    let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
    assert!(std::fs::write(&path, "x").is_err());
    let own = std::fs::metadata("/proc/self/exe").unwrap().len();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), own);
    let output = Command::new(&path).arg("no-such-test").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("0 passed"));
}

fn a_helper_outlives_the_spawner() {
    let mut pod = Pod::new(|_| {});
    pod.start(pod.config("a", &shell("read line; exit 5")));
    let mut config = pod.config("b", &shell("read line; exit 5"));
    config.stdin = true;
    pod.start(config);
    let mut spawner = pod.spawner.take().unwrap();
    spawner.kill().unwrap();
    spawner.wait().unwrap();
    // A new agent connects, and hears of what ended meanwhile.
    pod.socket = UnixStream::connect(pod.path("pod/helper.sock")).unwrap();
    let (_, input) = pod.ask(&Request::Attach { container: "b".to_owned(), stdin: true }, &[]);
    std::fs::File::from(input.into_iter().next().unwrap()).write_all(b"go\n").unwrap();
    assert_eq!(pod.ended("b").code, 5);
    let saved: PodState =
        serde_json::from_slice(&std::fs::read(pod.path("pod/state.json")).unwrap()).unwrap();
    assert_eq!(saved.containers.len(), 2);
}

fn attach(pod: &Pod, id: &str, stdin: bool) -> (UnixStream, Option<std::fs::File>) {
    let (output, theirs) = UnixStream::pair().unwrap();
    let request = Request::Attach { container: id.to_owned(), stdin };
    let (reply, input) = pod.ask(&request, &[theirs.as_fd(), theirs.as_fd()]);
    assert!(matches!(reply, Reply::Attached), "{reply:?}");
    (output, input.into_iter().next().map(std::fs::File::from))
}

fn a_slow_reader_gets_all() {
    let pod = Pod::new(|_| {});
    let mut config = pod.config("a", &shell("read go; seq 200000; echo end >&2"));
    config.stdin = true;
    config.stdin_once = true;
    pod.start(config);
    let (mut output, input) = attach(&pod, "a", true);
    input.unwrap().write_all(b"go\n").unwrap();
    // Nobody reads before the container is gone, and even forgotten.
    assert_eq!(pod.ended("a").code, 0);
    let (reply, _) = pod.ask(&Request::Remove { container: "a".to_owned() }, &[]);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(text.len() == expected.len() + 4 && text.starts_with("1\n2\n"), "{}", text.len());
    assert_eq!(text.replacen("end\n", "", 1), expected);
}

fn attach_without_stdin_leaves_it() {
    let pod = Pod::new(|_| {});
    let mut config = pod.config("a", &shell("read line; echo got $line"));
    config.stdin = true;
    config.stdin_once = true;
    pod.start(config);
    let (mut seen, none) = attach(&pod, "a", false);
    assert!(none.is_none());
    let (_, input) = attach(&pod, "a", true);
    input.unwrap().write_all(b"hello\n").unwrap();
    let mut text = String::new();
    seen.read_to_string(&mut text).unwrap();
    assert_eq!(text, "got hello\n");
    assert_eq!(pod.ended("a").code, 0);
    let request = Request::Attach { container: "a".to_owned(), stdin: false };
    let (reply, _) = pod.ask(&request, &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("is not running")), "{reply:?}");
}

fn proc_is_not_covered() {
    let pod = Pod::new(|_| {});
    let volume = pod.path("volume");
    std::fs::create_dir_all(volume.join("self")).unwrap();
    std::fs::write(volume.join("uptime"), "never\n").unwrap();
    std::os::unix::fs::symlink("/proc/self", pod.path("layer/detour")).unwrap();
    let bind = |target: &str, sub_path: &str| Mount {
        target: target.into(),
        source: Source::Bind { path: volume.clone(), sub_path: sub_path.into() },
        ..Mount::default()
    };
    for target in ["/proc", "/proc/self", "/proc/sys", "/proc/new", "/detour", "/bin/../proc/sys/kernel"] {
        let mut config = pod.config("a", &["true"]);
        config.mounts.push(bind(target, ""));
        let (reply, _) = pod.ask(&Request::Start(Box::new(config)), &[]);
        let refused = matches!(&reply, Reply::Failed(why) if why.contains("inside /proc") || why.contains("failed to make"));
        assert!(refused, "{target}: {reply:?}");
    }
    let mut config = pod.config("a", &["cat", "/proc/uptime"]);
    config.mounts.push(bind("/proc/uptime", "uptime"));
    assert_eq!(pod.output(config), (0, "stdout F never\n".to_owned()));
    // An image cannot choose where it is.
    std::fs::create_dir(pod.path("layer/false")).unwrap();
    std::os::unix::fs::symlink("false", pod.path("layer/proc")).unwrap();
    let (reply, _) = pod.ask(&Request::Start(Box::new(pod.config("b", &["true"]))), &[]);
    assert!(matches!(&reply, Reply::Failed(why) if why.contains("ordinary directory")), "{reply:?}");
}

fn a_signal_reaches_all_processes() {
    let pod = Pod::new(|_| {});
    let script = "(trap 'echo below; exit' USR1; echo one; while true; do sleep 0.01; done) & \
                  trap 'echo first' USR1; trap 'echo real time; exit 4' 37; echo two; \
                  while true; do sleep 0.01; done";
    let mut config = pod.config("a", &shell(script));
    config.stdin = true;
    pod.start(config);
    let wait_for = |text: &str| {
        while !pod.log("a").contains(text) {
            std::thread::yield_now();
        }
    };
    wait_for("one");
    wait_for("two");
    pod.ask(&Request::Signal { container: "a".to_owned(), signal: libc::SIGUSR1, all: true }, &[]);
    wait_for("below");
    wait_for("first");
    let number = container::signal::number("SIGRTMIN+3").unwrap();
    let signal = |signal, all| Request::Signal { container: "a".to_owned(), signal, all };
    let (reply, _) = pod.ask(&signal(number, false), &[]);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    assert_eq!(pod.ended("a").code, 4);
    for unknown in [0, 65, -1] {
        let (reply, _) = pod.ask(&signal(unknown, false), &[]);
        assert!(matches!(&reply, Reply::Failed(why) if why.contains("unknown signal")), "{reply:?}");
    }
}

/// The directories of a container's cgroup.
fn cgroup_directories(pod: &Pod, id: &str) -> Vec<PathBuf> {
    let below = Path::new("setpoint-test").join(&pod.uid).join(id);
    let root = Path::new("/sys/fs/cgroup");
    let all = std::fs::read_dir(root).unwrap().flatten().map(|entry| entry.path());
    all.chain([root.to_owned()]).map(|at| at.join(&below)).filter(|at| at.is_dir()).collect()
}

fn groups_below_are_removed() {
    let pod = Pod::new(|_| {});
    pod.start(pod.config("a", &["sleep", "1000"]));
    let mut shared = pod.config("b", &shell("sleep 1000 & sleep 1000"));
    shared.pid = PidNamespace::Host;
    pod.start(shared);
    for id in ["a", "b"] {
        let state = pod.watch().1;
        let pid = state.containers.iter().find(|one| one.id == id).unwrap().pid;
        let directories = cgroup_directories(&pod, id);
        assert!(!directories.is_empty());
        for directory in &directories {
            std::fs::create_dir_all(directory.join("x/y")).unwrap();
            // Not every controller takes a process without more ado.
            let _ = std::fs::write(directory.join("x/y/cgroup.procs"), pid.to_string());
        }
        pod.ask(&Request::Signal { container: id.to_owned(), signal: libc::SIGKILL, all: true }, &[]);
        assert_eq!(pod.ended(id).code, 137);
        let (reply, _) = pod.ask(&Request::Remove { container: id.to_owned() }, &[]);
        assert!(matches!(reply, Reply::Done), "{reply:?}");
        assert_eq!(cgroup_directories(&pod, id), Vec::<PathBuf>::new());
    }
}

fn the_helper_is_counted_for_the_pod() {
    let mut own = PathBuf::new();
    let pod = Pod::new(|pod| {
        pod.cgroup = format!("setpoint-test/{}/helper", pod.uid).into();
        own = pod.cgroup.clone();
    });
    let helper = std::fs::read_to_string(pod.path("pod/helper.pid")).unwrap();
    let group = Cgroup::at_host(&own);
    assert_eq!(group.processes(), [helper.parse::<i32>().unwrap()]);
    // Its containers are not.
    pod.start(pod.config("a", &["sleep", "1000"]));
    assert_eq!(group.processes().len(), 1);
    let spawner_is_elsewhere = !group.processes().contains(&(pod.spawner.as_ref().unwrap().id() as i32));
    assert!(spawner_is_elsewhere);
    drop(pod);
    group.end(std::time::Duration::from_secs(5)).unwrap();
    let parent = own.parent().unwrap();
    Cgroup::at_host(parent).end(std::time::Duration::from_secs(5)).unwrap();
}

fn a_link_to_nothing_can_be_mounted_on() {
    let pod = Pod::new(|_| {});
    std::os::unix::fs::symlink("../run/resolv.conf", pod.path("layer/etc/resolv.conf")).unwrap();
    let file = pod.path("resolv.conf");
    std::fs::write(&file, "nameserver 10.0.0.1\n").unwrap();
    let mut config = pod.config("a", &["cat", "/etc/resolv.conf", "/run/resolv.conf"]);
    config.mounts.push(Mount {
        target: "/etc/resolv.conf".into(),
        source: Source::Bind { path: file, sub_path: PathBuf::new() },
        ..Mount::default()
    });
    assert_eq!(pod.output(config), (0, "stdout F nameserver 10.0.0.1\n".repeat(2)));
}

fn many_layers_with_long_names() {
    let pod = Pod::new(|_| {});
    let mut config = pod.config("a", &shell("ls /from | wc -l; echo x > /new"));
    let long = pod.path(&format!("{},{}:{}", "a".repeat(120), "b".repeat(120), "c".repeat(10)));
    for number in 0..80 {
        let layer = long.join(format!("layer-{number}"));
        std::fs::create_dir_all(layer.join("from")).unwrap();
        std::fs::write(layer.join(format!("from/{number}")), "").unwrap();
        config.root.layers.insert(0, layer);
    }
    assert_eq!(pod.output(config), (0, "stdout F 80\n".to_owned()));
    assert!(pod.path("upper-a/new").exists());
}

/// Freezes or thaws a group.
fn freeze(pod: &Pod, group: &str, frozen: bool) {
    let path = Path::new("setpoint-test").join(&pod.uid).join(group);
    let v1 = Path::new("/sys/fs/cgroup/freezer");
    let (directory, file, values) = if v1.is_dir() {
        (v1.join(path), "freezer.state", ["THAWED", "FROZEN"])
    } else {
        (Path::new("/sys/fs/cgroup").join(path), "cgroup.freeze", ["0", "1"])
    };
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(file), values[usize::from(frozen)]).unwrap();
}

fn a_start_holds_up_nobody() {
    let pod = Pod::new(|_| {});
    freeze(&pod, "cold", true);
    let mut config = pod.config("a", &["true"]);
    config.cgroup = format!("setpoint-test/{}/cold/a", pod.uid).into();
    let stuck = UnixStream::connect(pod.path("pod/helper.sock")).unwrap();
    wire::send(stuck.as_fd(), &Request::Start(Box::new(config)), &[]).unwrap();
    // Another one starts, is entered and ends meanwhile.
    pod.start(pod.config("b", &shell("echo started; sleep 1000")));
    let process = Process { args: vec!["/bin/kill".to_owned(), "1".to_owned()], ..Process::default() };
    let request = Request::Exec { container: "b".to_owned(), process: Box::new(process) };
    let (reply, _) = pod.ask(&request, &[]);
    assert!(matches!(reply, Reply::Execed { .. }), "{reply:?}");
    let ended = wire::receive::<Reply>(pod.socket.as_fd()).unwrap().unwrap().0;
    assert!(matches!(ended, Reply::ExecEnded { code: 0, .. }), "{ended:?}");
    pod.ask(&Request::Signal { container: "b".to_owned(), signal: libc::SIGKILL, all: false }, &[]);
    assert_eq!(pod.ended("b").code, 137);
    assert_eq!(pod.log("b"), "stdout F started\n");
    assert!(!pod.watch().1.containers.iter().any(|one| one.id == "a"));
    freeze(&pod, "cold", false);
    let (reply, _) = wire::receive::<Reply>(stuck.as_fd()).unwrap().unwrap();
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    assert_eq!(pod.ended("a").code, 0);
    let (reply, _) = pod.ask(&Request::Remove { container: "a".to_owned() }, &[]);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    Cgroup::at_host(&Path::new("setpoint-test").join(&pod.uid).join("cold")).remove().unwrap();
}

fn users_of_a_pod_are_others_on_the_host() {
    use std::os::unix::fs::MetadataExt;
    const HOST: u32 = 200_000;
    for (shared_pid, pid) in [(false, PidNamespace::Own), (true, PidNamespace::Pod)] {
        let pod = Pod::new(|pod| {
            let mappings = vec![IdMapping { container_id: 0, host_id: HOST, length: 65536 }];
            (pod.uid_mappings, pod.gid_mappings) = (mappings.clone(), mappings);
            pod.shared_pid = shared_pid;
        });
        let volume = pod.path("volume");
        std::fs::create_dir(&volume).unwrap();
        std::fs::write(volume.join("file"), "x").unwrap();
        let bind = |target: &str, id_mapped| Mount {
            target: target.into(),
            source: Source::Bind { path: volume.clone(), sub_path: PathBuf::new() },
            id_mapped,
            ..Mount::default()
        };
        let script = "exec 2>&1; id -u; id -g; ls -ln /data/file /other/file /bin/busybox | cut -c5-; \
                      echo x > /written; echo x > /data/new; echo x > /other/new; echo reopened > /dev/stdout; \
                      echo null > /dev/null; touch /dev/shm/x; mkdir /mnt; mount -t tmpfs none /mnt && echo mounted; \
                      mknod /dev/vda b 254 0; cat /proc/keys; ls /sys/class/net; read end";
        let mut config = pod.config("a", &shell(script));
        config.pid = pid;
        config.stdin = true;
        config.process.capabilities =
            ["CAP_SYS_ADMIN", "CAP_MKNOD", "CAP_DAC_OVERRIDE"].map(str::to_owned).to_vec();
        config.mounts.extend([bind("/data", true), bind("/other", false)]);
        config.mounts.push(Mount {
            target: "/sys".into(),
            source: Source::Filesystem { kind: "sysfs".to_owned(), options: Vec::new() },
            readonly: true,
            ..Mount::default()
        });
        pod.start(config);
        let on_host = format!("/proc/{}", pod.watch().1.containers[0].pid);
        assert_eq!(std::fs::metadata(&on_host).unwrap().uid(), HOST);
        let mut process = Process {
            args: shell("id -u; echo again > /dev/stdout").map(str::to_owned).to_vec(),
            ..Process::default()
        };
        process.env = vec!["PATH=/bin".into()];
        let (mut output, write) = std::io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let request = Request::Exec { container: "a".to_owned(), process: Box::new(process) };
        let (reply, _) = pod.ask(&request, &[null.as_fd(), write.as_fd(), write.as_fd()]);
        assert!(matches!(reply, Reply::Execed { .. }), "{reply:?}");
        drop(write);
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0\nagain\n");
        wire::receive::<Reply>(pod.socket.as_fd()).unwrap().unwrap();
        let (_, input) = attach(&pod, "a", true);
        input.unwrap().write_all(b"end\n").unwrap();
        assert_eq!(pod.ended("a").code, 0);
        let log = pod.log("a");
        for line in ["stdout F 0\nstdout F 0\n", "reopened", "mounted", "stdout F lo\n"] {
            assert!(log.contains(line), "{line}: {log}");
        }
        assert!(log.contains("mknod: /dev/vda: Operation not permitted"), "{log}");
        // Of a volume that is not theirs they are nobody.
        assert!(log.contains("can't create /other/new: Permission denied"), "{log}");
        // A volume is as if there were no such users.
        assert_eq!(std::fs::metadata(pod.path("upper-a/written")).unwrap().uid(), HOST);
        assert_eq!(std::fs::metadata(volume.join("new")).unwrap().uid(), 0);
        assert!(!volume.join("x").exists());
    }
}

fn what_is_left_to_the_helper_is_buried() {
    let pod = Pod::new(|_| {});
    // Processes of the host's namespace whose parents are gone become the helper's, container or not.
    let script = "i=0; while [ $i -lt 600 ]; do (true & true) & i=$((i+1)); done; wait; echo made; read end";
    let mut config = pod.config("a", &shell(script));
    config.pid = PidNamespace::Host;
    config.stdin = true;
    pod.start(config);
    while !pod.log("a").contains("made") {
        std::thread::yield_now();
    }
    let helper = std::fs::read_to_string(pod.path("pod/helper.pid")).unwrap();
    let is_child = |entry: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&*helper)
    };
    // The container alone stays.
    while std::fs::read_dir("/proc").unwrap().flatten().filter(is_child).count() > 1 {
        std::thread::yield_now();
    }
    let (_, input) = attach(&pod, "a", true);
    input.unwrap().write_all(b"end\n").unwrap();
    assert_eq!(pod.ended("a").code, 0);
}

fn the_hosts_null_device_stays_as_it_is() {
    let pod = Pod::new(|_| {});
    // To the mode it has: a container that can do this can do worse.
    let script = "exec 2>&1; for file in /proc/keys /proc/self/fd/0; do chmod 666 $file; done; cat; echo x > /dev/null";
    let mut config = pod.config("a", &shell(script));
    config.process.capabilities = vec!["CAP_FOWNER".to_owned(), "CAP_CHOWN".to_owned()];
    let (code, log) = pod.output(config);
    assert!(code == 0 && log.matches("Read-only file system").count() == 2, "{code} {log}");
}

fn nothing_of_a_container_outlives_it() {
    let pod = Pod::new(|_| {});
    // Children that fork without end, in the host's process namespace.
    let script = "fork() { while true; do (true); done; }; fork & fork & fork & exit 3";
    let mut config = pod.config("a", &shell(script));
    config.pid = PidNamespace::Host;
    config.resources.pids = Some(64);
    pod.start(config);
    assert_eq!(pod.ended("a").code, 3);
    let group = Cgroup::at_host(&Path::new("setpoint-test").join(&pod.uid).join("a"));
    while !group.all_processes().is_empty() {
        std::thread::yield_now();
    }
}

fn short_execs_are_never_lost() {
    let pod = Pod::new(|_| {});
    pod.start(pod.config("a", &["sleep", "1000"]));
    for _ in 0..200 {
        let process = Process { args: vec!["/bin/true".to_owned()], ..Process::default() };
        let request = Request::Exec { container: "a".to_owned(), process: Box::new(process) };
        let (reply, _) = pod.ask(&request, &[]);
        let Reply::Execed { exec: id } = reply else { panic!("{reply:?}") };
        let ended = wire::receive::<Reply>(pod.socket.as_fd()).unwrap().unwrap().0;
        assert!(matches!(ended, Reply::ExecEnded { code: 0, exec } if exec == id), "{ended:?}");
    }
}
