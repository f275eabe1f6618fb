//! A real etcd for a test, and direct access to its keys.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::harness::{available, wait_until};

pub struct Etcd {
    child: Child,
    dir: PathBuf,
    port: u16,
    peer_port: u16,
}

impl Etcd {
    /// `None`, and a line that says so, where there is no etcd.
    pub fn start(dir: &Path) -> Option<Etcd> {
        if !available("etcd") {
            return None;
        }
        // Both at once, so that they differ.
        let (a, b) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (port, peer_port) = (a.local_addr().unwrap().port(), b.local_addr().unwrap().port());
        drop((a, b));
        let child = spawn(dir, port, peer_port, None);
        let etcd = Etcd { child, dir: dir.to_owned(), port, peer_port };
        etcd.wait_healthy();
        Some(etcd)
    }

    /// One that speaks TLS and lets in who has a certificate of `ca.pem`. Not waited for: it answers nobody else.
    pub fn start_tls(dir: &Path, certificates: &Path) -> Option<Etcd> {
        if !available("etcd") || !available("openssl") {
            return None;
        }
        let (a, b) = (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let (port, peer_port) = (a.local_addr().unwrap().port(), b.local_addr().unwrap().port());
        drop((a, b));
        let child = spawn(dir, port, peer_port, Some(certificates));
        let etcd = Etcd { child, dir: dir.to_owned(), port, peer_port };
        wait_until("etcd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(etcd)
    }

    /// What `--store` takes for one that speaks TLS.
    pub fn tls_store(&self) -> String {
        format!("etcd:https://127.0.0.1:{}", self.port)
    }

    /// What `--store` takes.
    pub fn store(&self) -> String {
        format!("etcd:http://127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn restart(&mut self) {
        self.child = spawn(&self.dir, self.port, self.peer_port, None);
        self.wait_healthy();
    }

    /// The entry of a key as etcd's JSON gateway gives it, its value decoded.
    pub fn entry(&self, key: &str) -> Option<(Value, Value)> {
        let answer = self.post("/v3/kv/range", &json!({"key": BASE64_STANDARD.encode(key)}))?;
        let entry = answer["kvs"].get(0)?.clone();
        let bytes = BASE64_STANDARD.decode(entry["value"].as_str()?).unwrap();
        let value =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{key} holds no JSON: {bytes:?}"));
        Some((entry, value))
    }

    /// Writes past every server.
    pub fn put(&self, key: &str, value: &[u8]) {
        let body = json!({"key": BASE64_STANDARD.encode(key), "value": BASE64_STANDARD.encode(value)});
        self.post("/v3/kv/put", &body).expect("etcd answers");
    }

    /// Deletes past every server.
    pub fn delete(&self, key: &str) {
        let body = json!({"key": BASE64_STANDARD.encode(key)});
        self.post("/v3/kv/deleterange", &body).expect("etcd answers");
    }

    /// How many keys begin so.
    pub fn count(&self, prefix: &str) -> u64 {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().unwrap() += 1;
        let body = json!({"key": BASE64_STANDARD.encode(prefix), "range_end": BASE64_STANDARD.encode(end), "count_only": true});
        let answer = self.post("/v3/kv/range", &body).expect("etcd answers");
        // None at all is left out of the answer.
        answer["count"].as_str().map_or(0, |count| count.parse().unwrap())
    }

    /// The bytes that stand there.
    pub fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        let answer = self.post("/v3/kv/range", &json!({"key": BASE64_STANDARD.encode(key)}))?;
        // An empty value is left out of the answer.
        answer["kvs"]
            .get(0)
            .map(|entry| BASE64_STANDARD.decode(entry["value"].as_str().unwrap_or("")).unwrap())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The seconds a lease was granted for.
    pub fn granted_seconds(&self, lease: &Value) -> u64 {
        let answer = self.post("/v3/lease/timetolive", &json!({"ID": lease})).unwrap();
        answer["grantedTTL"].as_str().unwrap().parse().unwrap()
    }

    fn wait_healthy(&self) {
        wait_until("etcd is healthy", || {
            self.post("/v3/kv/range", &json!({"key": BASE64_STANDARD.encode("/")}))
                .is_some_and(|answer| answer["header"]["revision"].is_string())
        });
    }

    /// `None` while nobody answers.
    fn post(&self, path: &str, body: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let body = body.to_string();
        write!(stream, "POST {path} HTTP/1.0\r\nhost: etcd\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(dir: &Path, port: u16, peer_port: u16, certificates: Option<&Path>) -> Child {
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let (client, peer) = (format!("{scheme}://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let tls = "--cert-file etcd.pem --key-file etcd.key --client-cert-auth --trusted-ca-file ca.pem";
    let log = File::options().create(true).append(true).open(dir.with_extension("log")).unwrap();
    Command::new("etcd")
        .arg("--data-dir")
        .arg(dir)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(certificates.map_or("", |_| tls).split_whitespace())
        .current_dir(certificates.unwrap_or(Path::new(".")))
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Stands between a server and its etcd, and lets through what only reads: the first write and all that follows it on its
/// connection never arrive.
pub struct Between {
    port: u16,
    writes: Receiver<()>,
}

impl Between {
    pub fn start(etcd: u16) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, writes) = channel();
        // Ends with the test's process, as those it starts.
        std::thread::spawn(move || {
            for server in listener.incoming().map_while(Result::ok) {
                let Ok(etcd) = TcpStream::connect(("127.0.0.1", etcd)) else { return };
                let (back_from, back_to) = (etcd.try_clone().unwrap(), server.try_clone().unwrap());
                let tell = tell.clone();
                std::thread::spawn(move || pass(server, etcd, Some(tell)));
                std::thread::spawn(move || pass(back_from, back_to, None));
            }
        });
        Between { port, writes }
    }

    /// What `--store` takes.
    pub fn store(&self) -> String {
        format!("etcd:http://127.0.0.1:{}", self.port)
    }

    /// Waits until the server has sent something to be written; false if it never does.
    pub fn first_write(&self, limit: Duration) -> bool {
        self.writes.recv_timeout(limit).is_ok()
    }
}

/// Until one side closes; with somebody to tell, up to the first object in JSON, which is held back.
fn pass(mut from: TcpStream, mut to: TcpStream, tell: Option<Sender<()>>) {
    const OBJECT: &[u8] = b"\"apiVersion\":";
    let mut buffer = vec![0; 64 * 1024];
    // The end of what was passed on: the word may come in two pieces.
    let mut seen: Vec<u8> = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if let Some(tell) = &tell {
            seen.extend_from_slice(&buffer[..n]);
            if seen.windows(OBJECT.len()).any(|part| part == OBJECT) {
                let _ = tell.send(());
                // Open, and silent, as long as the server has patience.
                while from.read(&mut buffer).is_ok_and(|n| n > 0) {}
                return;
            }
            seen.drain(..seen.len().saturating_sub(OBJECT.len()));
        }
        if to.write_all(&buffer[..n]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
