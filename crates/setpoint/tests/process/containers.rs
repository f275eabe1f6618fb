//! `setpoint up` with a node of its own: real containers, from an image the test makes. Needs root.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::*;
use crate::images::{archive, can_run, image};
use crate::kubectl::Kubectl;

const IMAGE: &str = "test/busybox:1";

/// A cluster with one real node, and kubectl.
struct Cluster {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    bridge: String,
    server: Option<Proc>,
    kubectl: Kubectl,
}

impl Cluster {
    /// `number`: tests that run beside each other have other addresses and names.
    fn start(number: u8) -> Option<Cluster> {
        if !can_run() || !available("kubectl") {
            return None;
        }
        let folder = folder();
        let data = folder.path().join("data");
        std::fs::create_dir_all(folder.path().join("image")).unwrap();
        let file = archive(&folder.path().join("image"), IMAGE);
        image(&data, &["import", file.to_str().unwrap()]);
        // Whatever else fills the disk of this machine.
        let config = folder.path().join("kubelet.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}\nimageGCHighThresholdPercent: 100\n";
        std::fs::write(&config, text).unwrap();
        let process = std::process::id() % 60_000;
        let bridge = format!("t{process}n{number}");
        let flags = vec![
            "--node=true".to_owned(),
            "--node-port=0".to_owned(),
            "--node-name=one".to_owned(),
            format!("--bridge={bridge}"),
            format!("--node-config={}", config.display()),
            format!("--pod-cidr=10.{}.{}.0/24", 100 + process % 100, number),
        ];
        let server = start(&data, &flags);
        let kubectl = Kubectl::new(&server, folder.path())?;
        Some(Cluster { folder, flags, bridge, server: Some(server), kubectl })
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    fn restart(&mut self) {
        self.server = Some(start(&self.data(), &self.flags));
    }

    fn apply(&self, text: &str) {
        self.kubectl.file("pods.yaml", &text.replace("IMAGE", IMAGE));
        self.kubectl.run("apply -f pods.yaml");
    }

    fn pod(&self, name: &str) -> Value {
        serde_json::from_str(&self.kubectl.run(&format!("get pod {name} -o json"))).unwrap()
    }

    fn container(&self, pod: &str, container: &str) -> Value {
        let pod = self.pod(pod);
        let of = |list: &str| pod["status"][list].as_array().cloned().unwrap_or_default();
        let all = [of("initContainerStatuses"), of("containerStatuses")].concat();
        all.into_iter().find(|one| one["name"] == container).unwrap_or_default()
    }

    fn phase(&self, pod: &str) -> String {
        self.pod(pod)["status"]["phase"].as_str().unwrap_or_default().to_owned()
    }

    fn wait(&self, what: &str, mut happened: impl FnMut(&Cluster) -> bool) {
        let begun = Instant::now();
        while !happened(self) {
            if begun.elapsed() > Duration::from_secs(60) {
                let log = self.server.as_ref().map(Proc::log).unwrap_or_default();
                let pods = self.kubectl.run("get pods -A -o wide");
                let events = self.kubectl.run("get events -A");
                panic!(
                    "{what} did not happen:\n{pods}\n{events}\n{}",
                    &log[log.len().saturating_sub(4000)..]
                );
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self, pod: &str, container: &str) -> String {
        let folders = std::fs::read_dir(self.data().join("node/logs")).unwrap();
        let of_pod = |entry: &std::fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with(&format!("default_{pod}_"))
        };
        let folder = folders.map(|entry| entry.unwrap()).find(of_pod).expect("a folder of logs");
        std::fs::read_to_string(folder.path().join(container).join("0.log")).unwrap()
    }
}

fn start(data: &Path, flags: &[String]) -> Proc {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Proc::start_by("up", data, &flags)
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        let mut reset = std::process::Command::new(SETPOINT);
        let done = run(reset.args(["reset", "--yes", "--data-dir"]).arg(self.data()));
        if !std::thread::panicking() {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(left_behind(&self.bridge, self.folder.path()), Vec::<String>::new());
        }
    }
}

/// What a node may have on a machine outside of its directory.
pub fn left_behind(bridge: &str, folder: &Path) -> Vec<String> {
    let mut left = Vec::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(mounts.lines().filter(|line| line.contains(folder.to_str().unwrap())).map(str::to_owned));
    let interfaces = std::fs::read_dir("/sys/class/net").unwrap();
    let names = interfaces.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    left.extend(names.filter(|name| name.starts_with(bridge)));
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(groups) = std::fs::read_to_string(process.path().join("cgroup")) else { continue };
        if groups.contains(&format!("/{bridge}")) {
            left.push(format!("{}: {groups}", process.path().display()));
        }
    }
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
        let group = hierarchy.path().join(bridge);
        left.extend(group.exists().then(|| group.display().to_string()));
    }
    left
}

