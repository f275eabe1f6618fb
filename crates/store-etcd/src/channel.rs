//! A client-side balancer over the endpoints of one etcd cluster: dialling, failover, timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;
use grpc::{CallError, Connection, Options};
use http::Uri;
use prost::Message;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;

/// From the call to the answer, dialling included.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);
/// One attempt of a call that may be retried elsewhere: a member that does not answer must not use up the whole timeout.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(4);
/// As long as etcd's own client gives a dial.
const DIAL_LIMIT: Duration = Duration::from_secs(2);

/// A page of a listing whose answer is larger is asked for again with fewer keys.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

const OPTIONS: Options = Options {
    max_answer_bytes: MAX_ANSWER_BYTES,
    // etcd takes pings every 5 s and more seldom, and only while a stream is open.
    ping: Some((Duration::from_secs(10), Duration::from_secs(10))),
    // A member without a leader then says so instead of keeping silent.
    headers: &[("hasleader", "true")],
};

/// Whether a call may be retried when the outcome of the first attempt is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// Reads, and writes where twice is the same as once.
    Allowed,
    Never,
}

/// One address of etcd, such as `http://10.0.0.7:2379`.
#[derive(Clone, Debug)]
pub struct Endpoint {
    base: Uri,
    host: String,
    port: u16,
}

#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error("no endpoint is given: name at least one, such as http://127.0.0.1:2379")]
    None,
    #[error("{0:?} is not an endpoint: write it as http://host:2379 or https://host:2379")]
    Malformed(String),
    #[error("{0} asks for TLS, but no TLS configuration is given")]
    NoTls(String),
}

impl Endpoint {
    /// `host:port` alone means plain HTTP, as in etcd's own tools.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointError> {
        let malformed = || EndpointError::Malformed(text.to_string());
        let full = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
        let uri: Uri = full.parse().map_err(|_| malformed())?;
        let scheme = uri.scheme_str().filter(|s| matches!(*s, "http" | "https")).ok_or_else(malformed)?;
        let authority = uri.authority().filter(|_| matches!(uri.path(), "" | "/")).ok_or_else(malformed)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_string();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => 2379,
            None => return Err(malformed()),
        };
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(malformed());
        }
        let base = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query("/").build();
        Ok(Endpoint { base: base.map_err(|_| malformed())?, host, port })
    }

    fn is_tls(&self) -> bool {
        self.base.scheme_str() == Some("https")
    }
}

/// How to reach the cluster.
#[derive(Clone)]
pub struct Cluster {
    env: Env,
    endpoints: Arc<[Endpoint]>,
    tls: Option<Arc<ClientConfig>>,
}

impl Cluster {
    pub fn new(
        env: Env,
        endpoints: &[String],
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Cluster, EndpointError> {
        let endpoints = endpoints.iter().map(|e| Endpoint::parse(e)).collect::<Result<Arc<[_]>, _>>()?;
        if endpoints.is_empty() {
            return Err(EndpointError::None);
        }
        if let (None, Some(e)) = (&tls, endpoints.iter().find(|e| e.is_tls())) {
            return Err(EndpointError::NoTls(e.base.to_string()));
        }
        // HTTP/2 over TLS is agreed on by name.
        let tls = tls.map(|config| {
            let mut config = (*config).clone();
            config.alpn_protocols = vec![b"h2".to_vec()];
            Arc::new(config)
        });
        Ok(Cluster { env, endpoints, tls })
    }

    async fn dial(&self, endpoint: &Endpoint) -> Result<Connection, CallError> {
        let failed = |e: std::io::Error| CallError::NotSent(e.to_string());
        let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        let Some(config) = self.tls.as_ref().filter(|_| endpoint.is_tls()) else {
            return Connection::handshake(&self.env, tcp, endpoint.base.clone(), OPTIONS).await;
        };
        let name = ServerName::try_from(endpoint.host.clone())
            .map_err(|_| CallError::NotSent(format!("{} is no name for a certificate", endpoint.host)))?;
        let tls = TlsConnector::from(config.clone()).connect(name, tcp).await.map_err(failed)?;
        Connection::handshake(&self.env, tls, endpoint.base.clone(), OPTIONS).await
    }
}

/// At most one connection at a time, to whichever endpoint answers.
pub struct Channel {
    cluster: Cluster,
    /// Which endpoint is dialled first; advanced when one fails.
    next: AtomicUsize,
    /// The connection in use. Held while dialling, on purpose: all who wait need the outcome of that same dial.
    current: Mutex<Option<Arc<Connection>>>,
}

impl Channel {
    pub fn new(cluster: Cluster) -> Channel {
        Channel { cluster, next: AtomicUsize::new(0), current: Mutex::new(None) }
    }

