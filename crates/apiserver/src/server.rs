//! The listening server: accepts connections, and drains them on shutdown.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

use crate::acceptor::{Acceptor, Tls};
use crate::api::Api;
use crate::pools::{MigratingTask, Pools, Socket};

/// How long requests in flight may take once a shutdown has begun.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(3700);
/// How long the tasks of aborted connections may take to end.
const ABORT_TIMEOUT: Duration = Duration::from_millis(200);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: String, source: std::io::Error },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

impl Api {
    /// How many connections have closed so far.
    pub fn connections_closed(&self) -> u64 {
        self.connections.closed()
    }
}

/// A listening API server.
pub struct Server {
    api: Arc<Api>,
    /// The first one is the one people are told.
    listeners: Vec<TcpListener>,
    acceptor: Acceptor,
}

impl Server {
    pub async fn bind(api: Arc<Api>, address: &str, tls: Tls) -> Result<Server, ServerError> {
        let mut server = Server { api, listeners: Vec::new(), acceptor: Acceptor::new(tls)? };
        server.listen_also(address).await?;
        Ok(server)
    }

    /// Another address, for clients that cannot reach the first: pods.
    pub async fn listen_also(&mut self, address: &str) -> Result<(), ServerError> {
        let listener = TcpListener::bind(address).await;
        let listener =
            listener.map_err(|source| ServerError::Listen { address: address.to_owned(), source })?;
        self.listeners.push(listener);
        Ok(())
    }

    async fn accept(&self) -> std::io::Result<(TcpStream, SocketAddr)> {
        std::future::poll_fn(|cx| {
            let ready = self.listeners.iter().find_map(|listener| match listener.poll_accept(cx) {
                Poll::Ready(accepted) => Some(accepted),
                Poll::Pending => None,
            });
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Limits the number of connections: each takes a file descriptor. At the limit a new one closes another.
    pub fn limit_connections(&self, most: usize) {
        self.api.limit_connections(most);
    }

    /// Runs connections with critical requests on threads of their own.
    pub fn run_in(&self, pools: Pools) {
        self.api.connections.run_in(pools);
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listeners[0].local_addr()
    }

    /// Accepts until a shutdown begins, then waits for requests in flight, four seconds at most.
    pub async fn run(self) {
        let env = self.api.registry().env().clone();
        let controllers = self.api.start_controllers();
        let mut shutdown = self.api.shutdown();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.begun() => break,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.connection(stream, peer.ip()),
                Err(error) => {
                    // Most likely out of file descriptors, of the process or the machine.
                    tracing::warn!(%error, "could not accept a connection");
                    self.api.connections.make_room();
                    env.sleep(Duration::from_millis(100)).await;
                }
            }
        }
        let deadline = env.monotonic() + DRAIN_TIMEOUT;
        while self.api.connections.count() > 0 && env.monotonic() < deadline {
            env.sleep(Duration::from_millis(10)).await;
        }
        self.api.connections.abort_all();
        let deadline = env.monotonic() + ABORT_TIMEOUT;
        while self.api.connections.count() > 0 && env.monotonic() < deadline {
            env.sleep(Duration::from_millis(1)).await;
        }
        for task in controllers {
            // They stop by themselves on shutdown; a panic in one of them was reported already.
            let _ = task.await;
        }
    }

    fn connection(&self, stream: TcpStream, peer: IpAddr) {
        // Small answers must not wait for Nagle's algorithm.
        let _ = stream.set_nodelay(true);
        // After an upgrade nothing else would tell that a client is gone.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keep_alive());
        let (api, acceptor) = (self.api.clone(), self.acceptor.clone());
        let open = api.connections.open(api.registry().env());
        let env = self.api.registry().env();
        let connection = open.connection().clone();
        connection.set_peer(peer);
        let stream = Socket::new(stream, connection.clone());
        let work = async move {
            if let Err(error) = acceptor.serve_open(api, stream, open).await {
                tracing::debug!(error, "connection ended");
            }
        };
        match self.api.connections.pools() {
            Some(pools) => env.spawn("connection", MigratingTask::new(work, connection, pools.clone())),
            None => env.spawn("connection", work),
        };
    }
}

/// Go's defaults.
pub(crate) fn keep_alive() -> TcpKeepalive {
    let every = Duration::from_secs(15);
    TcpKeepalive::new().with_time(every).with_interval(every)
}
