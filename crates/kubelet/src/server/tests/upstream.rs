//! A runtime that serves streams itself, as containerd does: connections are passed on to its server.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use streaming::portforward::{self, Forward};
use streaming::remotecommand::{self, Failure, Options, Outcome, Session};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::fixture::Fixture;
use super::streams::{BOTH, forward, outcome, start};

const OPTIONS: Options = Options { stdin: true, stdout: true, stderr: true, tty: false };

/// Echoes input once, in capitals, and exits with 5; its ports answer with their number.
async fn answer(env: Env, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    let (method, headers) = (request.method().clone(), request.headers().clone());
    assert!(!headers.contains_key("authorization"));
    let on_upgrade = hyper::upgrade::on(&mut request);
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    match request.uri().path() {
        "/exec/token" => {
            let (negotiated, accepted) = remotecommand::negotiate(&method, &headers).unwrap();
            *response.headers_mut() = accepted.headers;
            env.clone().spawn("test-exec", async move {
                let io = Box::new(TokioIo::new(on_upgrade.await.unwrap()));
                let mut session = Session::accept(&env, io, &negotiated, &OPTIONS).await.unwrap();
                let mut input = String::new();
                session.stdin.as_mut().unwrap().read_to_string(&mut input).await.unwrap();
                session.stdout.as_ref().unwrap().send(input.to_uppercase().as_bytes()).await.unwrap();
                session.finish(&Outcome::Exited { code: 5, detail: "exit code 5".to_owned() }).await;
            });
        }
        "/portforward/token" => {
            let (negotiated, accepted) = portforward::negotiate(&method, &headers, &[]).unwrap();
            *response.headers_mut() = accepted.headers;
            let answer: Forward = Arc::new(|port, mut stream| {
                Box::pin(async move {
                    stream.write_all(format!("port {port}").as_bytes()).await.unwrap();
                    stream.shutdown().await.unwrap();
                    Ok(())
                })
            });
            env.clone().spawn("test-forward", async move {
                let io = Box::new(TokioIo::new(on_upgrade.await.unwrap()));
                portforward::serve(&env, io, &negotiated, "s1", "", answer).await;
            });
        }
        _ => {
            *response.status_mut() = StatusCode::NOT_FOUND;
            *response.body_mut() = Full::from("no such token");
        }
    }
    response
}

/// Its address.
async fn serve(env: &Env) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tasks = env.clone();
    env.spawn("test-runtime", async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let env = tasks.clone();
            let service = service_fn(move |request| {
                let env = env.clone();
                async move { Ok::<_, Infallible>(answer(env, request).await) }
            });
            let server = hyper::server::conn::http1::Builder::new();
            let connection = server.serve_connection(TokioIo::new(tcp), service).with_upgrades();
            tasks.spawn("test-connection", async move {
                let _ = connection.await;
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn exec_is_passed_on() {
    let fixture = Fixture::start().await;
    let address = serve(&fixture.env).await;
    *fixture.host.url.lock() = Some(format!("{address}/exec/token"));
    for over in BOTH {
        let client = start(&fixture, over, "/exec/default/web/app", &["any"], &OPTIONS).await;
        let (out, _, status) = outcome(client, b"shout").await;
        assert_eq!((out.as_str(), status), ("SHOUT", Err(Failure::Exited(5))), "{over:?}");
    }
}

#[tokio::test]
async fn port_forward_is_passed_on() {
    let fixture = Fixture::start().await;
    let address = serve(&fixture.env).await;
    *fixture.host.url.lock() = Some(format!("{address}/portforward/token"));
    for over in BOTH {
        let client = forward(&fixture, over, "/portForward/default/web").await;
        let (mut near, far) = tokio::io::duplex(1024);
        let read = async {
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let (forwarded, answer) = tokio::join!(client.forward(8080, far), read);
        assert_eq!((forwarded, answer.as_str()), (Ok(()), "port 8080"), "{over:?}");
    }
}

#[tokio::test]
async fn what_the_runtimes_server_refuses_is_told() {
    let fixture = Fixture::start().await;
    let address = serve(&fixture.env).await;
    let ask = async |url: String| {
        *fixture.host.url.lock() = Some(url);
        let headers = streaming::upgrade::spdy_request(&["v4.channel.k8s.io"]);
        let target = "/exec/default/web/app?output=1&command=x";
        let user = Some(super::fixture::USER);
        super::fixture::text(fixture.send(user, http::Method::POST, target, headers).await).await
    };
    assert_eq!(ask(format!("{address}/other")).await, (StatusCode::NOT_FOUND, "no such token".to_owned()));
    let (status, message) = ask("https://127.0.0.1:1/x".to_owned()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(message.contains("only http can be proxied to"), "{message}");
}