    /// One request, one answer, within [`CALL_LIMIT`].
    pub async fn call<A: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
        repeat: Repeat,
    ) -> Result<A, CallError> {
        let env = &self.cluster.env;
        let left = |until: Instant| until.saturating_duration_since(env.monotonic());
        let deadline = env.monotonic() + CALL_LIMIT;
        let mut attempts_left = self.cluster.endpoints.len() + 1;
        loop {
            let connection = env.timeout(left(deadline), self.connection()).await.unwrap_or_else(|_| {
                Err(CallError::NotSent(format!("no connection within {CALL_LIMIT:?}")))
            })?;
            let limit = match repeat {
                Repeat::Allowed => deadline.min(env.monotonic() + ATTEMPT_LIMIT),
                Repeat::Never => deadline,
            };
            let error = match env.timeout(left(limit), connection.unary(path, message)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => CallError::Timeout(CALL_LIMIT),
            };
            if !error.is_passing() {
                return Err(error);
            }
            self.forget(&connection).await;
            attempts_left -= 1;
            let again = matches!(error, CallError::NotSent(_)) || repeat == Repeat::Allowed;
            if !again || attempts_left == 0 || env.monotonic() >= deadline {
                return Err(error);
            }
        }
    }

    /// A connection for the caller alone, to the first endpoint that takes it.
    pub async fn dial(&self) -> Result<Connection, CallError> {
        let first = self.next.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for i in 0..self.cluster.endpoints.len() {
            let at = (first + i) % self.cluster.endpoints.len();
            let endpoint = &self.cluster.endpoints[at];
            match self.cluster.env.timeout(DIAL_LIMIT, self.cluster.dial(endpoint)).await {
                Ok(Ok(connection)) => {
                    self.next.store(at, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(e)) => reasons.push(format!("{}: {e}", endpoint.base)),
                Err(_) => reasons.push(format!("{}: no connection within {DIAL_LIMIT:?}", endpoint.base)),
            }
        }
        Err(CallError::NotSent(reasons.join("; ")))
    }

    /// The next dial begins at another endpoint.
    pub fn try_next_endpoint(&self) {
        self.next.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the connection.
    pub async fn close(&self) {
        *self.current.lock().await = None;
    }

    async fn connection(&self) -> Result<Arc<Connection>, CallError> {
        let mut current = self.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|c| !c.is_closed()) {
            return Ok(connection.clone());
        }
        let connection = Arc::new(self.dial().await?);
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Calls under way keep the connection; new ones dial again.
    async fn forget(&self, connection: &Arc<Connection>) {
        let mut current = self.current.lock().await;
        if current.as_ref().is_some_and(|c| Arc::ptr_eq(c, connection)) {
            *current = None;
            self.try_next_endpoint();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_with_and_without_a_scheme() {
        let plain = Endpoint::parse("127.0.0.1:2379").unwrap();
        assert_eq!((plain.host.as_str(), plain.port, plain.is_tls()), ("127.0.0.1", 2379, false));
        let six = Endpoint::parse("https://[::1]:4001/").unwrap();
        assert_eq!((six.host.as_str(), six.port, six.is_tls()), ("::1", 4001, true));
        assert_eq!(Endpoint::parse("http://etcd").unwrap().port, 2379);
        for bad in
            ["", "ftp://etcd:1", "http://", "http://etcd:2379/v3", "http://etcd:99999", "http://a@etcd:1"]
        {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tls_endpoints_need_a_tls_configuration() {
        let cluster = Cluster::new(Env::machine(), &["https://etcd:2379".into()], None);
        assert!(matches!(cluster, Err(EndpointError::NoTls(_))));
        assert!(matches!(Cluster::new(Env::machine(), &[], None), Err(EndpointError::None)));
    }
}
