//! `setpoint server` with nodes that joined, and nothing else: what they use is known. Needs root.

use std::path::Path;

use crate::containerd::Containerd;
use crate::harness::*;
use crate::images::{archive, can_run, image};
use crate::join::{Node, bridge, setpoint};
use crate::kubectl::Kubectl;
use crate::node_cluster::{Cluster, IMAGE, Runtime, ask_from, helper_in, left_behind, write_config};

struct Worker {
    name: &'static str,
    bridge: String,
    node: Option<Node>,
    data: std::path::PathBuf,
}

impl Worker {
    /// `line`: as `setpoint token create` printed it.
    fn join(folder: &Path, at: u8, name: &'static str, line: &str, archive: &Path) -> Worker {
        let range = format!("10.{}.{}.0/24", 100 + std::process::id() % 100, 200 + at);
        Worker::start(folder, at, name, archive, |bridge, data, config| {
            let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
            words.extend(["--config", config]);
            Node::start_as(name, bridge, &range, data, &words)
        })
    }

    fn start(
        folder: &Path,
        at: u8,
        name: &'static str,
        archive: &Path,
        start: impl FnOnce(&str, &Path, &str) -> Node,
    ) -> Worker {
        let data = folder.join(name);
        let imported = image(&data, &["import", archive.to_str().unwrap()]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        let config = folder.join("kubelet.yaml").display().to_string();
        // No bridge's name begins with another's, also of other processes: what is left behind is found by that.
        let bridge = format!("{}n{at}", bridge("w"));
        let node = start(&bridge, &data, &config);
        // Whatever comes of it is cleaned up.
        let mut worker = Worker { name, bridge, node: Some(node), data };
        worker.node.as_mut().unwrap().until_log("has joined", 1);
        worker
    }
}

impl Worker {
    /// By what it keeps, without a token.
    fn start_again(cluster: &Cluster, worker: &Worker) -> Node {
        let config = cluster.folder.path().join("kubelet.yaml").display().to_string();
        let range = format!("10.{}.205.0/24", 100 + std::process::id() % 100);
        Node::start_as(worker.name, &worker.bridge, &range, &worker.data, &["node", "--config", &config])
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.node.take());
        let (done, _, error) = setpoint(&["node", "reset", "--yes"], &self.data);
        if !std::thread::panicking() {
            assert!(done, "{error}");
            assert_eq!(left_behind(&self.bridge, &self.data), Vec::<String>::new());
        }
    }
}

