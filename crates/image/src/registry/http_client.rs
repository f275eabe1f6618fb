//! Requests to registries and their token servers: HTTP/1.1, a connection each. A pull is a handful of requests, most of them
//! long.

use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION, PROXY_AUTHORIZATION, RANGE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use super::auth::Authorization;
use super::connect::{Connection, Connector};
use super::url::Url;

const MAX_REDIRECTS: usize = 10;
/// A registry that says nothing for so long will not answer.
const HEAD_LIMIT: Duration = Duration::from_secs(60);
/// A download without a byte for so long has broken.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// The largest chunk of a body; by default it would grow to seven times that.
const BUFFER: usize = 64 << 10;

pub(crate) struct Client {
    env: Env,
}

pub(crate) struct Response {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
}

/// A body on its way; dropped, its connection is closed.
pub(crate) struct Body {
    env: Env,
    incoming: Incoming,
    _connection: Task,
}

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Client {
    pub fn new(env: &Env) -> Client {
        Client { env: env.clone() }
    }

    /// Follows redirects. Who we are is for the first server alone: another one is only told what to send.
    pub async fn get(
        &self,
        connector: &Connector,
        url: &Url,
        headers: &HeaderMap,
        authorization: Option<&Authorization>,
    ) -> Result<Response, String> {
        let mut at = url.clone();
        for _ in 0..MAX_REDIRECTS {
            let own = at.same_server(url);
            let mut sent = if own { headers.clone() } else { plain(headers) };
            if let Some(authorization) = authorization.filter(|_| own) {
                sent.insert(AUTHORIZATION, authorization.header()?);
            }
            let response = self.send(connector, Method::GET, &at, sent, Bytes::new(), own).await?;
            if !response.status.is_redirection() || response.status == StatusCode::NOT_MODIFIED {
                return Ok(response);
            }
            let location = response.headers.get(LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| at.join(location));
            at = next.ok_or_else(|| format!("{} response without a usable Location", response.status))?;
        }
        Err(format!("stopped after {MAX_REDIRECTS} redirects"))
    }

    /// A form to a token server. It holds secrets, so no redirect is followed.
    pub async fn post_form(
        &self,
        connector: &Connector,
        url: &Url,
        form: String,
    ) -> Result<Response, String> {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/x-www-form-urlencoded; charset=utf-8"),
        );
        self.send(connector, Method::POST, url, headers, Bytes::from(form), false).await
    }

    async fn send(
        &self,
        connector: &Connector,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        own: bool,
    ) -> Result<Response, String> {
        let Connection { wire, proxy } = connector.connect(&self.env, url, own).await?;
        // A proxy is told the server as well.
        let uri = if proxy.is_some() { url.to_string() } else { url.path.clone() };
        let request = Request::builder().method(method).uri(uri).body(Full::new(body));
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = headers;
        if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization) {
            let value = HeaderValue::from_str(&authorization).map_err(|error| error.to_string())?;
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let host = HeaderValue::from_str(&url.authority).map_err(|error| error.to_string())?;
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("setpoint"));
        let exchange = async {
            let (mut sender, connection) = http1::Builder::new()
                .max_buf_size(BUFFER)
                .handshake(TokioIo::new(wire))
                .await
                .map_err(|error| error.to_string())?;
            let task = Task(self.env.spawn("registry-connection", async move {
                // Its end, good or bad, is seen by who reads the body.
                let _ = connection.await;
            }));
            let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
            Ok::<_, String>((response, task))
        };
        let answered = self.env.timeout(HEAD_LIMIT, exchange).await;
        let (response, task) = answered.map_err(|_| "timeout awaiting response headers".to_owned())??;
        let (head, incoming) = response.into_parts();
        let body = Body { env: self.env.clone(), incoming, _connection: task };
        Ok(Response { status: head.status, headers: head.headers, body })
    }
}

/// What a stranger may see: the range and the media types, not the headers configured for the registry.
fn plain(headers: &HeaderMap) -> HeaderMap {
    let kept = |name: &HeaderName| *name == ACCEPT || *name == RANGE;
    headers.iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl Body {
    /// The next bytes; nothing at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = self.env.timeout(STALL_LIMIT, self.incoming.frame()).await;
            match frame.map_err(|_| "no data for a minute".to_owned())? {
                None => return Ok(None),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => return Ok(Some(data)),
                    // Trailers say nothing we need.
                    Err(_) => continue,
                },
            }
        }
    }

    /// All of it. An error without words: it is larger than `limit`.
    pub async fn whole(&mut self, limit: u64) -> Result<Vec<u8>, Option<String>> {
        let mut content = Vec::new();
        while let Some(chunk) = self.chunk().await.map_err(Some)? {
            if (content.len() + chunk.len()) as u64 > limit {
                return Err(None);
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }
}