#[test]
fn pods_live_as_containers() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.apply(
        r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: two}
---
apiVersion: v1
kind: Pod
metadata: {name: many}
spec:
  terminationGracePeriodSeconds: 2
  initContainers:
  - {name: first, image: IMAGE, command: [/bin/busybox, sh, -c, "echo init > /data/file"], volumeMounts: [{name: data, mountPath: /data}]}
  - {name: side, image: IMAGE, restartPolicy: Always, command: [/bin/busybox, sleep, "1000"]}
  containers:
  - name: web
    image: IMAGE
    command: [/bin/busybox, sh, -c, "busybox cat /data/file /part/none /settings/a; echo $FROM $(PLAIN); exec busybox httpd -f -p 8080 -h /settings"]
    env: [{name: PATH, value: /bin}, {name: PLAIN, value: x}, {name: FROM, valueFrom: {configMapKeyRef: {name: settings, key: b}}}]
    readinessProbe: {httpGet: {path: /a, port: 8080}, periodSeconds: 1}
    lifecycle: {postStart: {exec: {command: [/bin/busybox, touch, /data/started]}}}
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /data}, {name: settings, mountPath: /settings}, {name: data, mountPath: /part, subPath: part}]
  - {name: fails, image: IMAGE, command: [/bin/busybox, sh, -c, "echo bye > /dev/termination-log; exit 3"]}
  volumes: [{name: data, emptyDir: {}}, {name: settings, configMap: {name: settings}}]
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, echo, done]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: missing}
spec: {containers: [{name: c, image: "127.0.0.1:9/nothing:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/nonesuch]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, "1000"], envFrom: [{configMapRef: {name: later}}]}]}
"#,
    );
    cluster.wait("a pod that ends succeeds", |cluster| cluster.phase("ends") == "Succeeded");
    assert!(cluster.log("ends", "c").ends_with("stdout F done\n"));
    let host_name =
        cluster.kubectl.run("get node one -o jsonpath={.metadata.labels.kubernetes\\.io/hostname}");
    assert_eq!(host_name, "one", "nodes of one machine are told apart by the label, too");
    cluster.wait("the probe succeeds", |cluster| cluster.container("many", "web")["ready"] == true);
    assert!(cluster.log("many", "web").contains("stdout F init\n"), "{}", cluster.log("many", "web"));
    assert!(cluster.log("many", "web").contains("stdout F 1two x\n"));
    let side = cluster.container("many", "side");
    assert!(side["state"]["running"].is_object() && side["started"] == true, "{side}");
    cluster.wait("a container that fails waits", |cluster| {
        cluster.container("many", "fails")["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    });
    let last = &cluster.container("many", "fails")["lastState"]["terminated"];
    assert_eq!((&last["exitCode"], &last["message"]), (&3.into(), &"bye\n".into()));
    cluster.wait("a missing image is waited for", |cluster| {
        cluster.container("missing", "c")["state"]["waiting"]["reason"] == "ImagePullBackOff"
    });
    cluster.wait("a command that is not there fails", |cluster| cluster.phase("bad") == "Failed");
    assert_eq!(cluster.container("bad", "c")["state"]["terminated"]["reason"], "StartError");
    let waiting = cluster.container("waits", "c");
    assert_eq!(waiting["state"]["waiting"]["reason"], "CreateContainerConfigError", "{waiting}");
    cluster.kubectl.run("create configmap later --from-literal=k=v");
    cluster.wait("what it waited for has come", |cluster| cluster.phase("waits") == "Running");

    // Through the API server to the node's own port and back.
    assert_eq!(cluster.kubectl.run("logs ends"), "done\n");
    let words = ["exec", "many", "-c", "web", "--", "/bin/busybox", "sh", "-c", "echo $PLAIN; exit 4"];
    let executed = cluster.kubectl.try_words(&words);
    let said = (String::from_utf8_lossy(&executed.stdout), String::from_utf8_lossy(&executed.stderr));
    assert_eq!(said, ("x\n".into(), "command terminated with exit code 4\n".into()));
    let answer = cluster.kubectl.run("get --raw /api/v1/namespaces/default/pods/many:8080/proxy/a");
    assert_eq!(answer, "1");

    // What config maps say reaches the pods that run.
    cluster.kubectl.words(&["patch", "configmap", "settings", "-p", r#"{"data":{"a":"99"}}"#]);
    let uid = cluster.pod("many")["metadata"]["uid"].as_str().unwrap().to_owned();
    let file = format!("node/pods/{uid}/volumes/kubernetes.io~configmap/settings/a");
    cluster.wait("a file changes", |cluster| {
        std::fs::read_to_string(cluster.data().join(&file)).is_ok_and(|text| text == "99")
    });

    cluster.kubectl.run("delete pod --all --wait=true");
    let pods = std::fs::read_dir(cluster.data().join("node/pods")).unwrap();
    cluster.wait("nothing is left of the pods", |cluster| {
        std::fs::read_dir(cluster.data().join("node/sandboxes")).unwrap().count() == 0
    });
    drop(pods);
}

#[test]
fn a_killed_agent_finds_its_pods_again() {
    let Some(mut cluster) = Cluster::start(2) else { return };
    cluster.apply(
        r#"
apiVersion: v1
kind: Pod
metadata: {name: stays}
spec: {terminationGracePeriodSeconds: 1, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "i=0; while true; do echo $i; i=$((i+1)); /bin/busybox sleep 0.1; done"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: ends}
spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, "until [ -e /flag/go ]; do /bin/busybox sleep 0.05; done; exit 7"], volumeMounts: [{name: flag, mountPath: /flag}]}], volumes: [{name: flag, hostPath: {path: FLAG, type: DirectoryOrCreate}}]}
"#
        .replace("FLAG", cluster.folder.path().join("flag").to_str().unwrap())
        .as_str(),
    );
    for pod in ["stays", "ends"] {
        cluster.wait("it runs", |cluster| cluster.phase(pod) == "Running");
    }
    let before = cluster.container("stays", "c");
    cluster.server.take().unwrap().kill();
    // Nobody is there to see it end.
    std::fs::write(cluster.folder.path().join("flag/go"), "").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    cluster.restart();
    cluster.wait("the end is told", |cluster| cluster.phase("ends") == "Failed");
    assert_eq!(cluster.container("ends", "c")["state"]["terminated"]["exitCode"], 7);
    let after = cluster.container("stays", "c");
    for field in ["containerID", "restartCount", "state"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    // Its log has no gap.
    let log = cluster.log("stays", "c");
    let numbers: Vec<usize> =
        log.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    // Deleted while nobody looks: gone when somebody does.
    cluster.kubectl.run("delete pod stays --wait=true");
    cluster.wait("nothing is left of it", |cluster| {
        std::fs::read_dir(cluster.data().join("node/pods")).unwrap().count() <= 1
    });
}
