//! Starts the real server, waits for it, sends requests, and never leaves a process behind.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::Value;

/// The binary under test.
pub const SETPOINT: &str = env!("CARGO_BIN_EXE_setpoint");
/// Longer than anything here takes on a busy machine; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The controllers without which no pod can be created.
const ACCOUNTS: &str = "--controllers=serviceaccount-controller,serviceaccount-token-controller,root-ca-certificate-publisher-controller,certificatesigningrequest-approving-controller,certificatesigningrequest-cleaner-controller,certificatesigningrequest-signing-controller,clusterrole-aggregation-controller,resourcequota-controller,service-cidr-controller";

/// A running server; killed when dropped.
pub struct Proc {
    child: Child,
    pub data_dir: PathBuf,
    pub kubeconfig: PathBuf,
    log: PathBuf,
}

impl Proc {
    /// A server on the disk store of a data directory.
    pub fn start(data_dir: &Path) -> Proc {
        Proc::start_with(data_dir, &[])
    }

    /// The same with more flags. Returns once the server is ready. The API and what gives namespaces
    /// their accounts: what a test writes, nobody touches.
    pub fn start_with(data_dir: &Path, flags: &[&str]) -> Proc {
        let alone: Vec<&str> = [ACCOUNTS].iter().chain(flags).copied().collect();
        Proc::start_cluster(data_dir, &alone)
    }

    /// The whole control plane.
    pub fn start_cluster(data_dir: &Path, flags: &[&str]) -> Proc {
        Proc::start_by("server", data_dir, flags)
    }

    /// The same by the command people begin with, without a node.
    pub fn up(data_dir: &Path, flags: &[&str]) -> Proc {
        Proc::start_by("up", data_dir, &[&["--node=false"], flags].concat())
    }

    /// The API alone, with so many file descriptors at most.
    pub fn start_limited(data_dir: &Path, descriptors: u32) -> Proc {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -n $0 && exec \"$@\"", &descriptors.to_string(), SETPOINT]);
        Proc::start_as(limited, "server", data_dir, &[ACCOUNTS])
    }

    /// Bytes of memory it has.
    pub fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux tells it");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    pub fn start_by(command: &str, data_dir: &Path, flags: &[&str]) -> Proc {
        Proc::start_as(Command::new(SETPOINT), command, data_dir, flags)
    }

    /// `up` once more, where those who know its address look for it.
    pub fn start_at(address: &str, data_dir: &Path, flags: &[String]) -> Proc {
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Proc::start_on(Command::new(SETPOINT), "up", address, data_dir, &flags)
    }

    /// The same through another program, which becomes it.
    pub fn start_as(program: Command, command: &str, data_dir: &Path, flags: &[&str]) -> Proc {
        Proc::start_on(program, command, "127.0.0.1:0", data_dir, flags)
    }

    fn start_on(mut program: Command, command: &str, address: &str, data_dir: &Path, flags: &[&str]) -> Proc {
        let kubeconfig = data_dir.join("admin.kubeconfig");
        // Otherwise the file of an earlier run would be taken for this one's.
        let _ = std::fs::remove_file(&kubeconfig);
        let log = data_dir.with_extension("log");
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = program
            .args([command, "--listen", address, "--data-dir"])
            .arg(data_dir)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        let mut server = Proc { child, data_dir: data_dir.to_owned(), kubeconfig, log };
        wait_until("the server is ready", || {
            if let Some(status) = server.child.try_wait().unwrap() {
                panic!("the server ended with {status}: {}", server.log());
            }
            server.kubeconfig.exists()
        });
        server
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// As a power cut would: without a signal.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How it ended, within a time; `None` if it has not.
    pub fn ended_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait(&mut self.child, limit)
    }

    /// SIGTERM, and a clean end.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.ended_within(PATIENCE).expect("it ends after SIGTERM");
        assert!(status.success(), "ended with {status}: {}", self.log());
    }

    /// `https://127.0.0.1:PORT`, from the kubeconfig.
    pub fn url(&self) -> String {
        let text = std::fs::read_to_string(&self.kubeconfig).unwrap();
        let start = text.find("https://").expect("the kubeconfig names the server");
        text[start..].split(['"', '\n', ' ']).next().unwrap_or_default().to_owned()
    }

    pub fn address(&self) -> String {
        self.url().trim_start_matches("https://").to_owned()
    }

    pub fn pki(&self, file: &str) -> PathBuf {
        self.data_dir.join("pki").join(file)
    }

    pub async fn config(&self) -> kube::Config {
        let kubeconfig = kube::config::Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        // What a test asks is asked once.
        config.default_retry = false;
        config
    }

    /// The administrator's client.
    pub async fn client(&self) -> kube::Client {
        kube::Client::try_from(self.config().await).unwrap()
    }

    /// The same server without any proof of who asks.
    pub async fn anonymous(&self) -> kube::Client {
        let mut config = self.config().await;
        config.auth_info = Default::default();
        kube::Client::try_from(config).unwrap()
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the server on {}:\n{}---", self.data_dir.display(), self.log());
        }
    }
}

