//! Opens a connection: a socket, then TLS. Errors are in Go's words.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use client_http::Wire;
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

/// A connection, and what is spoken on it.
pub struct Dialled {
    pub wire: Box<dyn Wire>,
    pub ends: Ends,
    pub http2: bool,
    /// Of HTTP/2: dropped when the connection ends.
    pub held: Option<Box<dyn Send>>,
}

/// `limit`: to get a socket.
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
    let ends = ends_of(&tcp, address)?;
    let wire = secure(env, tls, name, tcp, ends).await?;
    let http2 = wire.get_ref().1.alpn_protocol() == Some(b"h2");
    Ok(Dialled { wire: Box::new(wire), ends, http2, held: None })
}

/// The ends of a new connection.
pub fn ends_of(tcp: &TcpStream, address: &HostPort) -> Result<Ends, String> {
    let failed = |error: io::Error| format!("dial tcp {address}: {error}");
    // Small requests must not wait for more to come.
    tcp.set_nodelay(true).map_err(failed)?;
    Ok(Ends { local: tcp.local_addr().map_err(failed)?, remote: tcp.peer_addr().map_err(failed)? })
}

/// The handshake of TLS.
pub async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    env: &Env,
    tls: &TlsConnector,
    name: &ServerName<'static>,
    io: S,
    ends: Ends,
) -> Result<TlsStream<Sniffed<S>>, String> {
    let shaken = {
        let handshake = tls.connect(name.clone(), Sniffed { io, began: Vec::new() }).into_fallible();
        env.timeout(HANDSHAKE_LIMIT, handshake).await
    };
    match shaken {
        Ok(Ok(wire)) => Ok(wire),
        Ok(Err((error, sniffed))) => Err(go_errors::handshake(&error, ends, &sniffed.began)),
        Err(_) => Err("net/http: TLS handshake timeout".to_owned()),
    }
}

/// The first of its addresses that answers; the error is the last one's.
pub async fn connect(address: &HostPort) -> Result<TcpStream, String> {
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
pub struct Sniffed<S = TcpStream> {
    io: S,
    began: Vec<u8>,
}

/// `HTTP/`.
const BEGINNING: usize = 5;

impl<S: AsyncRead + Unpin> AsyncRead for Sniffed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if self.began.len() < BEGINNING {
            let new = &buf.filled()[before..];
            let wanted = (BEGINNING - self.began.len()).min(new.len());
            self.began.extend_from_slice(&new[..wanted]);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Sniffed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
