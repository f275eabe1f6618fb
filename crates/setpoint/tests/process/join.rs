//! A machine joins the cluster: token, discovery, certificates, Node object; and the same node again without the token.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use auth::pki::{Identity, certificates_from_pem};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::{ServerName, UnixTime};
use serde_json::{Value, json};

use crate::harness::*;
use crate::node_cluster::left_behind;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A running node; killed when dropped.
pub struct Node {
    child: Child,
    log: PathBuf,
}

impl Node {
    fn start(data_dir: &Path, args: &[&str]) -> Node {
        Node::start_as("worker-1", &bridge("j"), "10.99.7.0/24", data_dir, args)
    }

    /// A bridge and addresses of its own for each node of the machine.
    pub fn start_as(name: &str, bridge: &str, range: &str, data_dir: &Path, args: &[&str]) -> Node {
        let more = ["--node-ip", "127.0.0.1", "--node-labels", "role=test", "--pod-cidr", range];
        Node::start_by(name, bridge, data_dir, &[args, &more].concat())
    }

    /// With no more flags than several nodes of one machine need.
    pub fn start_by(name: &str, bridge: &str, data_dir: &Path, args: &[&str]) -> Node {
        let log = data_dir.with_extension("log");
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(SETPOINT)
            .args(args)
            .args(["--name", name, "--bridge", bridge, "--port", &free_port().to_string()])
            .arg("--data-dir")
            .arg(data_dir)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Node { child, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn until_log(&mut self, what: &str, times: usize) {
        wait_until(what, || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the node ended with {status}: {}", self.log());
            }
            self.log().matches(what).count() >= times
        });
    }

    /// Waits until it ends by itself; what it said.
    pub fn ends(&mut self) -> String {
        wait_until("the node ends", || self.child.try_wait().unwrap().is_some());
        self.log()
    }

    pub fn stop(mut self) {
        signal(self.child.id(), "TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "ended with {status}: {}", self.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tests that run at the same time are in other processes.
pub fn bridge(prefix: &str) -> String {
    format!("{prefix}{}", std::process::id() % 60_000)
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn setpoint(args: &[&str], data_dir: &Path) -> (bool, String, String) {
    let ran = run(Command::new(SETPOINT).args(args).arg("--data-dir").arg(data_dir));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (ran.status.success(), text(&ran.stdout), text(&ran.stderr))
}

/// The certificate in the file is good for the names, by the cluster's authority.
fn verify_serving(server: &Proc, file: &Path, names: &[&str]) {
    let pem = std::fs::read(file).unwrap();
    let leaf = certificates_from_pem(&pem).unwrap().remove(0);
    let mut roots = rustls::RootCertStore::empty();
    for authority in certificates_from_pem(&std::fs::read(server.pki("ca.crt")).unwrap()).unwrap() {
        roots.add(authority).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    use rustls::client::danger::ServerCertVerifier;
    for name in names {
        let name = ServerName::try_from((*name).to_owned()).unwrap();
        verifier.verify_server_cert(&leaf, &[], &name, &[], UnixTime::now()).unwrap();
    }
    let other = ServerName::try_from("worker-2").unwrap();
    assert!(verifier.verify_server_cert(&leaf, &[], &other, &[], UnixTime::now()).is_err());
}

fn request_of<'a>(list: &'a Value, signer: &str) -> &'a Value {
    let items = list["items"].as_array().unwrap();
    let mut of_signer =
        items.iter().filter(|csr| csr["spec"]["signerName"] == format!("kubernetes.io/{signer}"));
    let found = of_signer.next().unwrap_or_else(|| panic!("no request of {signer}: {list}"));
    assert!(of_signer.next().is_none(), "it was asked for once: {list}");
    found
}

#[test]
fn without_root_nothing_is_asked_of_the_cluster() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return skipped("becoming another user needs root");
    }
    let folder = folder();
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    // Where another user may run it from.
    let program = folder.path().join("setpoint");
    std::fs::copy(SETPOINT, &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["node", "--server", "https://127.0.0.1:1", "--token", "abcdef.0123456789abcdef"]);
    let ran = run(command.args(["--data-dir", "/nowhere"]).uid(65534).gid(65534));
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(!ran.status.success() && error.contains("needs root: run `setpoint node` as root"), "{error}");

    let mut command = Command::new(&program);
    let ran = run(command.args(["up", "--node=true", "--data-dir", "/nowhere"]).uid(65534).gid(65534));
    let error = String::from_utf8_lossy(&ran.stderr);
    let told = "containers need root; run as root, or use simulated nodes with --simulated-nodes 3";
    assert!(!ran.status.success() && error.contains(told) && error.lines().count() == 1, "{error}");

    // Where none is asked for, there is none.
    let mut command = Command::new(&program);
    command.uid(65534).gid(65534);
    let up = Proc::start_as(
        command,
        "up",
        &folder.path().join("data"),
        &["--simulated-nodes", "1", "--controllers=-*"],
    );
    let told = "  nodes       1 simulated: pods run without containers\n";
    wait_until("its announcement", || up.log().contains(told));
    up.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_joins_with_a_token_and_stays_without_it() {
    if !rustix::process::geteuid().is_root() {
        return skipped("a node needs root");
    }
    let folder = folder();
    let (data, node_data) = (folder.path().join("data"), folder.path().join("worker"));
    let server = Proc::up(&data, &[]);
    let admin = server.client().await;

    let (ok, line, error) = setpoint(&["token", "create", "--server", &server.url()], &data);
    assert!(ok, "{error}");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[0], words[1], words.len()), ("setpoint", "node", 8), "{line}");
    let token = words[5];
    let (_, listed, _) = setpoint(&["token", "list"], &data);
    assert!(listed.contains(token) && listed.contains("authentication,signing"), "{listed}");

