//! Requests to another server: where they go, how many at once; and our own.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::{ACCEPT, HOST, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;

use super::identity;
use super::pool::Unsent;
use super::routes::{Remote, ServiceKey};
use crate::api::Api;
use crate::body::RequestBody;
use crate::connect::backend::{BackendConnection, BackendSlot, Target};
use auth::UserInfo;
use object::Status;
use webhook::{HostPort, ServiceResolver};

/// Upstream's, of its proxy transport.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);

/// An endpoint of the server's Service, and how to speak to it.
pub(crate) fn target(api: &Api, remote: &Remote) -> Result<Target, Unreachable> {
    let tls = remote.tls.clone().map_err(Unreachable::Tls)?;
    let ServiceKey { namespace, name, port } = &remote.service;
    let found = api.service_endpoints.resolve(namespace, name, *port);
    // What leads nowhere any more is not kept.
    remote.pool.retain(found.as_deref().unwrap_or_default());
    let found = found.map_err(|error| Unreachable::NoEndpoint(error.to_string()))?;
    let chosen = api.registry().env().random_below(found.len().max(1) as u64);
    let address = found.get(usize::try_from(chosen).unwrap_or(0)).cloned();
    let none = || webhook::ResolveError::NoEndpoints(name.clone()).to_string();
    let address = address.ok_or_else(|| Unreachable::NoEndpoint(none()))?;
    Ok(Target {
        tls: Some(tls),
        address,
        dial_timeout: DIAL_TIMEOUT,
        dialer: api.kubelet_client().dialer(),
        server_name: remote.server_name.clone(),
    })
}

/// Why there is nobody to ask.
pub(crate) enum Unreachable {
    /// Its configuration cannot be used.
    Tls(String),
    NoEndpoint(String),
}

impl Unreachable {
    pub fn into_text(self) -> String {
        match self {
            Unreachable::Tls(why) | Unreachable::NoEndpoint(why) => why,
        }
    }
}

/// Requests under way to one server. A stream of HTTP/2 takes no descriptor, but what its client does not read is held in memory.
const MAX_REQUESTS: usize = 2048;
/// Besides all others, for what only this server asks: whether the other one is available, and what it serves.
const FOR_CHECKS: usize = 8;

/// Where a request to another server finds its places.
pub(crate) struct Places<'a> {
    api: &'a Api,
    remote: &'a Remote,
    more: usize,
}

impl<'a> Places<'a> {
    pub fn of(api: &'a Api, remote: &'a Remote) -> Places<'a> {
        Places { api, remote, more: 0 }
    }

    /// Clients cannot take these.
    fn of_checks(self) -> Places<'a> {
        Places { more: FOR_CHECKS, ..self }
    }

    pub fn request(&self) -> Result<BackendSlot, Status> {
        self.remote.requests.enter(MAX_REQUESTS + self.more)
    }

    /// A connection's, which takes a descriptor: among all, and among those of one server, so that one that hangs takes not all of them.
    pub fn connection(&self) -> Result<[BackendSlot; 2], Status> {
        let most = self.api.connections.max_backends();
        let of_server = (most / 4).max(1);
        Ok([
            self.api.backends.enter(most + self.more)?,
            self.remote.connections.enter(of_server + self.more)?,
        ])
    }
}

/// A request of this server itself.
pub(crate) struct OwnRequest<'a> {
    pub method: Method,
    pub path: &'a str,
    pub accept: &'a str,
    pub user: &'a UserInfo,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub timeout: Duration,
    pub max_bytes: usize,
    /// It has places of its own: however much clients ask, it is asked.
    pub checks: bool,
}

impl<'a> OwnRequest<'a> {
    /// What this server must know of the other one.
    pub fn check(path: &'a str, accept: &'a str, user: &'a UserInfo) -> OwnRequest<'a> {
        OwnRequest {
            method: Method::GET,
            path,
            accept,
            user,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(5),
            max_bytes: 16 << 20,
            checks: true,
        }
    }

    /// On somebody's behalf.
    pub fn get(path: &'a str, accept: &'a str, user: &'a UserInfo) -> OwnRequest<'a> {
        OwnRequest { checks: false, ..OwnRequest::check(path, accept, user) }
    }

    /// The answer is 304 if the server has nothing else than what has this entity tag.
    pub fn unless_it_has(mut self, tag: Option<&str>) -> OwnRequest<'a> {
        if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(tag).ok()) {
            self.headers.insert(IF_NONE_MATCH, tag);
        }
        self
    }

