//! What goes wrong on a node: the pod says so, recovers when the cause goes, and hurts no other pod. Needs root.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::harness::*;
use crate::images::{Registry, config_of, lay_image, lay_index};
use crate::node_cluster::{Cluster, IMAGE, Runtime};

const BOUNDS: &str = "podPidsLimit: 64\ncontainerLogMaxSize: 32Ki\ncontainerLogMaxFiles: 2\n";

#[test]
fn greedy_pods_hurt_themselves_alone() {
    be_greedy(Cluster::with(9, Runtime::Embedded, BOUNDS));
}

#[test]
fn greedy_pods_hurt_themselves_alone_on_containerd() {
    be_greedy(Cluster::with(18, Runtime::Containerd, BOUNDS));
}

fn be_greedy(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    cluster.run_pod("quiet", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.run_pod("forks", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, '(while :; do busybox sleep 1000 & done) & exec busybox sleep 1000']}]");
    cluster.run_pod("writes", r#"containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "i=0; while :; do i=$((i+1)); echo $i; echo $(busybox seq 200); busybox sleep 0.05; done"]}]"#);
    cluster.run_pod("fills", r#"containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "busybox dd if=/dev/zero of=/data/x bs=1M count=4; exec busybox sleep 1000"], volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]"#);
    cluster.wait_for("Running", &["quiet", "forks", "writes"]);

    // As many processes as it may have, and no more.
    let is_v2 = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    let controller = if is_v2 { "" } else { "pids" };
    cluster.wait("the pod has all processes it may have", |cluster| {
        let current = cluster.cgroup_file(controller, "forks", None, "pids.current");
        let current: u32 = current.parse().unwrap();
        assert!(current <= 64, "{current}");
        current >= 60
    });
    assert_eq!(cluster.said("quiet", "echo here"), "here");

    // Its log is cut, and goes on.
    let lines = |words: &str| {
        // Between two files there is none for a moment.
        let read = cluster.kubectl.try_run(words);
        read.status.success().then(|| String::from_utf8_lossy(&read.stdout).into_owned())
    };
    cluster.wait("the log is rotated twice", |cluster| {
        let files = std::fs::read_dir(cluster.log_folder("writes").join("c")).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert!(names.len() <= 3, "{names:?}");
        // The first lines are gone for good.
        names.len() >= 2 && lines("logs writes").is_some_and(|all| !all.is_empty() && !all.starts_with("1\n"))
    });
    let last = lines("logs writes --tail=2");
    cluster.wait("it goes on writing", |_| {
        let now = lines("logs writes --tail=2");
        now.is_some() && now != last
    });

    // Too much in a volume.
    cluster.wait_for("Failed", &["fills"]);
    let status = cluster.pod("fills")["status"].clone();
    assert_eq!(status["reason"], "Evicted");
    let message = status["message"].as_str().unwrap();
    assert_eq!(message, "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ");
    cluster.wait_for_event("fills", "Evicted: Usage of EmptyDir volume");
    // Its containers are gone with all they wrote, and how they ended is known.
    cluster.wait("the container of the evicted pod is removed", |cluster| {
        cluster.kubectl.run("logs fills").starts_with("unable to retrieve container logs for ")
    });
    let ended = cluster.container("fills", "c")["state"]["terminated"].clone();
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&137.into(), &"Error".into()), "{ended}");
    for pod in ["quiet", "forks", "writes"] {
        assert_eq!(cluster.container(pod, "c")["restartCount"], 0, "{pod}");
    }
    cluster.kubectl.run("delete pod --all --wait=true");
    cluster.wait("nothing is left", |cluster| cluster.sandboxes() == 0);
}

#[test]
fn a_killed_helper_takes_one_pod_with_it_which_comes_back() {
    kill_helpers(Cluster::start(10), 137);
}

#[test]
fn a_killed_shim_takes_one_pod_with_it_which_comes_back() {
    // Nobody saw them end.
    kill_helpers(Cluster::with(19, Runtime::Containerd, ""), 255);
}

