//! The drop-in for envtest: `kube-apiserver` and `etcd` are this program, started as controller-runtime starts them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use auth::Pki;

use crate::etcd_server::Etcd as RealEtcd;
use crate::harness::*;
use crate::other_clients::{go_program, holds};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A folder made by `setpoint envtest install`.
fn assets(folder: &Path) -> PathBuf {
    let dir = folder.join("assets");
    let installed = run(Command::new(SETPOINT).args(["envtest", "install"]).arg(&dir));
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    assert_eq!(String::from_utf8_lossy(&installed.stdout).trim(), dir.to_str().unwrap());
    dir
}

/// As envtest finds one.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process of its own group, as envtest starts it; killed when dropped.
struct Started(Child);

impl Started {
    fn new(program: &Path, args: &[String]) -> Started {
        let mut command = Command::new(program);
        command.args(args).process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Started(command.spawn().unwrap())
    }

    fn stop(mut self) {
        signal(self.0.id(), "TERM");
        assert!(wait(&mut self.0, PATIENCE).expect("it ends after SIGTERM").success());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct StandIn {
    process: Started,
    url: String,
}

impl StandIn {
    fn start(assets: &Path, data_dir: &Path) -> StandIn {
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        let args = [
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", data_dir.display()),
            format!("--listen-client-urls={url}"),
            format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let process = Started::new(&assets.join("etcd"), &args);
        wait_until("etcd is healthy", || {
            get(port, "/health").is_some_and(|answer| answer.contains(r#"{"health":"true""#))
        });
        StandIn { process, url }
    }
}

/// A request in plain text.
fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.1 200").then_some(answer)
}

/// The API server, and who may talk to it: keys, certificates and their CA are the test's, as envtest's are.
struct Server {
    process: Started,
    pki: Pki,
    url: String,
}

impl Server {
    async fn start(assets: &Path, cert_dir: &Path, etcd: &str, more: &[&str]) -> Server {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let pki = Pki::open_or_create(cert_dir, now, &["127.0.0.1".to_owned()]).unwrap();
        let (port, dir) = (free_port(), cert_dir.display());
        let mut args = vec![
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={dir}"),
            format!("--client-ca-file={dir}/ca.crt"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={port}"),
            format!("--service-account-issuer=https://127.0.0.1:{port}/"),
            format!("--service-account-key-file={dir}/ca.crt"),
            format!("--service-account-signing-key-file={dir}/ca.key"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        args.extend(more.iter().map(|arg| (*arg).to_owned()));
        let process = Started::new(&assets.join("kube-apiserver"), &args);
        let server = Server { process, pki, url: format!("https://127.0.0.1:{port}") };
        let client = server.client(false).await;
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            match try_call(&client, "GET", "/healthz", None).await {
                Ok((200, _)) => return server,
                answer if std::time::Instant::now() > deadline => panic!("it is not healthy: {answer:?}"),
                // As envtest polls; it gives up after 20 s.
                _ => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }

    /// `admin`: with a certificate of the CA in --client-ca-file, for `system:masters`.
    async fn client(&self, admin: bool) -> kube::Client {
        let text = self.pki.admin_kubeconfig(&self.url);
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        config.default_retry = false;
        if !admin {
            config.auth_info = Default::default();
        }
        kube::Client::try_from(config).unwrap()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_outlive_the_api_server_and_not_the_environment() {
    let folder = folder();
    let assets = assets(folder.path());
    let (data, certs) = (folder.path().join("etcd"), folder.path().join("certs"));
    let etcd = StandIn::start(&assets, &data);
    let server = Server::start(&assets, &certs, &etcd.url, &[]).await;
    let certificates = names(&certs);
    let admin = server.client(true).await;
    // The API server and nothing else: what upstream's shows only with metrics-server is not there.
    let (code, groups) = call(&admin, "GET", "/apis", None).await;
    assert!(code == 200 && groups.to_string().contains("apps/v1"), "{groups}");
    assert!(!groups.to_string().contains("metrics.k8s.io"), "{groups}");
    // No ServiceAccount admission: there is nobody to make one.
    let pod = serde_json::json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}]},
    });
    let (code, made) = call(&admin, "POST", "/api/v1/namespaces/default/pods", Some(pod)).await;
    assert_eq!(code, 201, "{made}");
    let (code, made) = call(&admin, "POST", MAPS, Some(config_map("kept", "1"))).await;
    assert_eq!(code, 201, "{made}");
    let (code, answer) = call(&server.client(false).await, "GET", MAPS, None).await;
    assert_eq!(code, 403, "{answer}");
    let anonymous = format!("{answer}");
    assert!(anonymous.contains("system:anonymous"), "{anonymous}");

    // A second one on the same store would not see what the first writes.
    let second = run(Command::new(assets.join("kube-apiserver"))
        .args([format!("--etcd-servers={}", etcd.url), format!("--secure-port={}", free_port())]));
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use"), "{second:?}");

    server.process.stop();
    assert_eq!(names(&certs), certificates, "nothing of ours is among the certificates");
    let again = Server::start(&assets, &folder.path().join("other"), &etcd.url, &[]).await;
    let (code, found) = call(&again.client(true).await, "GET", &format!("{MAPS}/kept"), None).await;
    assert_eq!((code, &found), (200, &made));
    again.process.stop();
    etcd.process.stop();
    // What remains is in the data directory of etcd, which envtest deletes.
    assert_eq!(names(&data), ["setpoint"]);
    assert_eq!(names(folder.path()), ["assets", "certs", "etcd", "other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_signed_and_verified_with_the_given_keys() {
    let folder = folder();
    let assets = assets(folder.path());
    let etcd = StandIn::start(&assets, &folder.path().join("etcd"));
    let server = Server::start(&assets, &folder.path().join("certs"), &etcd.url, &[]).await;
    let admin = server.client(true).await;
    assert_eq!(call(&admin, "GET", MAPS, None).await.0, 200);
    // A token of an account, signed with the given key, is verified with the certificate.
    let account = serde_json::json!({"metadata": {"name": "robot"}});
    call(&admin, "POST", "/api/v1/namespaces/default/serviceaccounts", Some(account)).await;
    let request =
        serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let (code, token) = call(&admin, "POST", path, Some(request)).await;
    assert_eq!(code, 201, "{token}");
    let review = serde_json::json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token["status"]["token"]},
    });
    let (_, review) = call(&admin, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", Some(review)).await;
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:default:robot", "{review}");
    server.process.stop();
    etcd.process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_etcd_is_used_where_there_is_one() {
    let folder = folder();
    let Some(etcd) = RealEtcd::start(&folder.path().join("etcd")) else { return };
    let assets = assets(folder.path());
    let url = format!("http://127.0.0.1:{}", etcd.port());
    for round in 0..2 {
        let server = Server::start(&assets, &folder.path().join(format!("certs-{round}")), &url, &[]).await;
        let admin = server.client(true).await;
        let (code, answer) = call(&admin, "POST", MAPS, Some(config_map("kept", "1"))).await;
        assert_eq!(code, [201, 409][round], "{answer}");
        server.process.stop();
    }
    assert!(etcd.entry("/registry/configmaps/default/kept").is_some());
}

#[test]
fn flags_are_refused_by_name_and_versions_are_told() {
    let folder = folder();
    let assets = assets(folder.path());
    let said = |program: &str, args: &[&str]| {
        let output = run(Command::new(assets.join(program)).args(args));
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        (output.status.success(), text)
    };
    assert_eq!(said("kube-apiserver", &["--version"]), (true, "Kubernetes v1.36.4\n".to_owned()));
    assert!(said("etcd", &["--version"]).1.starts_with("etcd Version: 3.6"));
    assert!(said("kube-apiserver", &["--help"]).1.contains("\n      --secure-port int"));
    let flags = ["--audit-log-path=x", "--tls-min-version=VersionTLS13", "--authentication-config=x"];
    let (done, text) = said("kube-apiserver", &flags);
    assert!(!done);
    for part in [
        "kube-apiserver: --audit-log-path is not supported: there is no audit log yet\n",
        "--tls-min-version=VersionTLS13 is not supported",
        "--authentication-config is not supported",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let (done, text) = said("kube-apiserver", &["--insecure-port=0"]);
    assert!(!done && text.contains("Error: unknown flag: --insecure-port"), "{text}");
    let (done, text) =
        said("kube-apiserver", &["--authorization-mode=Webhook", "--etcd-servers=http://127.0.0.1:1"]);
    assert!(!done && text.contains("--authorization-mode Webhook is not supported"), "{text}");
    assert!(said("kube-apiserver", &[]).1.contains("--etcd-servers must be specified"));
    let files =
        ["--admission-control-config-file=/nowhere/--listen.yaml", "--etcd-servers=http://127.0.0.1:1"];
    let (done, text) = said("kube-apiserver", &files);
    assert!(!done && text.contains("open /nowhere/--listen.yaml"), "{text}");
    assert!(said("etcd", &["--client-cert-auth"]).1.contains("--client-cert-auth is not supported"));
}

/// A test that is killed: it cannot stop what it started.
struct KilledTest {
    shell: Started,
    pid: String,
}

impl KilledTest {
    /// Starts a program as envtest does.
    fn start(program: &Path, args: &[String]) -> KilledTest {
        // Job control gives each job a process group of its own, as envtest does.
        let script = r#"set -m; "$0" "$@" & echo $!; wait"#;
        let mut shell = Command::new("bash");
        shell.args(["-c", script]).arg(program).args(args);
        let mut shell = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        KilledTest { shell: Started(shell), pid: pid.trim().to_owned() }
    }

    /// What it started ends.
    fn kill(self) {
        drop(self.shell);
        wait_until("it ends with who started it", || has_ended(&self.pid));
    }
}

/// Whether a process has ended; one that nobody waits for stays as a zombie.
fn has_ended(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    // The name of the program, in parentheses, may contain anything.
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

#[test]
fn a_test_that_is_killed_leaves_no_process_behind() {
    let folder = folder();
    let assets = assets(folder.path());
    let (port, data) = (free_port(), folder.path().join("etcd"));
    let args =
        [format!("--listen-client-urls=http://127.0.0.1:{port}"), format!("--data-dir={}", data.display())];
    let test = KilledTest::start(&assets.join("etcd"), &args);
    wait_until("etcd is healthy", || get(port, "/health").is_some());
    test.kill();
    assert!(names(&data).is_empty());
}

/// While it starts, too: here it waits for an etcd that does not answer.
#[test]
fn an_api_server_that_waits_for_etcd_ends_with_its_test() {
    let folder = folder();
    let assets = assets(folder.path());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let etcd = silent.local_addr().unwrap();
    let args = [format!("--etcd-servers=http://{etcd}"), format!("--secure-port={}", free_port())];
    let test = KilledTest::start(&assets.join("kube-apiserver"), &args);
    silent.set_nonblocking(true).unwrap();
    let mut connections = Vec::new();
    wait_until("it asks for etcd", || silent.accept().map(|one| connections.push(one)).is_ok());
    test.kill();
}

#[test]
fn a_process_that_nobody_waits_for_has_ended() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    wait_until("it is a zombie", || has_ended(&pid));
    assert!(Path::new("/proc").join(&pid).exists());
    child.wait().unwrap();
    assert!(has_ended(&pid) && !has_ended(&std::process::id().to_string()));
}

/// As in a container that was entered: who leads the session, and the process group, is not in this PID namespace.
#[test]
fn it_runs_where_the_leader_of_the_session_is_not_seen() {
    let mut probe = Command::new("unshare");
    probe.args(["--pid", "--fork", "--mount-proc", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return skipped("a PID namespace with its own /proc cannot be made here");
    }
    let folder = folder();
    let (assets, port) = (assets(folder.path()), free_port());
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc"]).arg(assets.join("etcd"));
    unshare.arg(format!("--listen-client-urls=http://127.0.0.1:{port}"));
    unshare.arg(format!("--data-dir={}", folder.path().join("etcd").display()));
    let unshare = Started(unshare.stdin(Stdio::null()).spawn().unwrap());
    wait_until("etcd is healthy", || get(port, "/health").is_some());
    drop(unshare);
}

/// controller-runtime's own envtest: a CRD, webhooks served by a manager, users, a restart.
#[test]
fn an_environment_of_controller_runtime_runs_unchanged() {
    let folder = folder();
    let Some(program) = go_program("controller-runtime/envtest", folder.path()) else { return };
    let (assets, temporary) = (assets(folder.path()), folder.path().join("tmp"));
    std::fs::create_dir(&temporary).unwrap();
    let mut test = Command::new(program);
    test.env("KUBEBUILDER_ASSETS", assets).env("TMPDIR", &temporary);
    holds(test.env("KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT", "true"));
    assert!(names(&temporary).is_empty(), "left behind: {:?}", names(&temporary));
}
