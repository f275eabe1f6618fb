use std::convert::Infallible;

use bytes::{BufMut, Bytes, BytesMut};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpListener;

use super::*;

const LIMIT: Duration = Duration::from_secs(30);

/// A health service: the services' names are what it answers with, a status or `code message`.
async fn server(env: &Env) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let spawner = env.clone();
    drop(env.spawn("server", async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let service = hyper::service::service_fn(answer);
            let serve = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(tcp), service);
            drop(spawner.spawn("connection", serve));
        }
    }));
    port
}

type Frames = StreamBody<futures_util::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

async fn answer(request: http::Request<hyper::body::Incoming>) -> Result<http::Response<Frames>, Infallible> {
    assert_eq!(request.uri().path(), CHECK);
    assert_eq!(request.headers()["user-agent"], "kube-probe/1.36");
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let asked = HealthCheckRequest::decode(&body[5..]).unwrap().service;
    if asked == "silence" {
        std::future::pending::<()>().await;
    }
    let mut trailers = http::HeaderMap::new();
    let mut frames = Vec::new();
    match asked.split_once(' ') {
        Some((code, message)) => {
            trailers.insert("grpc-status", code.parse().unwrap());
            trailers.insert("grpc-message", message.parse().unwrap());
        }
        None => {
            let message = HealthCheckResponse { status: asked.parse().unwrap_or(SERVING) }.encode_to_vec();
            let mut data = BytesMut::new();
            data.put_u8(0);
            data.put_u32(u32::try_from(message.len()).unwrap());
            data.extend_from_slice(&message);
            frames.push(Ok(Frame::data(data.freeze())));
            trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        }
    }
    frames.push(Ok(Frame::trailers(trailers)));
    let response = http::Response::builder().header("content-type", "application/grpc");
    Ok(response.body(StreamBody::new(futures_util::stream::iter(frames))).unwrap())
}

#[tokio::test]
async fn answers_are_told_in_kubelets_words() {
    let env = Env::machine();
    let port = server(&env).await;
    assert_eq!(check(&env, "127.0.0.1", port, "", LIMIT).await, Answered::Success);
    for (service, said) in [
        ("0", r#"service unhealthy (responded with "UNKNOWN")"#),
        ("2", r#"service unhealthy (responded with "NOT_SERVING")"#),
        ("3", r#"service unhealthy (responded with "SERVICE_UNKNOWN")"#),
        (
            "5 unknown service",
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
        ),
        (
            "12 unknown method",
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown method",
        ),
    ] {
        assert_eq!(check(&env, "127.0.0.1", port, service, LIMIT).await, Answered::Failure(said.to_owned()));
    }
}

#[tokio::test]
async fn servers_that_are_late_or_not_there_time_out() {
    let env = Env::machine();
    let port = server(&env).await;
    let limit = Duration::from_millis(200);
    let late = check(&env, "127.0.0.1", port, "silence", limit).await;
    assert_eq!(late, Answered::Failure("timeout: health rpc did not complete within 200ms".to_owned()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let said = format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 200ms: context deadline exceeded"
    );
    assert_eq!(check(&env, "127.0.0.1", port, "", limit).await, Answered::Failure(said));
}
