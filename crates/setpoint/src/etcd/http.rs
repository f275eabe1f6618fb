//! The few answers of the stand-in for etcd, over HTTP/1.1: one request a connection.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{STORE_PATH, Token, VERSION};

/// Open connections; more wait to be accepted.
const CONNECTIONS: usize = 64;
/// Of a request's head.
const MAX_HEAD: usize = 8 << 10;
/// A client sends its request and takes the answer within this.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Answers(Arc<Vec<(&'static str, String)>>);

impl Answers {
    pub fn new(token: &Token, sync: bool) -> Answers {
        let mut store = object::Map::default();
        store.set("dataDir", token.dir.to_str().unwrap_or_default());
        store.set("token", token.text.as_str());
        store.set("sync", sync);
        let store = codec::json::to_vec(&object::Value::from(store));
        let store = String::from_utf8_lossy(&store).into_owned();
        Answers(Arc::new(vec![
            ("/health", r#"{"health":"true","reason":""}"#.to_owned()),
            ("/livez", "ok\n".to_owned()),
            ("/readyz", "ok\n".to_owned()),
            ("/version", format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"3.6.0","storage":"3.6.0"}}"#)),
            (STORE_PATH, store),
        ]))
    }

    fn answer(&self, head: &[u8]) -> String {
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let path = line.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
        let found = self.0.iter().find(|(at, _)| Some(*at) == path);
        let (status, body) = found.map_or(("404 Not Found", "404 page not found\n"), |(_, b)| ("200 OK", b));
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

pub async fn serve(env: Env, listener: TcpListener, answers: Answers) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = permits.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let answers = answers.clone();
                let timeout = env.clone();
                env.spawn("etcd-connection", async move {
                    // A client that went away needs no answer.
                    let _ = timeout.timeout(TIMEOUT, answer(stream, answers)).await;
                    drop(permit);
                });
            }
            // Out of descriptors, for instance.
            Err(_) => env.sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn answer(mut stream: TcpStream, answers: Answers) -> std::io::Result<()> {
    let mut head = Vec::with_capacity(1024);
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(answers.answer(&head).as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_healthy_and_says_where_objects_go() {
        let dir = tempfile::tempdir().unwrap();
        let token = Token { dir: dir.path().into(), text: "t".to_owned() };
        let answers = Answers::new(&token, false);
        let health = answers.answer(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            health.starts_with("HTTP/1.1 200 OK\r\n") && health.ends_with(r#"{"health":"true","reason":""}"#)
        );
        let store = answers.answer(b"GET /setpoint/store HTTP/1.1\r\n\r\n");
        assert!(store.contains(r#""token":"t""#) && store.contains(r#""sync":false"#), "{store}");
        for other in [&b"POST /health HTTP/1.1\r\n\r\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n"] {
            assert!(answers.answer(other).starts_with("HTTP/1.1 404"));
        }
    }
}
