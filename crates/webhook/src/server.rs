//! A webhook's server: one for all webhooks with the same authority, trust and credentials.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use hyper::body::Incoming;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use crate::config::{ClientConfig, ConfigError, Target};
use crate::connection::{self, Body, Connections, IDLE_LIMIT, Lease, Tasks};
use crate::dial;
use crate::service::{HostPort, ServiceResolver};
use crate::tls;

/// Calls under way to one server; more wait for their turn. It also bounds the connections.
const MAX_CALLS: usize = 128;

/// What an answer may have on its way unread.
const STREAM_WINDOW: u32 = 1 << 20;

/// What upstream's client calls itself.
const AGENT: HeaderValue = HeaderValue::from_static("kube-apiserver-admission");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_ANY: HeaderValue = HeaderValue::from_static("application/json, */*");

/// For the calls under way to one server.
pub fn places() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CALLS))
}

pub(crate) struct Server {
    tasks: Tasks,
    target: Target,
    tls: TlsConnector,
    name: ServerName<'static>,
    authority: Authority,
    /// Who this server is there, as far as headers say it.
    identity: HeaderMap,
    pub places: Arc<Semaphore>,
    /// Guards the list of addresses; held to find one.
    addresses: Mutex<BTreeMap<HostPort, Arc<Connections>>>,
    /// Guards the time of the last call.
    used: Mutex<Instant>,
}

impl Server {
    pub fn new(tasks: Tasks, config: &ClientConfig) -> Result<Server, ConfigError> {
        let tls = tls::connector(&tasks.env, config)?;
        let target = config.target.clone();
        let name = ServerName::try_from(target.server_name())
            .map_err(|_| ConfigError::Tls(format!("{} is no name of a server", target.server_name())))?;
        let authority = target.authority().parse().map_err(|_| ConfigError::Host)?;
        let identity = config.credentials.as_ref().map(|known| known.headers()).transpose()?;
        let used = Mutex::new(tasks.env.monotonic());
        Ok(Server {
            tasks,
            target,
            tls,
            name,
            authority,
            identity: identity.unwrap_or_default(),
            places: places(),
            addresses: Mutex::default(),
            used,
        })
    }

    /// The answer's head; its body comes through the lease's connection, so keep that. An error says why in Go's words.
    pub async fn send(
        &self,
        resolver: &dyn ServiceResolver,
        path: &PathAndQuery,
        body: &Bytes,
        connect_limit: Duration,
    ) -> Result<(Response<Incoming>, Lease), String> {
        let address = self.address(resolver)?;
        let connections = self.connections(&address);
        let mut refused = false;
        loop {
            let mut lease = self.lease(&connections, &address, connect_limit).await?;
            let request = self.request(path, body, lease.is_http2());
            let failed = match lease.send(request).await {
                Ok(response) => return Ok((response, lease)),
                Err(failed) => failed,
            };
            // What a server may have seen it does not get again, as upstream: its webhook may have side effects.
            match failed.unsent {
                // The connection was closed while nobody looked.
                Some(_) if !lease.fresh => {}
                // A new connection too: many calls begin on it before it says how many it takes.
                None if failed.refused && !refused => refused = true,
                _ => return Err(failed.why),
            }
        }
    }

    fn address(&self, resolver: &dyn ServiceResolver) -> Result<HostPort, String> {
        match &self.target {
            Target::Url { host, port, .. } => Ok(HostPort { host: host.clone(), port: *port }),
            Target::Service(service) => {
                let found = resolver.resolve(&service.namespace, &service.name, service.port);
                let found = found.map_err(|error| error.to_string())?;
                let at = self.tasks.env.random_below(found.len().max(1) as u64) as usize;
                let chosen = found.get(at).cloned();
                chosen.ok_or_else(|| {
                    crate::service::ResolveError::NoEndpoints(service.name.to_string()).to_string()
                })
            }
        }
    }

    fn connections(&self, address: &HostPort) -> Arc<Connections> {
        let now = self.tasks.env.monotonic();
        *self.used.lock() = now;
        let mut addresses = self.addresses.lock();
        match addresses.get(address) {
            Some(connections) => connections.clone(),
            None => {
                let connections = Connections::new(now, STREAM_WINDOW);
                addresses.insert(address.clone(), connections.clone());
                connections
            }
        }
    }

    async fn lease(
        &self,
        connections: &Arc<Connections>,
        address: &HostPort,
        connect_limit: Duration,
    ) -> Result<Lease, String> {
        let dial = dial::dial(&self.tasks.env, &self.tls, &self.name, address, connect_limit);
        connections.lease(&self.tasks, dial).await
    }

    /// HTTP/2 says the whole address, HTTP/1.1 the path and a Host.
    fn request(&self, path: &PathAndQuery, body: &Bytes, http2: bool) -> Request<Body> {
        let mut request = Request::new(connection::whole(body.clone()));
        *request.method_mut() = Method::POST;
        let mut uri = http::uri::Parts::default();
        uri.path_and_query = Some(path.clone());
        if http2 {
            uri.scheme = Some(Scheme::HTTPS);
            uri.authority = Some(self.authority.clone());
        }
        *request.uri_mut() =
            Uri::from_parts(uri).expect("scheme and authority come together, the path is one");
        let headers = request.headers_mut();
        if let (false, Ok(host)) = (http2, HeaderValue::from_str(self.authority.as_str())) {
            headers.insert(HOST, host);
        }
        headers.insert(USER_AGENT, AGENT);
        headers.insert(ACCEPT, JSON_OR_ANY);
        headers.insert(CONTENT_TYPE, JSON);
        headers.extend(self.identity.clone());
        request
    }

    pub fn used(&self) -> Instant {
        *self.used.lock()
    }

    /// Closes what has been idle for long; whether that is all there is.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.addresses.lock().retain(|_, connections| !connections.is_idle(now));
        now.saturating_duration_since(self.used()) >= IDLE_LIMIT
    }
}
