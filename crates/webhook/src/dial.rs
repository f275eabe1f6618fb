//! Opens a connection to a webhook: a socket, then TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use env::Env;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::go_errors::{self, Ends};
use crate::service::HostPort;

/// net/http's limit.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

pub(crate) struct Dialled {
    pub wire: TlsStream<Sniffed>,
    pub ends: Ends,
    pub http2: bool,
}

/// `limit`: to get a socket. An error says what went wrong in Go's words.
pub(crate) async fn dial(
    env: &Env,
    tls: &TlsConnector,
    name: &ServerName<'static>,
    address: &HostPort,
    limit: Duration,
) -> Result<Dialled, String> {
    let tcp = match env.timeout(limit, connect(address)).await {
        Ok(connected) => connected?,
        Err(_) => return Err(format!("dial tcp {address}: i/o timeout")),
    };
    let failed = |error: io::Error| format!("dial tcp {address}: {error}");
    // Small requests must not wait for more to come.
    tcp.set_nodelay(true).map_err(failed)?;
    let ends = Ends { local: tcp.local_addr().map_err(failed)?, remote: tcp.peer_addr().map_err(failed)? };
    let shaken = {
        let handshake = tls.connect(name.clone(), Sniffed { tcp, began: Vec::new() }).into_fallible();
        env.timeout(HANDSHAKE_LIMIT, handshake).await
    };
    let wire = match shaken {
        Ok(Ok(wire)) => wire,
        Ok(Err((error, sniffed))) => {
            return Err(go_errors::handshake(&error, ends, &sniffed.began));
        }
        Err(_) => return Err("net/http: TLS handshake timeout".to_owned()),
    };
    let http2 = wire.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Dialled { wire, ends, http2 })
}

/// The first of its addresses that answers; the error is the last one's.
async fn connect(address: &HostPort) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = match address.host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, address.port)],
        Err(_) => match tokio::net::lookup_host((&*address.host, address.port)).await {
            Ok(found) => found.collect(),
            Err(error) => return Err(go_errors::lookup(&address.host, &error)),
        },
    };
    let mut failed = format!("dial tcp: lookup {}: no such host", address.host);
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(tcp) => return Ok(tcp),
            Err(error) => failed = go_errors::connect(address, &error),
        }
    }
    Err(failed)
}

/// Remembers how the other side began, for those who gave the address of a server without TLS.
pub(crate) struct Sniffed {
    tcp: TcpStream,
    began: Vec<u8>,
}

/// `HTTP/`.
const BEGINNING: usize = 5;

impl AsyncRead for Sniffed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.tcp).poll_read(cx, buf);
        if self.began.len() < BEGINNING {
            let new = &buf.filled()[before..];
            let wanted = (BEGINNING - self.began.len()).min(new.len());
            self.began.extend_from_slice(&new[..wanted]);
        }
        polled
    }
}

impl AsyncWrite for Sniffed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