#[test]
fn what_joined_nodes_use_is_shown_and_scales() {
    if !can_run() || !available("kubectl") {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start_cluster(
        &data,
        &["--enable-bootstrap-token-auth=true", "--horizontal-pod-autoscaler-sync-period=1s"],
    );
    let Some(kubectl) = Kubectl::new(&server, folder.path()) else { return };
    std::fs::create_dir(folder.path().join("image")).unwrap();
    let archive = archive(&folder.path().join("image"), &format!("docker.io/{IMAGE}"));
    write_config(folder.path(), "");
    let (done, line, error) = setpoint(&["token", "create", "--server", &server.url()], &data);
    assert!(done, "{error}");
    let join = |at, name| Worker::join(folder.path(), at, name, &line, &archive);
    let (one, mut two) = (join(1, "one"), join(2, "two"));

    kubectl.file("busy.yaml", &BUSY.replace("IMAGE", IMAGE));
    kubectl.run("apply -f busy.yaml");
    let top = |words: &str| {
        let said = kubectl.try_run(&format!("top {words} --no-headers"));
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        text.lines().map(|line| line.split_whitespace().next().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    wait_until("both nodes are shown", || top("node") == [one.name, two.name]);
    wait_until("the pod is shown", || top("pod").iter().any(|pod| pod.starts_with("busy-")));
    wait_until("the autoscaler saw what it uses", || {
        kubectl.run("get deployment busy -o jsonpath={.spec.replicas}") == "2"
    });
    let condition = "jsonpath={.status.conditions[?(@.type==\"ScalingActive\")].reason}";
    assert_eq!(kubectl.words(&["get", "hpa", "busy", "-o", condition]), "ValidMetricFound");

    // One is gone; the other is shown as before.
    drop(two.node.take());
    let shown = "get --raw /apis/metrics.k8s.io/v1beta1/nodes";
    wait_until("it is noticed", || !kubectl.run(shown).contains("\"name\":\"two\""));
    assert!(kubectl.run(shown).contains("\"name\":\"one\""));
    kubectl.run("delete hpa,deployment --all");
    kubectl.run("delete pods --all --force --grace-period=0");
    drop((one, two));
    server.stop();
}

#[test]
fn the_printed_line_alone_makes_a_node_that_runs_pods() {
    // The first of these ranges is the control plane's own machine's.
    let cidr = |at: u8, size: u8| format!("10.{}.{at}.0/{size}", 100 + std::process::id() % 100);
    let cluster_cidr = format!("--cluster-cidr={}", cidr(240, 23));
    let Some(cluster) = Cluster::with_flags(240, Runtime::Embedded, "", &[&cluster_cidr]) else { return };
    let (done, line, told) = setpoint(&["token", "create"], &cluster.data());
    assert!(done, "{told}");
    assert!(told.contains("is this machine's loopback") && told.contains("--listen 0.0.0.0:6443"), "{told}");
    let archive = archive(&cluster.folder.path().join("image"), &format!("docker.io/{IMAGE}"));
    let worker = Worker::start(cluster.folder.path(), 3, "two", &archive, |bridge, data, config| {
        let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
        // Whatever else fills the disk of this machine.
        words.extend(["--config", config]);
        Node::start_by("two", bridge, data, &words)
    });
    cluster.kubectl.run("wait --for=condition=Ready node/two --timeout=120s");
    let range = |node: &str| cluster.kubectl.run(&format!("get node {node} -o jsonpath={{.spec.podCIDR}}"));
    assert_eq!((range("one"), range("two")), (cidr(240, 24), cidr(241, 24)));
    let command = "command: [/bin/busybox, sleep, '1000']";
    cluster.run_pod("p", &format!("nodeName: two, containers: [{{name: c, image: IMAGE, {command}}}]"));
    cluster.wait_for("Running", &["p"]);
    let address = cluster.kubectl.run("get pod p -o jsonpath={.status.podIP}");
    assert!(address.starts_with(cidr(241, 24).trim_end_matches("0/24")), "{address}");
    cluster.kubectl.run("delete pod p --wait=true");
    drop(worker);
}

#[test]
fn pods_of_a_joined_node_reach_the_api_server() {
    // Where another node of this machine can reach the control plane, and what its certificate names.
    let api = format!("10.{}.242.1", 100 + std::process::id() % 100);
    let advertise = format!("--advertise-address={api}");
    let Some(cluster) = Cluster::with_flags(242, Runtime::Embedded, "", &[&advertise]) else { return };
    if !available("curl") || !available("nsenter") {
        return;
    }
    let url = cluster.server.as_ref().unwrap().url();
    let url = format!("https://{api}:{}", url.rsplit(':').next().unwrap());
    let (done, line, told) = setpoint(&["token", "create", "--server", &url], &cluster.data());
    assert!(done, "{told}");
    let archive = archive(&cluster.folder.path().join("image"), &format!("docker.io/{IMAGE}"));
    let mut worker = Worker::join(cluster.folder.path(), 5, "two", &line, &archive);
    cluster.kubectl.run("wait --for=condition=Ready node/two --timeout=120s");
    let command = "command: [/bin/busybox, sleep, '1000']";
    cluster.run_pod("p", &format!("nodeName: two, containers: [{{name: c, image: IMAGE, {command}}}]"));
    cluster.wait_for("Running", &["p"]);
    let (ca, pid) = (cluster.data().join("pki/ca.crt"), helper_in(&worker.data, &cluster.uid("p")));
    let ask = || ask_from(pid, "https://10.96.0.1/version", &["--cacert", ca.to_str().unwrap()]);
    let answer = ask();
    assert!(answer.contains("\"gitVersion\"") && answer.ends_with("|200"), "{answer}");

    // Also while the node does not run, whose data directory says by which command it does.
    worker.node.take().unwrap().stop();
    let answer = ask();
    assert!(answer.ends_with("|200"), "{answer}");
    let (done, told, error) = setpoint(&["down"], &worker.data);
    assert!(done && told.starts_with("Not running"), "{told}{error}");
    let mut again = Worker::start_again(&cluster, &worker);
    again.until_log("has joined", 2);
    let (done, told, error) = setpoint(&["down"], &worker.data);
    assert!(done, "{error}");
    assert!(told.contains("; `node` starts it again."), "{told}");
    assert!(
        told.contains("One pod goes on running until `") && told.contains(" node reset --data-dir "),
        "{told}"
    );
    drop(again);
    cluster.kubectl.run("delete pod p --force --grace-period=0");
}

#[test]
fn a_joined_node_runs_its_pods_in_containerd_and_a_reset_ends_them() {
    if !can_run() || !available("kubectl") {
        return;
    }
    let folder = folder();
    let data = folder.path().join("data");
    let server = Proc::start_cluster(&data, &["--enable-bootstrap-token-auth=true"]);
    let Some(kubectl) = Kubectl::new(&server, folder.path()) else { return };
    let range = format!("10.{}.{}.0/24", 100 + std::process::id() % 100, 204);
    let [own, images, node_data] = ["c", "image", "node"].map(|name| folder.path().join(name));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir(&images).unwrap();
    let Some(containerd) = Containerd::start(&own, &range) else { return };
    containerd.import(&archive(&images, &format!("docker.io/{IMAGE}")));
    let config = write_config(folder.path(), "").display().to_string();
    let (done, line, error) = setpoint(&["token", "create", "--server", &server.url()], &data);
    assert!(done, "{error}");
    let endpoint = containerd.endpoint();
    let mut words: Vec<&str> = line.split_whitespace().skip(1).collect();
    words.extend(["--config", &config, "--container-runtime-endpoint", &endpoint]);
    let bridge = bridge("x");
    let mut node = Node::start_as("joined", &bridge, &range, &node_data, &words);
    node.until_log("has joined", 1);
    kubectl.run("wait --for=condition=Ready node/joined --timeout=120s");
    let version = kubectl.run("get node joined -o jsonpath={.status.nodeInfo.containerRuntimeVersion}");
    assert!(version.starts_with("containerd://"), "{version}");
    let spec =
        r#"{"spec":{"containers":[{"name":"c","image":"IMAGE","command":["/bin/busybox","sleep","1000"]}]}}"#;
    let overrides = format!("--overrides={}", spec.replace("IMAGE", IMAGE));
    kubectl.words(&["run", "p", &format!("--image={IMAGE}"), &overrides]);
    kubectl.run("wait --for=condition=Ready pod/p --timeout=120s");
    assert_eq!(containerd.tasks(), 2);

    // It remembers which runtime has its pods.
    node.stop();
    let forgetful = ["node", "--config", &config];
    let mut node = Node::start_as("joined", &bridge, &range, &node_data, &forgetful);
    let told = node.ends();
    let right = format!("start it with --container-runtime-endpoint {endpoint}");
    assert!(told.contains(&right), "{told}");

    let (done, _, error) = setpoint(&["node", "reset", "--yes"], &node_data);
    assert!(done, "{error}");
    assert_eq!(containerd.containers(), Vec::<String>::new());
    drop(containerd);
    assert_eq!(left_behind(&bridge, &node_data), Vec::<String>::new());
    server.stop();
}

const BUSY: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: c
        image: IMAGE
        command: [/bin/busybox, sh, -c, "while :; do :; done"]
        resources: {requests: {cpu: 10m}, limits: {cpu: 50m}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  minReplicas: 1
  maxReplicas: 2
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
"#;