fn kill_helpers(cluster: Option<Cluster>, code: i32) {
    let Some(cluster) = cluster else { return };
    let port = 27_010;
    let has_port = cluster.containerd.is_none() && available("nft");
    let ports = if has_port { format!("{{containerPort: 80, hostPort: {port}}}") } else { String::new() };
    for (pod, ports) in [("other", ""), ("loses", &*ports)] {
        let command = "[/bin/busybox, sleep, '1000']";
        cluster.run_pod(
            pod,
            &format!("containers: [{{name: c, image: IMAGE, command: {command}, ports: [{ports}]}}]"),
        );
    }
    cluster.run_pod(
        "ends",
        "restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]",
    );
    cluster.wait_for("Running", &["other", "loses", "ends"]);
    for pod in ["loses", "ends"] {
        signal(cluster.helper_of(pod), "KILL");
    }
    cluster.wait("it comes back", |cluster| {
        let status = cluster.container("loses", "c");
        status["restartCount"] == 1 && status["state"]["running"].is_object()
    });
    assert_eq!(cluster.container("loses", "c")["lastState"]["terminated"]["exitCode"], code);
    cluster.wait_for_event("loses", "SandboxChanged: Pod sandbox changed");
    if has_port {
        // The machine's port leads to the pod that came back, and nowhere else.
        let rules = run(Command::new("nft").args(["list", "ruleset"]));
        let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
        let of_port = rules.lines().map(str::trim).filter(|rule| rule.contains(&format!(" {port} ")));
        let leads: BTreeSet<&str> = of_port.collect();
        let ip = cluster.pod("loses")["status"]["podIP"].as_str().unwrap().to_owned();
        assert!(leads.len() == 1 && leads.iter().all(|rule| rule.contains(&ip)), "{ip}: {rules}");
    }
    cluster.wait_for("Failed", &["ends"]);
    assert_eq!(cluster.container("ends", "c")["state"]["terminated"]["exitCode"], code);
    assert_eq!(cluster.container("other", "c")["restartCount"], 0);
    assert_eq!(cluster.said("loses", "echo here"), "here");
    cluster.kubectl.run("delete pod --all --wait=true");
}

#[test]
fn bad_images_run_nowhere() {
    if !available("docker-registry") || !available("gzip") {
        return;
    }
    let Some(cluster) = Cluster::start(11) else { return };
    let folder = cluster.folder.path();
    let tar = |name: &str, words: &[&str]| {
        let file = folder.join(format!("{name}.tar"));
        let packed =
            run(Command::new("tar").arg("-cPf").arg(&file).arg("-C").arg(folder.join(name)).args(words));
        assert!(packed.status.success(), "{}", String::from_utf8_lossy(&packed.stderr));
        std::fs::read(file).unwrap()
    };
    for name in ["escape", "device", "bomb"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("escape/evil"), "evil").unwrap();
    let escape = tar("escape", &["--transform", "s,^,../../../../../,", "evil"]);
    lay_image(folder, "escape", "1", &escape, &config_of(&escape));
    // The memory of the machine, for everybody.
    std::fs::create_dir(folder.join("device/bin")).unwrap();
    std::fs::copy("/bin/busybox", folder.join("device/bin/busybox")).unwrap();
    let made =
        run(Command::new("mknod").arg("-m666").arg(folder.join("device/memory")).args(["c", "1", "1"]));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let device = tar("device", &["bin", "memory"]);
    lay_image(folder, "device", "1", &device, &config_of(&device));
    std::fs::File::create(folder.join("bomb/zeros")).unwrap().set_len(260 << 20).unwrap();
    let bomb = tar("bomb", &["zeros"]);
    let config = config_of(&bomb);
    drop(bomb);
    assert!(run(Command::new("gzip").arg("-1").arg(folder.join("bomb.tar"))).status.success());
    lay_image(folder, "bomb", "1", &std::fs::read(folder.join("bomb.tar.gz")).unwrap(), &config);
    lay_index(folder, "other", "1", "s390x");
    let junk = b"this is no archive".repeat(1000);
    lay_image(folder, "broken", "1", &junk, &config_of(&junk));
    let registry = Registry::start(folder);

    for name in ["escape", "bomb", "other", "broken", "device"] {
        let image = format!("{}/{name}:1", registry.address);
        cluster.run_pod(
            name,
            &format!("containers: [{{name: c, image: '{image}', command: [/bin/busybox, sleep, '1000']}}]"),
        );
    }
    for (pod, says) in [
        ("escape", "leads out of the layer"),
        ("bomb", "bytes when unpacked"),
        ("other", "no match for platform in manifest"),
        ("broken", "failed to"),
    ] {
        cluster.wait(&format!("{pod} is not pulled"), |cluster| {
            cluster.container(pod, "c")["state"]["waiting"]["reason"] == "ImagePullBackOff"
        });
        cluster.wait_for_event(pod, "Failed: Failed to pull image");
        cluster.wait_for_event(pod, says);
    }
    // A device is a file like another to an image, and nothing that a container may open.
    cluster.wait_for("Running", &["device"]);
    // Nothing of the others is left, within or without, when they are not just tried again.
    cluster.wait("there are the layers of busybox and with the device alone", |cluster| {
        std::fs::read_dir(cluster.data().join("node/images/layers")).unwrap().count() == 2
    });
    assert!(!cluster.data().join("node/evil").exists() && !Path::new("/evil").exists());
    let opened = cluster.exec("device", "busybox head -c 1 /memory");
    let told = String::from_utf8_lossy(&opened.stderr).into_owned();
    assert!(!opened.status.success() && told.contains("ermi"), "{told}");
    cluster.kubectl.run("delete pod --all --wait=true");
}

