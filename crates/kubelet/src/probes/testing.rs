//! A server on loopback and a container that answers as it is told.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{Executed, Target};

/// Answers each connection's request with what the function makes of it, then closes; `None`: keeps it open without a word.
pub struct Server {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(
        env: &Env,
        answer: impl Fn(&str) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let answer = Arc::new(answer);
        let spawner = env.clone();
        let task = env.spawn("server", async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                spawner.spawn("request", serve(stream, answer.clone()));
            }
        });
        Server { port, task }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Arc<impl Fn(&str) -> Option<Vec<u8>> + ?Sized>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
        // Not HTTP, but a TLS hello.
        if head[0] == 0x16 {
            break;
        }
    }
    match answer(&String::from_utf8_lossy(&head)) {
        Some(answer) => {
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        }
        None => std::future::pending().await,
    }
}

pub fn response(status: u16, headers: &str, body: &str) -> Option<Vec<u8>> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n");
    Some([head.as_bytes(), body.as_bytes()].concat())
}

type Answers = dyn FnMut(&[String]) -> Result<Executed, cri::Error> + Send;

/// At 127.0.0.1.
pub struct Fake {
    answers: Mutex<Box<Answers>>,
}

impl Fake {
    pub fn new(answers: impl FnMut(&[String]) -> Result<Executed, cri::Error> + Send + 'static) -> Arc<Fake> {
        Arc::new(Fake { answers: Mutex::new(Box::new(answers)) })
    }

    pub fn exits(code: i32, stdout: &str, stderr: &str) -> Arc<Fake> {
        let done = Executed { code, stdout: stdout.into(), stderr: stderr.into() };
        Fake::new(move |_| Ok(done.clone()))
    }

    pub fn errs(code: cri::Code, message: &str) -> Arc<Fake> {
        let error = cri::Error::new(code, message);
        Fake::new(move |_| Err(error.clone()))
    }
}

impl Target for Fake {
    fn exec(&self, command: Vec<String>, _: Duration) -> BoxFuture<'_, Result<Executed, cri::Error>> {
        let answer = (self.answers.lock())(&command);
        Box::pin(std::future::ready(answer))
    }

    fn pod_ip(&self) -> Option<String> {
        Some("127.0.0.1".to_owned())
    }
}
