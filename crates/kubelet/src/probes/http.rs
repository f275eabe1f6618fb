//! GET as probes and hooks send it: one connection each, certificates not looked at, redirects followed on the same host only. And as
//! the source of static pods does: certificates are verified, redirects followed wherever they lead.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use futures_util::FutureExt;
use http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, REFERER,
    USER_AGENT, WWW_AUTHENTICATE,
};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::spec::HttpGet;
use super::url::{Nowhere, Url};

/// What is read of a body.
const MAX_BODY: usize = 10 << 10;
const MAX_REDIRECTS: usize = 10;
pub const PLAIN_ANSWER: &str = "http: server gave HTTP response to HTTPS client";

#[derive(Clone)]
pub struct Client {
    env: Env,
    /// Or why there is none.
    tls: Result<Arc<ClientConfig>, String>,
    max_body: usize,
    /// Redirects are followed to other hosts too.
    anywhere: bool,
}

pub struct Request {
    pub url: Url,
    headers: HeaderMap,
    /// What the `Host` header says, where that is not the address.
    host: Option<HeaderValue>,
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Its beginning; an error if it broke off before that.
    pub body: Result<Vec<u8>, String>,
    location: Option<String>,
}

impl Request {
    /// `purpose` is part of the `User-Agent`.
    pub fn new(get: &HttpGet, pod_ip: Option<&str>, purpose: &str) -> Result<Request, String> {
        let port = get.port.clone()?;
        let host = get.host.as_deref().or(pod_ip).ok_or("the pod has no IP address")?;
        let mut headers = HeaderMap::new();
        for (name, value) in &get.headers {
            let quoted = object::quote(name);
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("net/http: invalid header field name {quoted}"))?;
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| format!("net/http: invalid header field value for {quoted}"))?;
            headers.append(header, value);
        }
        let agent = format!("kube-{purpose}/1.36");
        let agent = HeaderValue::try_from(agent).map_err(|error| error.to_string())?;
        for (name, default) in [(USER_AGENT, agent), (ACCEPT, HeaderValue::from_static("*/*"))] {
            match headers.get(&name) {
                None => drop(headers.insert(name, default)),
                // Set to nothing: not sent.
                Some(value) if value.is_empty() => drop(headers.remove(name)),
                Some(_) => {}
            }
        }
        let host_header = headers.remove(HOST).filter(|host| !host.is_empty());
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        Ok(Request { url: Url::new(get.https, host, port, &get.path), headers, host: host_header })
    }

    pub fn to(url: Url, headers: HeaderMap) -> Request {
        Request { url, headers, host: None }
    }

    /// The request that a redirect asks for.
    fn redirected(&self, url: Url, location: &str) -> Request {
        let mut headers = self.headers.clone();
        if url.host != self.url.host {
            // What another host has no business with.
            for secret in [AUTHORIZATION, COOKIE, WWW_AUTHENTICATE] {
                headers.remove(secret);
            }
        }
        if self.url.https && !url.https {
            headers.remove(REFERER);
        } else if let Ok(referer) = HeaderValue::try_from(self.url.to_string()) {
            headers.insert(REFERER, referer);
        }
        // A host that was made up goes along with paths of its own only.
        let host = self.host.clone().filter(|_| !location.contains("://"));
        Request { url, headers, host }
    }

    /// The same in plain text: the server did not speak TLS.
    pub fn in_plain(&self) -> Request {
        let mut headers = self.headers.clone();
        headers.remove(http::header::AUTHORIZATION);
        let mut url = self.url.clone();
        url.https = false;
        Request { url, headers, host: self.host.clone() }
    }
}

impl Client {
    pub fn new(env: &Env) -> Client {
        Client { env: env.clone(), tls: tls(None), max_body: MAX_BODY, anywhere: false }
    }

    /// One that looks at certificates, and reads bodies of up to `max_body` bytes.
    pub fn verifying(env: &Env, roots: RootCertStore, max_body: usize) -> Client {
        Client { env: env.clone(), tls: tls(Some(roots)), max_body, anywhere: true }
    }

    /// The answer to the last of the redirects. An error is what Go's client would say, from `Get "URL": ` on.
    pub async fn get(&self, first: &Request, limit: Option<Duration>) -> Result<Response, String> {
        let deadline = limit.map(|limit| self.env.monotonic() + limit);
        let mut followed: Option<Request> = None;
        for redirects in 0.. {
            let request = followed.as_ref().unwrap_or(first);
            let failed = |why: String| format!("Get {}: {why}", object::quote(&request.url.to_string()));
            let response = self.exchange(request, deadline).await.map_err(failed)?;
            let Some(location) = response.location.as_deref().filter(|_| is_redirect(response.status)) else {
                return Ok(response);
            };
            let url = match request.url.join(location) {
                Ok(url) => url,
                Err(Nowhere::Malformed) => {
                    let location = object::quote(location);
                    return Err(failed(format!("failed to parse Location header {location}: invalid URL")));
                }
                Err(Nowhere::Scheme { scheme, host }) if host == first.url.host => {
                    let (location, scheme) = (object::quote(location), object::quote(&scheme));
                    return Err(format!("Get {location}: unsupported protocol scheme {scheme}"));
                }
                Err(Nowhere::Scheme { .. }) => return Ok(response),
            };
            if url.host != first.url.host && !self.anywhere {
                return Ok(response);
            }
            if redirects + 1 >= MAX_REDIRECTS {
                let location = object::quote(location);
                return Err(format!("Get {location}: stopped after {MAX_REDIRECTS} redirects"));
            }
            let next = request.redirected(url, location);
            followed = Some(next);
        }
        unreachable!("the loop ends by returning")
    }

