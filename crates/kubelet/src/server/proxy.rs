//! Runtimes that serve streams themselves: the client's connection is passed on to their server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use streaming::Io;
use streaming::proxy::NodeError;
use streaming::remotecommand::{Negotiated, Options, SPDY_CLIENT_PROTOCOLS, Version};
use streaming::upgrade::{self, Accepted};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Context;
use super::answer::{self, Answer};
use super::handle::{Reply, Streaming};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Of an answer that is no 101.
const MAX_MESSAGE: usize = 64 << 10;

/// Exec and attach. Version 5 over a WebSocket is translated, as runtimes may not know it.
pub async fn remote_command(
    context: &Arc<Context>,
    url: &str,
    request: Streaming,
    options: Options,
    negotiated: Negotiated,
    accepted: Accepted,
) -> Reply {
    if !upgrade::is_websocket_v5(&request.parts.headers) {
        return pass_on(context, url, request).await;
    }
    let (env, url, on_upgrade) = (context.env.clone(), url.to_owned(), request.on_upgrade);
    let session = async move {
        let Ok(io) = on_upgrade.await else { return };
        let runtime = async {
            let headers = upgrade::spdy_request(&SPDY_CLIENT_PROTOCOLS);
            let sent = send(&env, &url, &Method::POST, headers).await;
            let (response, task) = sent.map_err(NodeError::Message)?;
            let protocol = upgrade::spdy_response(response.status(), response.headers());
            match protocol.as_deref().map(Version::parse) {
                Some(Some(version)) => {
                    Ok((switched(response, task).await.map_err(NodeError::Message)?, version))
                }
                _ => Err(NodeError::Message(message_of(response).await)),
            }
        };
        let io = Box::new(TokioIo::new(io));
        streaming::proxy::translate(&env, io, &negotiated, &options, runtime).await;
    };
    Reply::Upgrade(answer::switching(accepted), Box::pin(session))
}

/// SPDY in a WebSocket is taken out of it.
pub async fn port_forward(context: &Arc<Context>, url: &str, request: Streaming) -> Reply {
    let client = &request.parts.headers;
    if !upgrade::is_websocket_tunnel(client) {
        return pass_on(context, url, request).await;
    }
    let Some(headers) = upgrade::tunnel_request(client) else {
        let message = "unable to upgrade: no tunneling spdy protocols provided";
        return answer::error(StatusCode::BAD_REQUEST, message).into();
    };
    let (response, task) = match send(&context.env, url, &Method::POST, headers).await {
        Ok(sent) => sent,
        Err(message) => return failed(&message).into(),
    };
    let Some(protocol) = upgrade::spdy_response(response.status(), response.headers()) else {
        return relayed(response).await.into();
    };
    let accepted = match upgrade::tunnel_response(&request.parts.method, client, &protocol) {
        Ok(accepted) => accepted,
        Err(refused) => return answer::refused(refused).into(),
    };
    let (env, on_upgrade) = (context.env.clone(), request.on_upgrade);
    let session = async move {
        let (Ok(client), Ok(runtime)) = tokio::join!(on_upgrade, switched(response, task)) else { return };
        streaming::proxy::tunnel(&env, Box::new(TokioIo::new(client)), runtime).await;
    };
    Reply::Upgrade(answer::switching(accepted), Box::pin(session))
}

async fn pass_on(context: &Arc<Context>, url: &str, request: Streaming) -> Reply {
    let Streaming { parts, on_upgrade, .. } = request;
    let mut headers = parts.headers;
    // For this server alone.
    headers.remove(http::header::AUTHORIZATION);
    let (response, task) = match send(&context.env, url, &parts.method, headers).await {
        Ok(sent) => sent,
        Err(message) => return failed(&message).into(),
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return relayed(response).await.into();
    }
    let answer = answer::switching_with(response.headers().clone());
    let session = async move {
        let (Ok(client), Ok(runtime)) = tokio::join!(on_upgrade, switched(response, task)) else { return };
        streaming::proxy::pass_through(Box::new(TokioIo::new(client)), runtime).await;
    };
    Reply::Upgrade(answer, Box::pin(session))
}

/// Drives the connection to the runtime; ends with whoever holds it.
struct Driven(JoinHandle<()>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn send(
    env: &Env,
    url: &str,
    method: &Method,
    mut headers: HeaderMap,
) -> Result<(Response<Incoming>, Driven), String> {
    let uri: Uri = url.parse().map_err(|error| format!("runtime gave the URL {url:?}: {error}"))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(format!("runtime gave the URL {url:?}: only http can be proxied to"));
    };
    let port = uri.port_u16().unwrap_or(80);
    let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let authority = HeaderValue::from_str(&format!("{host}:{port}")).map_err(|error| error.to_string())?;
    headers.insert(HOST, authority);
    let exchange = async {
        let host = host.trim_matches(['[', ']']);
        let tcp = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
        let _ = tcp.set_nodelay(true);
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(tcp)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        let driven = Driven(env.spawn("runtime-stream", async move {
            let _ = connection.with_upgrades().await;
        }));
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = method.clone();
        *request.uri_mut() = target.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        *request.headers_mut() = headers;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        Ok((response, driven))
    };
    let exchanged = env.timeout(CONNECT_TIMEOUT, exchange).await;
    exchanged.unwrap_or_else(|_| Err(format!("dial tcp {host}:{port}: i/o timeout")))
}

async fn switched(response: Response<Incoming>, driven: Driven) -> Result<Io, String> {
    let io = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    // It ended with the upgrade.
    drop(driven);
    Ok(Box::new(TokioIo::new(io)))
}

async fn message_of(response: Response<Incoming>) -> String {
    let body = Limited::new(response.into_body(), MAX_MESSAGE).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn relayed(response: Response<Incoming>) -> Answer {
    let status = response.status();
    answer::text(status, message_of(response).await)
}

fn failed(message: &str) -> Answer {
    tracing::error!(message, "stream cannot be passed on");
    answer::error(StatusCode::INTERNAL_SERVER_ERROR, message)
}