    // Somebody else's cluster is not believed.
    let wrong = format!("sha256:{}", "0".repeat(64));
    let (bridge, port) = (bridge("k"), free_port().to_string());
    let own = ["--name", "worker-1", "--bridge", &bridge, "--port", &port];
    let args = ["node", "--server", &server.url(), "--token", token, "--ca-hash", &wrong];
    let (ok, _, error) = setpoint(&[&args, &own[..]].concat(), &folder.path().join("nobody"));
    assert!(!ok && error.contains("none of the public keys"), "{error}");

    let mut node = Node::start(&node_data, &words[1..]);
    node.until_log("has joined", 1);
    let serving = node_data.join("pki/kubelet-server-current.pem");
    wait_until("the serving certificate", || serving.exists());
    verify_serving(&server, &serving, &["worker-1", "127.0.0.1"]);
    // Pods of all nodes see its pods under their own addresses.
    let cluster_cidr = std::fs::read_to_string(node_data.join("node/cluster-cidr")).unwrap();
    assert_eq!(cluster_cidr, "10.244.0.0/16");

    let (code, object) = call(&admin, "GET", "/api/v1/nodes/worker-1", None).await;
    assert_eq!(code, 200, "{object}");
    assert_eq!(object["metadata"]["labels"]["role"], "test");
    let addresses =
        json!([{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": "worker-1"}]);
    assert_eq!(object["status"]["addresses"], addresses);
    let (_, requests) = call(&admin, "GET", REQUESTS, None).await;
    let first = request_of(&requests, "kube-apiserver-client-kubelet");
    assert_eq!(first["spec"]["username"], format!("system:bootstrap:{}", &token[..6]));
    assert_eq!(first["status"]["conditions"][0]["reason"], "AutoApproved");
    let second = request_of(&requests, "kubelet-serving");
    assert_eq!(second["spec"]["username"], "system:node:worker-1");
    assert_eq!(second["status"]["conditions"][0]["reason"], "AutoApproved");
    assert_eq!(second["spec"]["extra"]["setpoint.dev/source-address"], json!(["127.0.0.1"]));
    let pem = std::fs::read(node_data.join("pki/kubelet-client-current.pem")).unwrap();
    assert_eq!(Identity::from_pem(&pem, &pem).unwrap().common_name(), "system:node:worker-1");

    // Another machine of the same name does not take it over.
    let args = [&words[1..], &own].concat();
    let (ok, _, error) = setpoint(&args, &folder.path().join("namesake"));
    assert!(
        !ok && error.contains("a Node with name \"worker-1\" and status \"Ready\" already exists"),
        "{error}"
    );
    node.stop();

    // It has a certificate of its own now: the token is not needed any more, and no request is made.
    let (ok, _, error) = setpoint(&["token", "delete", token], &data);
    assert!(ok, "{error}");
    let mut again = Node::start(&node_data, &["node"]);
    again.until_log("has joined", 2);
    again.stop();
    let (_, requests) = call(&admin, "GET", REQUESTS, None).await;
    assert_eq!(requests["items"].as_array().unwrap().len(), 2, "{requests}");

    // Nor is it for another address of the same server.
    let elsewhere = server.url().replace("127.0.0.1", "localhost");
    let mut moved = Node::start(&node_data, &["node", "--server", &elsewhere]);
    moved.until_log(&format!("has joined {elsewhere}"), 1);
    moved.stop();

    // A name that the certificate is not for.
    let (ok, _, error) =
        setpoint(&["node", "--name", "worker-2", "--bridge", &bridge, "--port", &port], &node_data);
    assert!(!ok && error.contains("the certificate of system:node:worker-2"), "{error}");

    let (ok, _, error) = setpoint(&["node", "reset"], &node_data);
    assert!(!ok && error.contains("--yes"), "{error}");
    let (ok, _, error) = setpoint(&["node", "reset", "--yes"], &node_data);
    assert!(ok && !node_data.exists(), "{error}");
    let (ok, _, error) = setpoint(&[&["node"], &own[..]].concat(), &node_data);
    assert!(!ok && error.contains("has not joined a cluster yet"), "{error}");
    // Whoever asks for a bridge notes it; no reset knows of those who only tried.
    std::fs::remove_file(format!("/run/setpoint/{bridge}.lock")).unwrap();
    assert_eq!(left_behind(&bridge, folder.path()), Vec::<String>::new());
}