#[test]
fn a_node_that_is_short_of_something_ends_pods_and_takes_no_more() {
    run_short(Cluster::start(12));
}

#[test]
fn a_node_that_is_short_of_something_ends_pods_and_takes_no_more_on_containerd() {
    run_short(Cluster::with(20, Runtime::Containerd, ""));
}

fn run_short(cluster: Option<Cluster>) {
    let Some(mut cluster) = cluster else { return };
    // Unused, and gone when there is not enough room.
    std::fs::create_dir(cluster.folder.path().join("unused")).unwrap();
    let unused = crate::images::archive_of(
        &cluster.folder.path().join("unused"),
        "docker.io/test/unused:1",
        &["/bin/x"],
    );
    cluster.import(&unused);
    cluster
        .run_pod("victim", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.run_pod("keeps", "priorityClassName: system-node-critical, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["victim", "keeps"]);

    // More than any machine has must be left of its memory.
    cluster.restart_with("evictionHard: {memory.available: 900Ti}\nevictionPressureTransitionPeriod: 1s\n");
    cluster.wait("the node says so", |cluster| node_condition(cluster, "MemoryPressure") == "True");
    cluster.wait_for("Failed", &["victim"]);
    let status = cluster.pod("victim")["status"].clone();
    assert_eq!(status["reason"], "Evicted");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 900Ti, available: "),
        "{message}"
    );
    let disrupted = cluster.condition("victim", "DisruptionTarget");
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"]),
        (&"True".into(), &"TerminationByKubelet".into())
    );
    assert_eq!(cluster.phase("keeps"), "Running");
    cluster.run_pod("refused", "nodeName: one, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], resources: {}}]");
    cluster.wait_for("Failed", &["refused"]);
    let status = cluster.pod("refused")["status"].clone();
    assert_eq!(status["reason"], "Evicted", "{status}");
    assert_eq!(status["message"], "Pod was rejected: The node had condition: [MemoryPressure]. ");
    // Nearly nothing of its disk may be used.
    cluster.restart_with("evictionHard: {nodefs.available: 99.99%}\nevictionPressureTransitionPeriod: 1s\nimageMinimumGCAge: 1ms\n");
    cluster.wait("the node says so", |cluster| node_condition(cluster, "DiskPressure") == "True");
    cluster.wait("the unused image is gone", |cluster| {
        let listed = cluster.images();
        assert!(listed.contains("test/busybox"), "{listed}");
        !listed.contains("test/unused")
    });

    // And when the cause goes.
    cluster.restart_with("evictionPressureTransitionPeriod: 1s\n");
    cluster.wait("the node is well", |cluster| node_condition(cluster, "DiskPressure") == "False");
    assert_eq!(node_condition(&cluster, "MemoryPressure"), "False");
    cluster.run_pod("taken", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["taken"]);
    assert_eq!(cluster.container("keeps", "c")["restartCount"], 0);
    cluster.kubectl.run("delete pod --all --wait=true");
}

fn node_condition(cluster: &Cluster, name: &str) -> String {
    let path = format!("jsonpath={{.status.conditions[?(@.type=='{name}')].status}}");
    cluster.kubectl.words(&["get", "node", "one", "-o", &path])
}

