//! Pods of a machine's own files: they run, the API shows them, and neither depends on the other. Needs root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::*;
use crate::images::{archive, can_run, image};
use crate::join::free_port;
use crate::kubectl::Kubectl;
use crate::node_cluster::{Background, left_behind};

pub const IMAGE: &str = "test/busybox:1";

/// A control plane, and a machine that joins it.
pub struct Machine {
    folder: tempfile::TempDir,
    bridge: String,
    number: u8,
    port: String,
    pub node: Option<Child>,
    pub server: Proc,
    pub kubectl: Kubectl,
}

impl Machine {
    /// `number`: tests that run beside each other have other names and addresses. `more`: of its KubeletConfiguration.
    pub fn start(number: u8, more: &str) -> Option<Machine> {
        if !can_run() || !available("kubectl") {
            return None;
        }
        let folder = folder();
        let server = Proc::up(&folder.path().join("data"), &[]);
        let kubectl = Kubectl::new(&server, folder.path())?;
        let bridge = format!("s{}n{number}", std::process::id() % 60_000);
        let port = free_port().to_string();
        let machine = Machine { folder, bridge, number, port, node: None, server, kubectl };
        let image_folder = machine.path("image");
        fs::create_dir_all(&image_folder).unwrap();
        let file = archive(&image_folder, IMAGE);
        image(&machine.path("worker"), &["import", file.to_str().unwrap()]);
        fs::create_dir(machine.path("pods")).unwrap();
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: {}\nevictionHard: {{nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}}\nimageGCHighThresholdPercent: 100\n{more}",
            machine.path("pods").display()
        );
        fs::write(machine.path("kubelet.yaml"), config).unwrap();
        Some(machine)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run_node(&mut self, args: &[&str]) {
        let log = self.path("worker.log");
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let process = std::process::id() % 60_000;
        let child = Command::new(SETPOINT)
            .arg("node")
            .args(args)
            .args([
                "--name",
                "worker-1",
                "--node-ip",
                "127.0.0.1",
                "--port",
                &self.port,
                "--bridge",
                &self.bridge,
            ])
            .arg(format!("--pod-cidr=10.{}.{}.0/24", 100 + process % 100, self.number))
            .arg("--config")
            .arg(self.path("kubelet.yaml"))
            .arg("--data-dir")
            .arg(self.path("worker"))
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        self.node = Some(child);
    }

    /// A pod that says so when it begins, and ends when it is asked to.
    fn write_pod(&self, name: &str, says: &str) {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, labels: {{app: {name}}}}}\nspec:\n  terminationGracePeriodSeconds: 5\n  containers:\n  - name: c\n    image: {IMAGE}\n    command: [/bin/busybox, sh, -c, 'trap \"exit 0\" TERM; echo {says}; while :; do /bin/busybox sleep 0.1; done']\n"
        );
        fs::write(self.path("pods").join(format!("{name}.yaml")), text).unwrap();
    }

    fn remove_pod(&self, name: &str) {
        fs::remove_file(self.path("pods").join(format!("{name}.yaml"))).unwrap();
    }

    /// Null if there is none.
    fn mirror(&self, name: &str) -> Value {
        let found = self.kubectl.run(&format!("get pod {name}-worker-1 -o json --ignore-not-found"));
        serde_json::from_str(&found).unwrap_or_default()
    }

    /// Of the only container, if it runs.
    fn container_id(&self, name: &str) -> Option<String> {
        let mirror = self.mirror(name);
        let status = &mirror["status"]["containerStatuses"][0];
        let running = mirror["status"]["phase"] == "Running" && status["state"]["running"].is_object();
        running.then(|| status["containerID"].as_str().unwrap().to_owned())
    }

    fn until_running(&self, name: &str) -> String {
        let mut id = None;
        self.wait(&format!("{name} running"), || {
            id = self.container_id(name);
            id.is_some()
        });
        id.unwrap()
    }

    /// What pods of that name said, the newest directory last.
    fn said(&self, name: &str) -> String {
        let logs = fs::read_dir(self.path("worker/node/logs")).into_iter().flatten().flatten();
        let of_pod = |entry: &fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with(&format!("default_{name}-worker-1_"))
        };
        let logs = logs.filter(of_pod).map(|entry| fs::read_to_string(entry.path().join("c/0.log")));
        logs.map(Result::unwrap_or_default).collect()
    }

    pub fn node_log(&self) -> String {
        fs::read_to_string(self.path("worker.log")).unwrap_or_default()
    }

    pub fn wait(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !happened() {
            if begun.elapsed() > PATIENCE {
                let log = self.node_log();
                let pods = self.kubectl.run("get pods,events -A -o wide");
                panic!("{what} did not happen:\n{pods}\n{}", &log[log.len().saturating_sub(4000)..]);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn end_node(&mut self, name: &str) {
        let mut node = self.node.take().unwrap();
        signal(node.id(), name);
        node.wait().unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        self.server.signal("CONT");
        let mut reset = Command::new(SETPOINT);
        let done = run(reset.args(["node", "reset", "--yes", "--data-dir"]).arg(self.path("worker")));
        if !std::thread::panicking() {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            assert_eq!(left_behind(&self.bridge, self.folder.path()), Vec::<String>::new());
        }
    }
}

pub fn join(machine: &mut Machine) {
    let mut create = Command::new(SETPOINT);
    let url = machine.server.url();
    let made =
        run(create.args(["token", "create", "--server", &url, "--data-dir"]).arg(machine.path("data")));
    let line = String::from_utf8(made.stdout).unwrap();
    let words: Vec<&str> = line.split_whitespace().skip(2).collect();
    machine.run_node(&words);
}

fn annotation<'a>(pod: &'a Value, name: &str) -> &'a str {
    pod["metadata"]["annotations"][name].as_str().unwrap_or_default()
}