    /// The whole answer; the error says in Go's words why there is none.
    pub async fn send(self, api: &Api, remote: &Remote) -> Result<Fetched, String> {
        let target = target(api, remote).map_err(Unreachable::into_text)?;
        self.send_to(api, remote, &target).await
    }

    /// The same to a chosen endpoint.
    pub async fn send_to(self, api: &Api, remote: &Remote, target: &Target) -> Result<Fetched, String> {
        let env = api.registry().env();
        let (timeout, most) = (self.timeout, self.max_bytes);
        let asked = async {
            let answer = self.exchange(api, remote, target).await?;
            let (head, body) = answer.read_up_to(most).await?;
            Ok(Fetched { status: head.status, headers: head.headers, body })
        };
        env.timeout(timeout, asked).await.unwrap_or_else(|_| Err(OVER.to_owned()))
    }

    /// An answer whose body is still to come.
    pub async fn open(self, api: &Api, remote: &Remote) -> Result<Opened, String> {
        let timed = api.registry().env().timeout(self.timeout, self.begin(api, remote)).await;
        timed.unwrap_or_else(|_| Err(OVER.to_owned()))
    }

    /// The same for who has a limit of time of their own.
    pub async fn begin(self, api: &Api, remote: &Remote) -> Result<Opened, String> {
        let target = target(api, remote).map_err(Unreachable::into_text)?;
        self.exchange(api, remote, &target).await
    }

    async fn exchange(self, api: &Api, remote: &Remote, target: &Target) -> Result<Opened, String> {
        let places = Places::of(api, remote);
        let places = if self.checks { places.of_checks() } else { places };
        let mut headers = self.headers;
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        headers.insert(ACCEPT, value(self.accept)?);
        headers.insert(HOST, value(&target.address.to_string())?);
        identity::set(&mut headers, self.user)?;
        let mut request = Request::new(RequestBody::Whole(self.body).forward());
        *request.uri_mut() = self.path.parse().map_err(|error| format!("{}: {error}", self.path))?;
        (*request.method_mut(), *request.headers_mut()) = (self.method, headers);
        let (response, connection) =
            remote.pool.send(target, request, &places).await.map_err(Unsent::into_text)?;
        let (head, body) = response.into_parts();
        Ok(Opened { head, body, connection })
    }
}

const OVER: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/// The head of an answer; its body comes as long as the connection is kept.
pub(crate) struct Opened {
    pub head: http::response::Parts,
    pub body: Incoming,
    pub connection: BackendConnection,
}

impl Opened {
    /// Its body keeps the connection, which is used again if that is read to its end; errors are in Go's words.
    pub fn into_response(self) -> Response<webhook::connection::Body> {
        let Opened { head, body, connection } = self;
        let frames =
            stream::try_unfold((body, connection), async |(mut body, connection)| match body.frame().await {
                Some(Ok(frame)) => Ok(Some((frame, (body, connection)))),
                Some(Err(error)) => Err(webhook::broken_body(&error, connection.ends()).into()),
                None => {
                    connection.finish();
                    Ok(None)
                }
            });
        Response::from_parts(head, StreamBody::new(frames).boxed_unsync())
    }

    pub async fn read(self, api: &Api, timeout: Duration, most: usize) -> Result<Bytes, String> {
        let read = api.registry().env().timeout(timeout, self.read_up_to(most)).await;
        read.unwrap_or_else(|_| Err(OVER.to_owned())).map(|(_, body)| body)
    }

    async fn read_up_to(mut self, most: usize) -> Result<(http::response::Parts, Bytes), String> {
        let mut body = BytesMut::new();
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| "unexpected EOF".to_owned())?;
            body.extend_from_slice(&frame.into_data().unwrap_or_default());
            if body.len() > most {
                return Err(format!("the answer is larger than {most} bytes"));
            }
        }
        self.connection.finish();
        Ok((self.head, body.freeze()))
    }
}

pub(crate) struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Fetched {
    pub fn header(&self, name: http::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// `https://10.0.0.1:443/apis/x.io/v1`
pub(crate) fn url(address: &HostPort, path: &str) -> String {
    format!("https://{address}{path}")
}