    async fn exchange(&self, request: &Request, deadline: Option<Instant>) -> Result<Response, String> {
        let url = &request.url;
        let dial = async {
            let tcp = dial(&url.host, url.port()).await?;
            let wire = Wire::of(&tcp);
            if !url.https {
                return Ok::<_, String>((Box::new(tcp) as Box<dyn Stream>, wire));
            }
            let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
            let tls = TlsConnector::from(self.tls.clone()?).connect(name, tcp).await;
            Ok((Box::new(tls.map_err(|error| wire.tls_error(&error))?), wire))
        };
        let awaiting = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
        let (stream, wire) = self.within(deadline, awaiting, dial).await??;
        let handshake = http1::Builder::new().title_case_headers(true).handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| wire.http_error(&error))?;
        let mut connection = connection.fuse();
        let mut message = http::Request::new(Empty::<Bytes>::new());
        *message.uri_mut() = url.target().parse().map_err(|_| "invalid URL".to_owned())?;
        *message.headers_mut() = request.headers.clone();
        let host = match &request.host {
            Some(host) => host.clone(),
            None => HeaderValue::try_from(url.authority()).map_err(|error| error.to_string())?,
        };
        message.headers_mut().insert(HOST, host);
        let send = beside(&mut connection, sender.send_request(message));
        let response =
            self.within(deadline, awaiting, send).await?.map_err(|error| wire.http_error(&error))?;
        let (head, body) = response.into_parts();
        let reading = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
        let body =
            self.within(deadline, reading, beside(&mut connection, read(body, self.max_body, &wire))).await;
        let location = head.headers.get(LOCATION).and_then(|location| location.to_str().ok());
        Ok(Response {
            status: head.status.as_u16(),
            body: body.and_then(|body| body),
            location: location.filter(|location| !location.is_empty()).map(str::to_owned),
        })
    }

    async fn within<T>(
        &self,
        deadline: Option<Instant>,
        late: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, String> {
        let Some(deadline) = deadline else { return Ok(work.await) };
        let left = deadline.saturating_duration_since(self.env.monotonic());
        self.env.timeout(left, work).await.map_err(|_| late.to_owned())
    }
}

fn tls(roots: Option<RootCertStore>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = client_http::tls::verifier(roots, &provider)?;
    // Differs from kubelet: HTTP/2 is not offered. A server that has it speaks HTTP/1.1 as well.
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(tls))
}

/// A connection, or what Go says when there is none.
pub async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let address = join_host_port(host, port);
    TcpStream::connect((host, port)).await.map_err(|error| match error.raw_os_error() {
        Some(_) => format!("dial tcp {address}: connect: {}", os_text(&error)),
        None => format!("dial tcp: lookup {host}: no such host"),
    })
}

pub fn join_host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Runs the connection while something is waited for that comes over it.
async fn beside<T>(
    mut connection: impl Future<Output = hyper::Result<()>> + Unpin,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            // Whoever waits learns of its error; a connection that is over stays silent (it is fused).
            _ = &mut connection => {}
        }
    }
}

async fn read(mut body: hyper::body::Incoming, max_body: usize, wire: &Wire) -> Result<Vec<u8>, String> {
    let mut read = Vec::new();
    while read.len() < max_body {
        let Some(frame) = body.frame().await else { break };
        let frame = frame.map_err(|error| match io_error(&error).map(std::io::Error::kind) {
            Some(std::io::ErrorKind::UnexpectedEof) => "unexpected EOF".to_owned(),
            _ => wire.http_error(&error),
        })?;
        if let Some(data) = frame.data_ref() {
            read.extend_from_slice(&data[..data.len().min(max_body - read.len())]);
        }
    }
    Ok(read)
}

fn io_error(error: &hyper::Error) -> Option<&std::io::Error> {
    std::error::Error::source(error)?.downcast_ref()
}

/// From where to where, for errors.
struct Wire(String);

impl Wire {
    fn of(tcp: &TcpStream) -> Wire {
        match (tcp.local_addr(), tcp.peer_addr()) {
            (Ok(local), Ok(peer)) => Wire(format!("{local}->{peer}")),
            _ => Wire(String::new()),
        }
    }

    fn http_error(&self, error: &hyper::Error) -> String {
        if error.is_incomplete_message() {
            return "EOF".to_owned();
        }
        if error.is_parse() {
            return "net/http: HTTP/1.x transport connection broken: malformed HTTP response".to_owned();
        }
        io_error(error).map_or_else(|| error.to_string(), |cause| self.read_error(cause))
    }

    fn tls_error(&self, error: &std::io::Error) -> String {
        use rustls::{Error, InvalidMessage};
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
        match cause {
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => PLAIN_ANSWER.to_owned(),
            Some(Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
            Some(cause) => format!("tls: {cause}"),
            None if error.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            None => self.read_error(error),
        }
    }

    fn read_error(&self, error: &std::io::Error) -> String {
        format!("read tcp {}: read: {}", self.0, os_text(error))
    }
}

/// The system's words without the number, as Go has them.
fn os_text(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests;
