//! A server with just enough of the Kubernetes API for the generator: paths and bodies in a map, one thread a connection.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    Normal,
    /// A deleted namespace stays until it is finalized.
    NamespacesStay,
    Refuses,
    /// Lists are refused for now; creates too, without Retry-After.
    Busy,
}

pub struct Server {
    address: SocketAddr,
    world: Arc<World>,
}

struct World {
    behaviour: Behaviour,
    objects: Mutex<BTreeMap<String, String>>,
    /// The collection that each watcher watches, and where its events go.
    watchers: Mutex<Vec<(String, SyncSender<String>)>>,
}

struct Request {
    method: String,
    path: String,
    query: String,
    body: String,
}

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

impl Server {
    pub fn start() -> Self {
        Self::with(Behaviour::Normal)
    }

    pub fn start_without_controllers() -> Self {
        Self::with(Behaviour::NamespacesStay)
    }

    pub fn start_refusing() -> Self {
        Self::with(Behaviour::Refuses)
    }

    pub fn start_busy() -> Self {
        Self::with(Behaviour::Busy)
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Everything that is stored.
    pub fn paths(&self) -> Vec<String> {
        self.world.objects.lock().unwrap().keys().cloned().collect()
    }

    fn with(behaviour: Behaviour) -> Self {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let chain = vec![CertificateDer::from_pem_file(data.join("server.crt")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(data.join("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let world = Arc::new(World { behaviour, objects: Mutex::default(), watchers: Mutex::default() });
        let shared = world.clone();
        spawn(move || {
            for socket in listener.incoming().flatten() {
                let (config, world) = (config.clone(), shared.clone());
                spawn(move || {
                    socket.set_nodelay(true).unwrap();
                    let tls = ServerConnection::new(config).unwrap();
                    // The generator closes its connections when it likes.
                    let _ = world.serve(BufReader::new(StreamOwned::new(tls, socket)));
                });
            }
        });
        Server { address, world }
    }
}

/// The threads end with the test's process and own nothing to clean up.
#[allow(clippy::disallowed_methods)]
fn spawn(work: impl FnOnce() + Send + 'static) {
    std::thread::spawn(work);
}

impl World {
    fn serve(&self, mut stream: Stream) -> std::io::Result<()> {
        while let Some(request) = read_request(&mut stream)? {
            if request.query.contains("watch=true") {
                return self.watch(&request.path, stream);
            }
            let (status, body) = self.answer(&request);
            let retry = if status == 429 && request.method == "GET" { "Retry-After: 1\r\n" } else { "" };
            let head = format!("HTTP/1.1 {status} X\r\n{retry}Content-Length: {}\r\n\r\n", body.len());
            stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        }
        Ok(())
    }

    fn answer(&self, request: &Request) -> (u16, String) {
        if self.behaviour == Behaviour::Refuses {
            return (403, r#"{"kind":"Status","reason":"Forbidden"}"#.to_string());
        }
        let mut objects = self.objects.lock().unwrap();
        let path = request.path.as_str();
        // A named group is one segment more.
        let is_collection = path.split('/').count().is_multiple_of(2) != path.starts_with("/apis/");
        if self.behaviour == Behaviour::Busy && path.ends_with("/configmaps") {
            let of_users = request.query.is_empty() && !request.body.contains("\"there-");
            if of_users && matches!(request.method.as_str(), "GET" | "POST") {
                return (429, String::new());
            }
        }
        match request.method.as_str() {
            "GET" if path == "/readyz" => (200, "ok".to_string()),
            "POST" if path.ends_with("/token") => (201, r#"{"status":{"token":"secret"}}"#.to_string()),
            "POST" => {
                let name = request.body.split_once("\"name\":\"").unwrap().1.split('"').next().unwrap();
                let path = format!("{path}/{name}");
                let body = request.body.replacen("\"metadata\":{", "\"metadata\":{\"uid\":\"u\",", 1);
                if objects.insert(path, body.clone()).is_some() {
                    return (409, String::new());
                }
                drop(objects);
                self.publish(&request.path, &body);
                (201, body)
            }
            // Its scheduler binds all that wait as soon as somebody has asked for them.
            "GET" if is_collection && request.query.contains("fieldSelector=spec.nodeName%3D") => {
                let prefix = format!("{path}/");
                let all = objects.iter_mut().filter(|(path, _)| path.starts_with(&prefix));
                let waiting: Vec<&mut String> =
                    all.map(|(_, body)| body).filter(|body| !body.contains("\"nodeName\"")).collect();
                let first = waiting.first().map(|body| body.to_string()).unwrap_or_default();
                for body in waiting {
                    *body = body.replacen("\"spec\":{", "\"spec\":{\"nodeName\":\"n\",", 1);
                }
                (200, format!("{{\"items\":[{first}]}}"))
            }
            "GET" if is_collection => {
                let items: Vec<&str> = children(&objects, path).map(|(_, body)| body.as_str()).collect();
                (
                    200,
                    format!("{{\"metadata\":{{\"resourceVersion\":\"7\"}},\"items\":[{}]}}", items.join(",")),
                )
            }
            "DELETE" if is_collection => {
                let gone: Vec<String> = children(&objects, path).map(|(path, _)| path.clone()).collect();
                gone.iter().for_each(|path| drop(objects.remove(path)));
                (200, "{}".to_string())
            }
            "DELETE" if self.behaviour == Behaviour::NamespacesStay && path.matches('/').count() == 4 => {
                (200, "{}".to_string())
            }
            "PUT" if path.contains("/leases/") => {
                let body = request.body.clone();
                assert!(
                    body.contains("\"resourceVersion\":\"7\""),
                    "a renewal names the version it renews: {body}"
                );
                objects.insert(path.to_string(), body.clone());
                (200, body)
            }
            "GET" if path.contains("/leases/") => {
                (200, r#"{"metadata":{"resourceVersion":"7"}}"#.to_string())
            }
            "PUT" => (200, objects.remove(path.strip_suffix("/finalize").unwrap()).unwrap()),
            "DELETE" => objects.remove(path).map_or((404, String::new()), |body| (200, body)),
            _ => objects.get(path).map_or((404, String::new()), |body| (200, body.clone())),
        }
    }

    fn publish(&self, collection: &str, body: &str) {
        let event = format!("{{\"type\":\"ADDED\",\"object\":{body}}}\n");
        let watchers = self.watchers.lock().unwrap();
        for (_, events) in watchers.iter().filter(|(path, _)| path == collection) {
            // A watcher that went away has a closed channel.
            let _ = events.send(event.clone());
        }
    }

    fn watch(&self, path: &str, mut stream: Stream) -> std::io::Result<()> {
        let (send, events) = sync_channel(1000);
        self.watchers.lock().unwrap().push((path.to_string(), send));
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for event in events {
            stream.get_mut().write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())?;
        }
        Ok(())
    }
}

fn children<'a>(
    objects: &'a BTreeMap<String, String>,
    collection: &str,
) -> impl Iterator<Item = (&'a String, &'a String)> {
    let prefix = format!("{collection}/");
    objects.iter().filter(move |(path, _)| path.starts_with(&prefix))
}

fn read_request(stream: &mut Stream) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split(' ').map(str::to_string);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (path, query) = (path.to_string(), query.to_string());
    let (mut length, mut authorized) = (0, false);
    loop {
        let mut header = String::new();
        stream.read_line(&mut header)?;
        match header.trim_end().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().unwrap(),
            Some(("Authorization", value)) => authorized = value == "Bearer secret",
            Some(_) => {}
            None => break,
        }
    }
    assert!(authorized != (path == "/readyz"), "{method} {path} came with the wrong credentials");
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Some(Request { method, path, query, body: String::from_utf8(body).unwrap() }))
}
