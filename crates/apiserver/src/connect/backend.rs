//! Connections to nodes and pods: one for each request, HTTP/1.1, gone when the request is. Those to aggregated servers may be a pool's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use object::Status;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use streaming::Io;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use webhook::connection::{Lease, Tasks};
use webhook::dial::{self, Dialled};
use webhook::{Ends, HostPort};

use super::headers::announce_body;
use super::kubelet::Dialer;
use crate::body::ForwardedBody;
use crate::server::keep_alive;

/// Of a head, as upstream's transport has it.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// Where a request goes.
#[derive(Clone)]
pub struct Target {
    /// None: without TLS.
    pub tls: Option<Arc<ClientConfig>>,
    pub address: HostPort,
    /// To get a socket.
    pub dial_timeout: Duration,
    /// None: TCP.
    pub dialer: Option<Dialer>,
    /// What its certificate must name; None: its host.
    pub server_name: Option<ServerName<'static>>,
}

impl Target {
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    async fn socket(&self) -> Result<(Io, Ends), String> {
        if let Some(dialer) = &self.dialer {
            let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
            let dialled = dialer(self.address.clone()).await;
            let io = dialled.map_err(|error| format!("dial tcp {}: {error}", self.address))?;
            return Ok((io, Ends { local: nowhere, remote: nowhere }));
        }
        let tcp = dial::connect(&self.address).await?;
        // Nothing else would tell that a node is gone.
        let _ = SockRef::from(&tcp).set_tcp_keepalive(&keep_alive());
        let ends = dial::ends_of(&tcp, &self.address)?;
        Ok((Box::new(tcp), ends))
    }
}

/// Counts the connections to nodes, pods and other servers: each takes a file descriptor, however few connections its clients have.
#[derive(Default)]
pub struct BackendCount(Arc<AtomicUsize>);

/// A place among them, until dropped.
pub struct BackendSlot(Arc<AtomicUsize>);

impl BackendCount {
    pub fn enter(&self, most: usize) -> Result<BackendSlot, Status> {
        let slot = BackendSlot(self.0.clone());
        if self.0.fetch_add(1, Ordering::AcqRel) >= most {
            return Err(Status::too_many_requests("Too many requests, please try again later.", 1));
        }
        Ok(slot)
    }
}

impl Drop for BackendSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection to a backend: closed when dropped, or used again when its answer was read to the end.
pub struct BackendConnection {
    kept: Kept,
    ends: Ends,
    /// Its places, among all and among those of its server.
    slots: Vec<BackendSlot>,
}

enum Kept {
    /// For this request alone.
    Own { _task: AbortOnDrop },
    /// One of a pool.
    Pooled(Lease, Tasks),
}

struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl BackendConnection {
    pub fn pooled(lease: Lease, tasks: Tasks, slots: Vec<BackendSlot>) -> BackendConnection {
        let ends = lease.ends;
        BackendConnection { kept: Kept::Pooled(lease, tasks), ends, slots }
    }

    /// For the words of its errors.
    pub fn ends(&self) -> Ends {
        self.ends
    }

    pub fn with(mut self, own: BackendSlot) -> BackendConnection {
        self.slots.push(own);
        self
    }

    /// The answer was read to its end.
    pub fn finish(self) {
        if let Kept::Pooled(lease, tasks) = self.kept
            && !lease.is_http2()
        {
            let env = tasks.env.clone();
            tasks.spawn(async move { lease.finish(&env).await });
        }
    }
}

/// A backend ready for one request.
pub struct Backend {
    sender: http1::SendRequest<ForwardedBody>,
    connection: BackendConnection,
}

impl Target {
    /// A socket, and TLS on it where that is wanted. The error says what went wrong in Go's words.
    pub async fn dial(&self, env: &Env, tls: Option<&Arc<ClientConfig>>) -> Result<Dialled, String> {
        let address = &self.address;
        let (io, ends) = match env.timeout(self.dial_timeout, self.socket()).await {
            Ok(connected) => connected?,
            Err(_) => return Err(format!("dial tcp {address}: i/o timeout")),
        };
        let Some(tls) = tls else {
            return Ok(Dialled { wire: Box::new(io), ends, http2: false, held: None });
        };
        let of_host = || ServerName::try_from(address.host.to_string());
        let name = self.server_name.clone().map_or_else(of_host, Ok);
        let name = name.map_err(|_| format!("tls: {:?} is no name of a server", address.host))?;
        let wire = dial::secure(env, &TlsConnector::from(tls.clone()), &name, io, ends).await?;
        let http2 = wire.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Dialled { wire: Box::new(wire), ends, http2, held: None })
    }
}

impl Backend {
    /// The error says what went wrong in Go's words.
    pub async fn open(env: &Env, target: &Target, slot: BackendSlot) -> Result<Backend, String> {
        let Dialled { wire, ends, .. } = target.dial(env, target.tls.as_ref()).await?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEADER_BYTES)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|error| webhook::no_answer(&error, ends))?;
        let task = env.spawn("backend", async move {
            // Whoever waits for the answer gets the error.
            let _ = connection.with_upgrades().await;
        });
        let kept = Kept::Own { _task: AbortOnDrop(task) };
        Ok(Backend { sender, connection: BackendConnection { kept, ends, slots: vec![slot] } })
    }

    /// The head of the answer; its body comes as long as the connection is kept.
    pub async fn send(
        mut self,
        request: Request<ForwardedBody>,
    ) -> Result<(Response<Incoming>, BackendConnection), String> {
        let (mut head, body) = request.into_parts();
        announce_body(&mut head.headers, &body);
        match self.sender.send_request(Request::from_parts(head, body)).await {
            Ok(response) => Ok((response, self.connection)),
            Err(error) => Err(webhook::no_answer(&error, self.connection.ends)),
        }
    }
}

/// The bytes of a connection whose backend answered 101.
pub async fn upgraded(response: Response<Incoming>) -> Result<Io, String> {
    let io = hyper::upgrade::on(response).await.map_err(|error| error.to_string())?;
    Ok(Box::new(TokioIo::new(io)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backends_are_limited() {
        let count = BackendCount::default();
        let held = [count.enter(2).unwrap(), count.enter(2).unwrap()];
        assert_eq!(count.enter(2).err().map(|status| status.code), Some(429));
        drop(held);
        assert!(count.enter(1).is_ok(), "a refusal takes no place");
    }
}
