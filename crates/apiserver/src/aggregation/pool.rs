//! Connections to an aggregated server, used again: a handshake costs more than most requests.
//!
//! ```text
//! APIService (Service, CA bundle) ── BackendPool ── endpoint ── Connections: HTTP/2 streams, or idle HTTP/1.1
//! ```
//! Who asks is only in headers, so that users share connections. A pool ends with what it was made for: another Service or bundle is another
//! pool, an endpoint that is gone is forgotten, and so is everything when the front proxy's certificate is another.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::Env;
use http::header::HOST;
use http::{Method, Request, Response, Uri, request};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use object::Status;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::sign::CertifiedKey;
use webhook::HostPort;
use webhook::connection::{Body, Connections, Lease, Tasks, whole};

use super::backend::Places;
use crate::body::ForwardedBody;
use crate::connect::backend::{BackendConnection, Target};
use crate::connect::headers::announce_body;

/// What an answer may have on its way that its client does not read, of each stream.
const STREAM_WINDOW: u32 = 256 << 10;

pub(crate) struct BackendPool {
    tasks: Tasks,
    /// With HTTP/2; None: nobody can be asked.
    tls: Option<Arc<ClientConfig>>,
    /// Guards the endpoints; held to find one.
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// What connections were made with.
    certificate: Option<Arc<CertifiedKey>>,
    endpoints: BTreeMap<HostPort, Arc<Connections>>,
}

/// Why there is no answer.
pub(crate) enum Unsent {
    /// There is no place for it.
    TooMany(Status),
    /// In Go's words.
    Failed(String),
}

impl Unsent {
    pub fn into_text(self) -> String {
        match self {
            Unsent::TooMany(status) => status.message,
            Unsent::Failed(why) => why,
        }
    }
}

impl BackendPool {
    pub fn new(env: &Env, tls: Option<&Arc<ClientConfig>>) -> Arc<BackendPool> {
        let tls = tls.map(|tls| {
            let mut tls = ClientConfig::clone(tls);
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Arc::new(tls)
        });
        let tasks = Tasks::new(env.clone(), "aggregated-server");
        Arc::new(BackendPool { tasks, tls, open: Mutex::default() })
    }

    /// The head of the answer; its body comes as long as the connection is kept.
    pub async fn send(
        &self,
        target: &Target,
        request: Request<ForwardedBody>,
        places: &Places<'_>,
    ) -> Result<(Response<Incoming>, BackendConnection), Unsent> {
        let place = places.request().map_err(Unsent::TooMany)?;
        let connections = self.connections(&target.address);
        let (parts, body) = request.into_parts();
        // What has been sent may be sent again only if that changes nothing, or the server says that it has not looked at it; and once.
        let is_empty = body.is_end_stream();
        let mut repeatable = matches!(parts.method, Method::GET | Method::HEAD) && is_empty;
        let mut refused = false;
        let mut body = Some(body.map_err(Into::into).boxed_unsync());
        loop {
            let env = &self.tasks.env;
            // A connection of HTTP/2 keeps its places, whoever's streams it carries; of HTTP/1.1 its request does: idle ones have none.
            let (mut taken, mut full) = (Vec::new(), None);
            let dial = async {
                let slots = places.connection().map_err(|status| {
                    let why = status.message.clone();
                    full = Some(status);
                    why
                })?;
                let mut dialled = target.dial(env, self.tls.as_ref()).await?;
                if dialled.http2 {
                    dialled.held = Some(Box::new(slots));
                } else {
                    taken.extend(slots);
                }
                Ok(dialled)
            };
            let lease = connections.lease(&self.tasks, dial).await;
            let mut lease = match (lease, full) {
                (Ok(lease), _) => lease,
                (Err(_), Some(status)) => return Err(Unsent::TooMany(status)),
                (Err(why), None) => return Err(Unsent::Failed(why)),
            };
            if !lease.is_http2() && taken.is_empty() {
                taken.extend(places.connection().map_err(Unsent::TooMany)?);
            }
            let request =
                addressed(&parts, body.take().unwrap_or_else(|| whole(bytes::Bytes::new())), &lease)
                    .map_err(Unsent::Failed)?;
            let failed = match lease.send(request).await {
                Ok(response) => {
                    taken.push(place);
                    let connection = BackendConnection::pooled(lease, self.tasks.clone(), taken);
                    return Ok((response, connection));
                }
                Err(failed) => failed,
            };
            match failed.unsent {
                // A new connection too: many requests begin on it before it says how many it takes.
                None if failed.refused && is_empty && !refused => refused = true,
                _ if lease.fresh => return Err(Unsent::Failed(failed.why)),
                // The connection was closed while nobody looked.
                Some(unsent) => body = Some(unsent.into_body()),
                None if failed.cut && repeatable => repeatable = false,
                None => return Err(Unsent::Failed(failed.why)),
            }
        }
    }

    /// Endpoints that are none any more are forgotten.
    pub fn retain(&self, endpoints: &[HostPort]) {
        let mut open = self.open.lock();
        if open.endpoints.keys().any(|known| !endpoints.contains(known)) {
            open.endpoints.retain(|known, _| endpoints.contains(known));
        }
    }

    fn connections(&self, address: &HostPort) -> Arc<Connections> {
        let now = self.tasks.env.monotonic();
        let certificate = self.tls.as_ref().and_then(|tls| tls.client_auth_cert_resolver.resolve(&[], &[]));
        let mut open = self.open.lock();
        let same = match (&open.certificate, &certificate) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        if !same {
            *open = Open { certificate, ..Open::default() };
        }
        // Its availability is checked every 30 s: whatever is idle is closed then.
        open.endpoints.retain(|known, connections| known == address || !connections.is_idle(now));
        let new = || Connections::new(now, STREAM_WINDOW);
        open.endpoints.entry(address.clone()).or_insert_with(new).clone()
    }
}

/// HTTP/2 says the whole address, HTTP/1.1 the path and a Host.
fn addressed(parts: &request::Parts, body: Body, lease: &Lease) -> Result<Request<Body>, String> {
    let mut headers = parts.headers.clone();
    if !lease.is_http2() {
        announce_body(&mut headers, &body);
    }
    let mut request = Request::new(body);
    (*request.method_mut(), *request.headers_mut()) = (parts.method.clone(), headers);
    *request.uri_mut() = parts.uri.clone();
    if lease.is_http2()
        && let Some(host) = request.headers_mut().remove(HOST)
    {
        let mut uri = parts.uri.clone().into_parts();
        uri.scheme = Some(http::uri::Scheme::HTTPS);
        uri.authority = Some(host.as_bytes().try_into().map_err(|error| format!("{error}"))?);
        *request.uri_mut() = Uri::from_parts(uri).map_err(|error| error.to_string())?;
    }
    Ok(request)
}