/// A folder of its own for one test; the data directory is `data` in it.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("setpoint-test-").tempdir().unwrap()
}

/// Runs a program to its end; one that does not end is killed and fails the test.
pub fn run(command: &mut Command) -> Output {
    run_within(command, PATIENCE * 2)
}

pub fn run_within(command: &mut Command, limit: Duration) -> Output {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Read aside, so that much output cannot block the program while we wait for its end.
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |pipe: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    };
    std::thread::scope(|scope| {
        let out = scope.spawn(move || read(&mut out));
        let err = scope.spawn(move || read(&mut err));
        let ended = wait(&mut child, limit);
        if ended.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
        match ended {
            Some(status) => Output { status, stdout, stderr },
            None => panic!("{command:?} does not end: {}", String::from_utf8_lossy(&stderr)),
        }
    })
}

/// Whether a program can be found; if not, the line that the summary counts.
pub fn available(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        skipped(&format!("{program} is not installed"));
    }
    found
}

pub fn skipped(why: &str) {
    // On a line of its own: the test runner writes "test name ... " before it.
    println!("\nskipped: {why}");
}

/// Some loops are longer in `make test-long`.
pub fn rounds(usual: usize, long: usize) -> usize {
    if std::env::var_os("SETPOINT_LONG").is_some() { long } else { usual }
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        if Instant::now() > deadline {
            return None;
        }
        // The end of a child cannot be waited for with a limit in std.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Until something outside this process has happened.
pub fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One request, as it is; the answer's status and JSON (or text as a JSON string).
pub async fn call(client: &kube::Client, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    try_call(client, method, path, body).await.unwrap_or_else(|e| panic!("{method} {path}: {e}"))
}

pub async fn try_call(
    client: &kube::Client,
    method: &str,
    path: &str,
    body: Option<Value>,
) -> Result<(u16, Value), kube::Error> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let bytes = body.map(|b| serde_json::to_vec(&b).unwrap()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let answer = client.send(request.body(Body::from(bytes)).unwrap()).await?;
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await?.to_bytes();
    let value = serde_json::from_slice(&bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
    Ok((status, value))
}

pub fn config_map(name: &str, value: &str) -> Value {
    serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value},
    })
}

/// The revision an answer carries.
pub fn revision(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.unwrap_or_else(|| panic!("no resourceVersion: {object}")).parse().unwrap()
}

/// An open watch: its events, one JSON line each.
pub struct Watch {
    body: Body,
    buffer: Vec<u8>,
}

impl Watch {
    /// `Err` with the code if the server refuses.
    pub async fn open(client: &kube::Client, path: &str) -> Result<Watch, u16> {
        let request = http::Request::get(path).body(Body::from(Vec::new())).unwrap();
        let answer = client.send(request).await.unwrap();
        match answer.status().as_u16() {
            200 => Ok(Watch { body: answer.into_body(), buffer: Vec::new() }),
            code => Err(code),
        }
    }

    /// The next event; `Ok(None)` at a clean end, `Err` when the connection broke.
    pub async fn next(&mut self) -> Result<Option<Value>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line).unwrap()));
            }
            let frame =
                tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("a watch that says something");
            match frame {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => self.buffer.extend_from_slice(&frame.into_data().unwrap_or_default()),
            }
        }
    }
}
