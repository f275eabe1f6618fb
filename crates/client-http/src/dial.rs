//! Opens a connection to the server: a socket, and TLS where the address asks for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustls::crypto::ring;
use rustls_pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::config::{Config, ConfigError};
use crate::exec::Exec;
use crate::proxy::Proxy;
use crate::tls;
use crate::url::Url;

/// Bytes to the server and back.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection, and what is spoken on it.
pub struct Dialled {
    pub wire: Box<dyn Wire>,
    pub http2: bool,
}

/// A way to the server. Sockets are one; a test in virtual time brings a pipe in memory.
pub trait Dial: Send + Sync {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>>;
}

/// A connection on which nothing comes is asked this often whether the other side lives, and is dead when that many
/// questions in a row had no answer: after 45 seconds, as with the pings of HTTP/2.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// TCP, through a proxy if need be, with TLS for `https`.
pub(crate) struct Socket {
    host: String,
    port: u16,
    proxy: Option<Proxy>,
    tls: Option<Tls>,
}

struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
    /// Gives the client's certificate; with what else it takes to make a connector of it.
    plugin: Option<(Arc<Exec>, Config)>,
}

impl Socket {
    pub fn new(config: &Config, url: &Url, plugin: Option<Arc<Exec>>) -> Result<Socket, ConfigError> {
        let tls = if url.is_tls() {
            let name = config.tls_server_name.clone().unwrap_or_else(|| url.host.clone());
            let name = ServerName::try_from(name).map_err(|_| ConfigError::Server(config.server.clone()))?;
            let connector = connector(config)?;
            Some(Tls { connector, name, plugin: plugin.map(|plugin| (plugin, config.clone())) })
        } else {
            None
        };
        Ok(Socket { host: url.host.clone(), port: url.port, proxy: config.proxy.clone(), tls })
    }
}

impl Tls {
    /// With the certificate the plugin gives, if it gives one.
    async fn connector(&self) -> io::Result<TlsConnector> {
        let Some((plugin, config)) = &self.plugin else { return Ok(self.connector.clone()) };
        let given = plugin.credentials().await.map_err(io::Error::other)?;
        if given.certificate.is_none() {
            return Ok(self.connector.clone());
        }
        let config = Config { certificate_pem: given.certificate.clone(), ..config.clone() };
        connector(&config).map_err(|error| io::Error::other(format!("exec plugin: {error}")))
    }
}

fn connector(config: &Config) -> Result<TlsConnector, ConfigError> {
    let tls = tls::client_config(config, ring::default_provider(), &[b"h2", b"http/1.1"])?;
    Ok(TlsConnector::from(Arc::new(tls)))
}

impl Dial for Socket {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        Box::pin(async move {
            let (host, port) = match &self.proxy {
                Some(proxy) => (proxy.host.as_str(), proxy.port),
                None => (self.host.as_str(), self.port),
            };
            let mut tcp = TcpStream::connect((host, port)).await?;
            // Small requests must not wait for more to come.
            tcp.set_nodelay(true)?;
            keep_alive(&tcp)?;
            if let Some(proxy) = &self.proxy {
                proxy.lead(&mut tcp, &self.host, self.port).await?;
            }
            let Some(tls) = &self.tls else {
                return Ok(Dialled { wire: Box::new(tcp), http2: false });
            };
            let tls = tls.connector().await?.connect(tls.name.clone(), tcp).await?;
            let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok(Dialled { wire: Box::new(tls), http2 })
        })
    }
}

/// Whoever only reads from a peer that vanished without a word would wait for ever.
fn keep_alive(tcp: &TcpStream) -> io::Result<()> {
    let probing = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY).with_retries(PROBES);
    SockRef::from(tcp).set_tcp_keepalive(&probing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_has_tcp_keepalive() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        keep_alive(&tcp).unwrap();
        let socket = SockRef::from(&tcp);
        assert!(socket.keepalive().unwrap());
        let after = socket.tcp_keepalive_time().unwrap();
        let dead = after + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(dead, Duration::from_secs(45));
    }
}
