//! etcd processes and cuttable connections for the tests.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use env::Env;
use store::testing::MapState;
use store_etcd::EtcdEngine;
use tokio::sync::watch;

use crate::tls::make_certificates;

/// How long anything may take before a test fails. Generous: other builds share the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

const TLS: &str = "--cert-file etcd.pem --key-file etcd.key --client-cert-auth --trusted-ca-file ca.pem";

/// An etcd of its own, with a data directory that outlives a kill. Killed when dropped.
pub struct EtcdServer {
    dir: tempfile::TempDir,
    name: String,
    scheme: &'static str,
    client_port: u16,
    peer_port: u16,
    /// All members, as etcd wants to be told.
    members: String,
    process: Mutex<Option<Child>>,
}

impl EtcdServer {
    pub async fn start() -> EtcdServer {
        let server = EtcdServer::members("http", 1).remove(0);
        server.run().await;
        server
    }

    /// Three members of one cluster.
    pub async fn start_three() -> Vec<EtcdServer> {
        let servers = EtcdServer::members("http", 3);
        servers.iter().for_each(EtcdServer::spawn);
        for server in &servers {
            server.ready().await;
        }
        servers
    }

    /// Speaks TLS and asks its clients for a certificate. Not waited for.
    pub fn start_tls() -> EtcdServer {
        let server = EtcdServer::members("https", 1).remove(0);
        make_certificates(server.certificates());
        server.spawn();
        server
    }

    /// Where they are, for one that speaks TLS.
    pub fn certificates(&self) -> &Path {
        self.dir.path()
    }

    fn members(scheme: &'static str, count: usize) -> Vec<EtcdServer> {
        let ports: Vec<_> = (0..count).map(|_| (free_port(), free_port())).collect();
        let members: Vec<_> =
            ports.iter().enumerate().map(|(i, (_, peer))| format!("m{i}=http://127.0.0.1:{peer}")).collect();
        let members = members.join(",");
        let server = |(i, (client_port, peer_port))| EtcdServer {
            dir: tempfile::tempdir().unwrap(),
            name: format!("m{i}"),
            scheme,
            client_port,
            peer_port,
            members: members.clone(),
            process: Mutex::new(None),
        };
        ports.into_iter().enumerate().map(server).collect()
    }

    /// The etcd that tests share while any of them runs.
    pub async fn shared() -> Arc<EtcdServer> {
        static SHARED: tokio::sync::Mutex<Weak<EtcdServer>> = tokio::sync::Mutex::const_new(Weak::new());
        let mut shared = SHARED.lock().await;
        if let Some(server) = shared.upgrade() {
            return server;
        }
        let server = Arc::new(EtcdServer::start().await);
        *shared = Arc::downgrade(&server);
        server
    }

    pub fn endpoint(&self) -> String {
        format!("{}://127.0.0.1:{}", self.scheme, self.client_port)
    }

    pub fn port(&self) -> u16 {
        self.client_port
    }

    /// As `kill -9` does it.
    pub fn kill(&self) {
        if let Some(mut process) = self.process.lock().unwrap().take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Kills it and throws its data away.
    pub fn lose_data(&self) {
        self.kill();
        std::fs::remove_dir_all(self.dir.path().join("data")).unwrap();
    }

    /// Kills it, and keeps what it has on disk as a backup.
    pub fn save_data(&self) {
        self.kill();
        self.copy("data", "saved");
    }

    /// Kills it, and gives it what `save_data` kept.
    pub fn put_data_back(&self) {
        self.lose_data();
        self.copy("saved", "data");
    }

    fn copy(&self, from: &str, to: &str) {
        let dir = self.dir.path();
        let done = Command::new("cp").arg("-a").arg(dir.join(from)).arg(dir.join(to)).status().unwrap();
        assert!(done.success());
    }

    /// Starts it (again) on its data directory and waits until it answers.
    pub async fn run(&self) {
        self.spawn();
        self.ready().await;
    }

    async fn ready(&self) {
        let connect = || {
            let state = Arc::<MapState>::default();
            EtcdEngine::connect(vec![self.endpoint()], "/ready/".into(), Env::machine(), state)
        };
        let ready = async {
            while connect().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("etcd starts");
    }

    pub async fn open(&self, prefix: &str) -> (Arc<EtcdEngine>, Arc<MapState>) {
        open(self.endpoint(), prefix).await
    }

    fn spawn(&self) {
        let client = self.endpoint();
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let process = Command::new("etcd")
            .args(["--name", &self.name, "--logger", "zap", "--log-level", "error", "--data-dir"])
            .arg(self.dir.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.members])
            .args(if self.scheme == "https" { TLS } else { "" }.split_whitespace())
            .current_dir(self.dir.path())
            // Short elections: etcd's shortest lease is one and a half of them.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| without_etcd(&error));
        *self.process.lock().unwrap() = Some(process);
    }
}

impl Drop for EtcdServer {
    fn drop(&mut self) {
        self.kill();
    }
}

pub async fn open(endpoint: String, prefix: &str) -> (Arc<EtcdEngine>, Arc<MapState>) {
    let state = Arc::new(MapState::default());
    let engine = EtcdEngine::connect(vec![endpoint], prefix.into(), Env::machine(), state.clone()).await;
    (engine.unwrap_or_else(|e| panic!("{e}")), state)
}

/// Passes connections on to a port, until told otherwise.
pub struct Proxy {
    port: u16,
    mode: watch::Sender<Mode>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Passing,
    /// Connections are ended, new ones too.
    Cut,
    /// Connections stay, but nothing passes any more.
    Frozen,
}

impl Proxy {
    // Sockets of a test, not of a world.
    #[allow(clippy::disallowed_methods)]
    pub async fn to(port: u16) -> Proxy {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let mode = watch::Sender::new(Mode::Passing);
        let now = mode.subscribe();
        let task = tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let mut now = now.clone();
                tokio::spawn(async move {
                    let Ok(mut to) = tokio::net::TcpStream::connect(("127.0.0.1", port)).await else {
                        return;
                    };
                    let ended = tokio::select! {
                        biased;
                        mode = now.wait_for(|mode| *mode != Mode::Passing) => mode.map_or(true, |m| *m == Mode::Cut),
                        _ = tokio::io::copy_bidirectional(&mut from, &mut to) => true,
                    };
                    if !ended {
                        let _ = now.wait_for(|mode| *mode == Mode::Cut).await;
                    }
                });
            }
        });
        Proxy { port: own_port, mode, task }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends all connections and takes no new ones.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Keeps all connections and lets nothing pass.
    pub fn freeze(&self) {
        self.mode.send_replace(Mode::Frozen);
    }

    pub fn restore(&self) {
        self.mode.send_replace(Mode::Passing);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Every test here needs one: without it there is nothing to run, and the summary says so.
fn without_etcd(error: &std::io::Error) -> ! {
    println!("\nskipped: the tests on etcd: it cannot be started ({error}); apt-get install etcd-server");
    std::process::exit(0);
}
