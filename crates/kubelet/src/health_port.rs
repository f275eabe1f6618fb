//! The node's health for programs of its own machine, without TLS and for everybody: `healthzBindAddress` and `healthzPort`.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use runtime::Stop;
use tokio::net::{TcpListener, TcpStream};

/// Between two attempts to have the port.
const AGAIN: Duration = Duration::from_secs(5);
/// Of a connection.
const LONGEST: Duration = Duration::from_secs(30);
/// More wait until others have ended.
const CONNECTIONS: usize = 16;

/// Until the node stops. Of several nodes of a machine the first has the port, and another when that is gone.
pub async fn run(env: Env, address: String, port: u16, stop: Stop) {
    let mut told = false;
    loop {
        match TcpListener::bind((address.as_str(), port)).await {
            Ok(listener) => return serve(&env, listener, stop).await,
            Err(error) if told => tracing::debug!(address, port, %error, "no port for the node's health yet"),
            Err(error) => {
                tracing::warn!(address, port, %error, "cannot listen for the node's health; it is tried again");
                told = true;
            }
        }
        tokio::select! {
            () = stop.stopped() => return,
            () = env.sleep(AGAIN) => {}
        }
    }
}

async fn serve(env: &Env, listener: TcpListener, stop: Stop) {
    // They end with this task.
    let mut connections = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = stop.stopped() => return,
            Some(()) = connections.next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => match accepted {
                Ok((tcp, _)) => connections.push(connection(env, tcp)),
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    env.sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

async fn connection(env: &Env, tcp: TcpStream) {
    let service =
        service_fn(|request: Request<Incoming>| async move { Ok::<_, Infallible>(answer(&request)) });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(tcp), service);
    // Whoever asks for longer asks anew.
    let _ = env.timeout(LONGEST, served).await;
}

/// That it answers at all is its health; the sync loop's is told at the HTTPS port.
fn answer(request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let verbose = request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("verbose")));
    let (status, text) = match request.uri().path() {
        "/healthz" if verbose => (StatusCode::OK, "[+]ping ok\nhealthz check passed\n"),
        "/healthz" | "/healthz/ping" => (StatusCode::OK, "ok"),
        _ => (StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use runtime::Stopper;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(port: u16, path: &str) -> String {
        let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        tcp.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        format!("{} {body}", head.split(' ').nth(1).unwrap())
    }

    #[tokio::test]
    async fn everybody_on_the_machine_is_told() {
        let env = Env::machine();
        let (stopper, stop) = Stopper::new();
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let task = env.spawn("health", run(env.clone(), "127.0.0.1".to_owned(), port, stop));
        let answers = async { while TcpStream::connect(("127.0.0.1", port)).await.is_err() {} };
        env.timeout(Duration::from_secs(30), answers).await.unwrap();
        assert_eq!(get(port, "/healthz").await, "200 ok");
        assert_eq!(get(port, "/healthz?verbose").await, "200 [+]ping ok\nhealthz check passed\n");
        assert_eq!(get(port, "/pods").await, "404 404 page not found\n");
        stopper.stop();
        env.timeout(Duration::from_secs(30), task).await.unwrap().unwrap();
    }
}