#[test]
fn static_pods_run_by_themselves_and_have_mirrors() {
    let Some(mut machine) = Machine::start(77, "") else { return };
    machine.write_pod("web", "first");
    join(&mut machine);

    let id = machine.until_running("web");
    let mirror = machine.mirror("web");
    let hash = annotation(&mirror, "kubernetes.io/config.mirror").to_owned();
    assert_eq!(annotation(&mirror, "kubernetes.io/config.hash"), hash);
    assert_eq!(annotation(&mirror, "kubernetes.io/config.source"), "file");
    assert!(annotation(&mirror, "kubernetes.io/config.seen").ends_with('Z'));
    assert_ne!(mirror["metadata"]["uid"], hash.as_str());
    let owner = &mirror["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&"Node".into(), &"worker-1".into(), &true.into())
    );
    assert!(mirror["status"]["observedGeneration"].is_null());
    assert_eq!(machine.kubectl.run("logs web-worker-1"), "first\n");
    let described = machine.kubectl.run("describe pod web-worker-1");
    assert!(described.contains("Container started"), "its events are shown with its mirror: {described}");

    // The mirror comes back, and the container knows nothing of it.
    for how in ["--grace-period=30", "--grace-period=0 --force"] {
        let uid = machine.mirror("web")["metadata"]["uid"].clone();
        machine.kubectl.run(&format!("delete pod web-worker-1 --wait=false {how}"));
        machine.wait("another mirror", || {
            let now = machine.mirror("web");
            now["metadata"]["uid"].is_string() && now["metadata"]["uid"] != uid
        });
        assert_eq!(machine.until_running("web"), id, "{how}");
    }

    machine.write_pod("web", "second");
    machine.wait("another pod", || machine.container_id("web").is_some_and(|now| now != id));
    let second = machine.until_running("web");
    assert_ne!(annotation(&machine.mirror("web"), "kubernetes.io/config.mirror"), hash);
    machine.wait("what it says", || machine.said("web").contains("second"));

    // Without an API: what runs goes on, though its agent is killed, and more can be had.
    machine.server.signal("STOP");
    machine.end_node("KILL");
    machine.write_pod("late", "begun");
    machine.run_node(&[]);
    machine.wait("a pod without an API", || machine.said("late").contains("begun"));
    assert_eq!(machine.said("web").matches("second").count(), 1, "it was not started again");
    machine.server.signal("CONT");
    machine.until_running("late");
    machine.wait("the status of the one before", || machine.container_id("web").as_deref() == Some(&second));
    assert_eq!(machine.mirror("web")["status"]["containerStatuses"][0]["restartCount"], 0);

    // Its mirror goes as it was.
    let watch = ["get", "pod", "late-worker-1", "--watch", "--output-watch-events", "--no-headers"];
    let watch = Background::start(machine.kubectl.command(&watch), "");
    watch.line("it is watched", |line| line.starts_with("ADDED"));
    machine.remove_pod("late");
    watch.line("it is deleted", |line| {
        assert!(line.contains("1/1") && !line.contains("Completed"), "{line}");
        line.starts_with("DELETED")
    });
    machine.wait("the end of a pod whose file is gone", || machine.mirror("late").is_null());
    machine.wait("nothing left of it", || machine.said("late").is_empty());

    // What cannot be a pod says why, and hurts no other.
    let refused = fs::read_to_string(machine.path("pods/web.yaml")).unwrap();
    let refused =
        refused.replace("name: web", "name: refused").replace("spec:\n", "spec:\n  serviceAccountName: x\n");
    fs::write(machine.path("pods/refused.yaml"), refused).unwrap();
    machine
        .wait("a refusal", || machine.node_log().contains("static pods may not reference serviceaccounts"));

    // Gone while nobody looked.
    machine.end_node("TERM");
    machine.remove_pod("web");
    machine.run_node(&[]);
    machine.wait("the mirror's end", || machine.mirror("web").is_null());
    machine.wait("nothing left of it", || machine.said("web").is_empty());
    assert!(Path::new(&machine.path("pods")).exists());
    machine.end_node("TERM");
}