#[test]
fn pods_go_on_while_the_server_is_away() {
    let Some(mut cluster) = Cluster::start(13) else { return };
    // The node that is asked here is another one, which has joined: it does not end with the server. Nobody else may take the
    // server's port while it is away, so it is none of those that the kernel gives away.
    let free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (20_000 + std::process::id() as u16 % 5000..32_000).find(free).unwrap();
    let listen = format!("127.0.0.1:{port}");
    cluster.server.take().unwrap().stop();
    cluster.server = Some(Proc::start_at(&listen, &cluster.data(), &cluster.flags));
    let url = cluster.server.as_ref().unwrap().url();
    let line = run(Command::new(SETPOINT)
        .args(["token", "create", "--server", &url, "--data-dir"])
        .arg(cluster.data()));
    let line = String::from_utf8(line.stdout).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let mut node = Joined::start(&cluster, &words);
    cluster.wait("the other node is ready", |cluster| {
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        let ready = cluster.kubectl.try_words(&["get", "node", "two", "-o", path]);
        ready.stdout == b"True"
    });
    let flag = cluster.folder.path().join("flag");
    std::fs::create_dir(&flag).unwrap();
    let on_two = |rest: &str| format!("nodeName: two, {}", rest.replace("FLAG", flag.to_str().unwrap()));
    cluster.run_pod(
        "stays",
        &on_two("containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]"),
    );
    cluster.run_pod("ends", &on_two("restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, 'until [ -e /flag/go ]; do busybox sleep 0.05; done; echo > /flag/gone; exit 6'], volumeMounts: [{name: flag, mountPath: /flag}]}], volumes: [{name: flag, hostPath: {path: FLAG}}]"));
    cluster.run_pod("crashes", &on_two("containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, 'busybox sleep 0.5; until [ -e /flag/go ]; do busybox sleep 0.05; done; [ -e /flag/again ] && exec busybox sleep 1000; echo > /flag/again; exit 1'], volumeMounts: [{name: flag, mountPath: /flag}]}], volumes: [{name: flag, hostPath: {path: FLAG}}]"));
    cluster.wait_for("Running", &["stays", "ends", "crashes"]);
    let before = cluster.container("stays", "c");
    cluster.server.take().unwrap().kill();
    // Nobody is told.
    std::fs::write(flag.join("go"), "").unwrap();
    wait_until("it ended", || flag.join("gone").exists() && flag.join("again").exists());
    cluster.server = Some(Proc::start_at(&listen, &cluster.data(), &cluster.flags));
    cluster.wait("the end is told", |cluster| cluster.phase("ends") == "Failed");
    assert_eq!(cluster.container("ends", "c")["state"]["terminated"]["exitCode"], 6);
    cluster.wait("the restart is told", |cluster| {
        let status = cluster.container("crashes", "c");
        status["restartCount"] == 1 && status["state"]["running"].is_object()
    });
    let after = cluster.container("stays", "c");
    for field in ["containerID", "restartCount", "state"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    cluster.kubectl.run("delete pod --all --wait=true");
    node.stop();
}

/// A node of its own process.
struct Joined {
    process: std::process::Child,
    data: std::path::PathBuf,
}

impl Joined {
    fn start(cluster: &Cluster, words: &[&str]) -> Joined {
        let data = cluster.folder.path().join("two");
        let file = cluster.folder.path().join("image/image.tar");
        std::fs::create_dir_all(&data).unwrap();
        crate::images::image(&data, &["import", file.to_str().unwrap()]);
        let log = std::fs::File::create(cluster.folder.path().join("two.log")).unwrap();
        let number = std::process::id() % 60_000;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(SETPOINT)
            .args(words)
            .args([
                "--name=two",
                "--node-ip=127.0.0.1",
                &format!("--bridge=t{number}n14"),
                &format!("--port={port}"),
            ])
            .arg(format!("--pod-cidr=10.{}.14.0/24", 100 + number % 100))
            .arg(format!("--config={}", cluster.folder.path().join("kubelet.yaml").display()))
            .arg("--data-dir")
            .arg(&data)
            .stdin(std::process::Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Joined { process, data }
    }

    fn stop(&mut self) {
        signal(self.process.id(), "TERM");
        assert!(wait(&mut self.process, PATIENCE).expect("it ends").success());
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let reset =
            run(Command::new(SETPOINT).args(["node", "reset", "--yes", "--data-dir"]).arg(&self.data));
        if !std::thread::panicking() {
            assert!(reset.status.success(), "{}", String::from_utf8_lossy(&reset.stderr));
        }
    }
}

#[test]
fn a_pod_reaches_nothing_that_is_not_its_own() {
    reach_for_others(Cluster::start(15));
}

#[test]
fn a_pod_reaches_nothing_that_is_not_its_own_on_containerd() {
    reach_for_others(Cluster::with(21, Runtime::Containerd, ""));
}

fn reach_for_others(cluster: Option<Cluster>) {
    let Some(cluster) = cluster else { return };
    cluster
        .run_pod("curious", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.run_pod("without", "automountServiceAccountToken: false, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    cluster.wait_for("Running", &["curious", "without"]);
    // A file of the agent: neither by its path, nor through any process, nor from where one is.
    let file = cluster.data().join("node/of-the-agent");
    std::fs::write(&file, "precious\n").unwrap();
    let file = file.display();
    let read = |more: &str| {
        let roots = "'' /proc/[0-9]*/root /proc/[0-9]*/cwd /proc/[0-9]*/cwd/../../../../..";
        let cat = format!("busybox cat \"$root{file}\" 2> /dev/null");
        format!("for root in {roots} {more}; do {cat}; done; true")
    };
    assert_eq!(cluster.said("curious", &read("/proc/[0-9]*/fd/[0-9]*")), "");
    // It is there to be read, for whom the machine's processes are no secret.
    let trusted = "hostPID: true, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000'], securityContext: {privileged: true}}]";
    cluster.run_pod("trusted", trusted);
    cluster.wait_for("Running", &["trusted"]);
    assert!(cluster.said("trusted", &read("")).starts_with("precious"));
    // Nor do other users of the machine read what pods are given, though the directories above are theirs to enter.
    for directory in [cluster.folder.path().to_owned(), cluster.data()] {
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let open = cluster.data().join("open");
    std::fs::write(&open, "precious\n").unwrap();
    let volumes =
        cluster.data().join("node/pods").join(cluster.uid("curious")).join("volumes/kubernetes.io~projected");
    let volume = std::fs::read_dir(volumes).unwrap().next().unwrap().unwrap().path();
    let is_read =
        |path: &Path, user: u32| run(Command::new("cat").arg(path).uid(user).gid(user)).status.success();
    for (path, others) in
        [(open, true), (volume.join("token"), false), (cluster.log_folder("curious"), false)]
    {
        let path = if path.is_dir() { path.join("c/0.log") } else { path };
        assert!(is_read(&path, 0), "{}", path.display());
        assert_eq!(is_read(&path, 65534), others, "{}", path.display());
    }
    for attempt in [
        "busybox mount -t tmpfs none /mnt",
        "busybox mknod /disk b 8 0 && busybox head -c 1 /disk",
        "echo b > /proc/sysrq-trigger",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /proc/sys/kernel/core_pattern",
        "busybox chroot /proc/1/cwd/../../../../proc/1/root busybox ls /var/lib",
        "busybox mkdir /sys/fs/cgroup/memory/mine",
    ] {
        let tried = cluster.exec("curious", attempt);
        assert!(!tried.status.success(), "{attempt}: {}", String::from_utf8_lossy(&tried.stdout));
    }
    // Sockets: none of the agent's is in the pod's network namespace, by name or as a file.
    let sockets = cluster.said("curious", "busybox cat /proc/net/unix | busybox tail -n +2");
    assert_eq!(sockets, "");
    // Its own token, and only what that may.
    let token = cluster.said("curious", "busybox cat /var/run/secrets/kubernetes.io/serviceaccount/token");
    let mounted = cluster.exec("without", "busybox ls /var/run/secrets/kubernetes.io/serviceaccount");
    assert!(!mounted.status.success());
    let server = cluster.server.as_ref().unwrap();
    let ask = |token: Option<&str>, url: String| {
        let mut curl = Command::new("curl");
        curl.args(["-sk", "-o", "/dev/null", "-w", "%{http_code}"]);
        if let Some(token) = token {
            curl.args(["-H", &format!("Authorization: Bearer {token}")]);
        }
        String::from_utf8(run(curl.arg(url)).stdout).unwrap()
    };
    if available("curl") {
        let api = |path: &str| format!("{}{path}", server.url());
        assert_eq!(ask(None, api("/api/v1/namespaces/default/pods")), "403");
        assert_eq!(ask(Some(&token), api("/api/v1/namespaces/default/pods")), "403");
        assert_eq!(ask(Some(&token), api("/apis")), "200");
        let port = cluster.kubectl.words(&[
            "get",
            "node",
            "one",
            "-o",
            "jsonpath={.status.daemonEndpoints.kubeletEndpoint.Port}",
        ]);
        let node = |path: &str| format!("https://127.0.0.1:{port}{path}");
        assert_eq!(ask(None, node("/pods")), "401");
        assert_eq!(ask(Some(&token), node("/pods")), "403");
        assert_eq!(ask(Some(&token), node(&format!("/containerLogs/default/curious/c?{IMAGE}"))), "403");
    }
    cluster.kubectl.run("delete pod --all --wait=true");
}