/// Answers every request that has the header with what is served now; `None`: with an error.
struct Source {
    address: String,
    served: std::sync::Arc<std::sync::Mutex<Option<String>>>,
}

impl Source {
    fn start() -> Source {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let served = std::sync::Arc::new(std::sync::Mutex::new(None::<String>));
        let serve = served.clone();
        // It ends with the tests.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut head = [0; 4096];
                let read = stream.read(&mut head).unwrap_or(0);
                let head = String::from_utf8_lossy(&head[..read]).to_ascii_lowercase();
                let known = head.starts_with("get /pods?of=here ") && head.contains("x-token: secret\r\n");
                let (status, body) = match serve.lock().unwrap().clone() {
                    Some(body) if known => ("200 OK", body),
                    _ => ("403 Forbidden", String::new()),
                };
                let length = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        Source { address, served }
    }

    fn serve(&self, body: Option<&str>) {
        *self.served.lock().unwrap() = body.map(str::to_owned);
    }
}

#[test]
fn static_pods_of_a_url_run_as_it_says() {
    let source = Source::start();
    let config = format!(
        "staticPodURL: http://{}/pods?of=here\nstaticPodURLHeader: {{X-Token: [secret]}}\nhttpCheckFrequency: 1s\n",
        source.address
    );
    let Some(mut machine) = Machine::start(80, &config) else { return };
    let pod = |name: &str, says: &str| {
        format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"terminationGracePeriodSeconds":1,"containers":[{{"name":"c","image":"{IMAGE}","command":["/bin/busybox","sh","-c","echo {says}; exec /bin/busybox sleep 1000"]}}]}}}}"#
        )
    };
    let list =
        |pods: &[String]| format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{}]}}"#, pods.join(","));
    machine.write_pod("file", "from a file");
    join(&mut machine);
    // The other source has not answered yet.
    machine.until_running("file");
    machine.wait("the refusal is told", || machine.node_log().contains("/pods?of=here: 403 Forbidden"));
    source.serve(Some(&list(&[pod("one", "first"), pod("two", "second")])));
    let first = machine.until_running("one");
    machine.until_running("two");
    let mirror = machine.mirror("one");
    assert_eq!(annotation(&mirror, "kubernetes.io/config.source"), "http");
    let tolerations = mirror["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
    assert!(
        !tolerations.iter().any(|one| one["operator"] == "Exists" && one["key"].is_null()),
        "{tolerations:?}"
    );
    assert_eq!(machine.kubectl.run("logs two-worker-1"), "second\n");

    // It cannot be asked, or talks nonsense: what it said last holds.
    source.serve(None);
    machine.wait("it is told", || machine.node_log().matches("403 Forbidden").count() > 1);
    source.serve(Some("not: a pod"));
    machine.wait("it is told", || machine.node_log().contains("couldn't parse as pod"));
    assert_eq!(machine.container_id("one").as_ref(), Some(&first));

    // One pod alone; the other goes.
    let alone = pod("one", "changed").replacen('{', r#"{"apiVersion":"v1","kind":"Pod","#, 1);
    source.serve(Some(&alone));
    machine.wait("the other is gone", || machine.mirror("two").is_null());
    machine.wait("another pod", || machine.container_id("one").is_some_and(|now| now != first));
    source.serve(Some(""));
    machine.wait("it is gone as well", || machine.mirror("one").is_null());
    machine.until_running("file");
    machine.end_node("TERM");
}

#[test]
fn pods_end_for_a_static_pod_that_does_not_fit() {
    let Some(mut machine) = Machine::start(79, "") else { return };
    join(&mut machine);
    let mut all = String::new();
    machine.wait("the node is there", || {
        let ready = machine.kubectl.try_run("get node worker-1 -o jsonpath={.status.allocatable.cpu}");
        all = String::from_utf8_lossy(&ready.stdout).into_owned();
        ready.status.success() && !all.is_empty()
    });
    let all =
        all.strip_suffix('m').map_or_else(|| all.parse::<i64>().unwrap() * 1000, |m| m.parse().unwrap());
    let pods = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: big}}\nspec: {{nodeName: worker-1, terminationGracePeriodSeconds: 1, containers: [{{name: c, image: {IMAGE}, command: [/bin/busybox, sleep, '1000'], resources: {{requests: {{cpu: {}m}}}}}}]}}\n---\napiVersion: v1\nkind: Pod\nmetadata: {{name: small}}\nspec: {{nodeName: worker-1, terminationGracePeriodSeconds: 1, containers: [{{name: c, image: {IMAGE}, command: [/bin/busybox, sleep, '1000'], resources: {{requests: {{cpu: 10m}}}}}}]}}\n",
        all - 100
    );
    machine.kubectl.file("pods.yaml", &pods);
    let phase = |name: &str| machine.kubectl.run(&format!("get pod {name} -o jsonpath={{.status.phase}}"));
    machine.wait("they can be made", || machine.kubectl.try_run("apply -f pods.yaml").status.success());
    machine.wait("they run", || phase("big") == "Running" && phase("small") == "Running");

    machine.write_pod("own", "begun");
    let asks = fs::read_to_string(machine.path("pods/own.yaml")).unwrap();
    let asks = asks.replace("    command:", "    resources: {requests: {cpu: 150m}}\n    command:");
    fs::write(machine.path("pods/own.yaml"), &asks).unwrap();
    machine.wait("it runs", || {
        let shown = machine.mirror("own");
        shown["status"]["phase"] == "Running"
            && shown["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "150m"
    });
    let big: Value = serde_json::from_str(&machine.kubectl.run("get pod big -o json")).unwrap();
    let status = &big["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&"Failed".into(), &"Preempting".into()));
    assert_eq!(status["message"], "Preempted in order to admit critical pod");
    let conditions = status["conditions"].as_array().unwrap();
    let disrupted = conditions.iter().find(|one| one["type"] == "DisruptionTarget").expect("a condition");
    assert_eq!(
        (&disrupted["status"], &disrupted["reason"], &disrupted["message"]),
        (
            &"True".into(),
            &"TerminationByKubelet".into(),
            &"Pod was preempted by Kubelet to accommodate a critical pod.".into()
        )
    );
    machine.wait("it is told", || {
        machine.kubectl.run("get events").contains("Preempted in order to admit critical pod")
    });
    assert_eq!(phase("small"), "Running");

    // More than the node has: nobody ends for that.
    let too_much = asks.replace("name: own", "name: huge").replace("150m", "9000");
    fs::write(machine.path("pods/huge.yaml"), too_much).unwrap();
    machine
        .wait("it is refused", || machine.mirror("huge")["status"]["reason"] == "UnexpectedAdmissionError");
    let message = machine.mirror("huge")["status"]["message"].clone();
    let told = "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: ";
    assert!(message.as_str().unwrap().contains(told), "{message}");
    assert_eq!(phase("small"), "Running");
    machine.kubectl.run("delete pods big small --wait=true");
    machine.end_node("TERM");
}
