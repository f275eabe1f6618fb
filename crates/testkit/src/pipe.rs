//! The same cluster behind HTTP over an in-memory pipe: real requests, real encoding, virtual time.
//!
//! With a socket paused time would advance while bytes are in flight, which the runtime cannot know; with a pipe it does not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::{Api, Caller, serve_stream};
use auth::UserInfo;
use client_http::{Config, Dial, Dialled, HttpClient, HttpClients, Identities};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::{TestCluster, admin};

/// Buffer size of each direction.
const PIPE_BYTES: usize = 64 << 10;

/// Connections to a cluster as one user. Cheap to clone; clones share the connections, which a test can cut.
#[derive(Clone)]
pub struct Pipe {
    inner: Arc<Inner>,
}

struct Inner {
    api: Arc<Api>,
    user: Arc<UserInfo>,
    http2: bool,
    dials: AtomicUsize,
    /// Guards the server ends of open pipes; `None`: not listening.
    open: Mutex<Option<Vec<JoinHandle<()>>>>,
}

impl TestCluster {
    /// Clients over HTTP as the administrator, who impersonates each controller.
    pub fn http_clients(&self) -> HttpClients {
        HttpClients::new(self.pipe(true).client(self), Identities::Impersonated)
    }

    /// A wire to this cluster, as the administrator.
    pub fn pipe(&self, http2: bool) -> Pipe {
        self.pipe_as(http2, admin())
    }

    pub fn pipe_as(&self, http2: bool, user: UserInfo) -> Pipe {
        Pipe {
            inner: Arc::new(Inner {
                api: self.api().clone(),
                user: Arc::new(user.authenticated()),
                http2,
                dials: AtomicUsize::new(0),
                open: Mutex::new(Some(Vec::new())),
            }),
        }
    }
}

impl Pipe {
    pub fn client(&self, cluster: &TestCluster) -> HttpClient {
        let config = Config { server: "http://cluster".to_owned(), ..Config::default() };
        HttpClient::over(cluster.env().clone(), cluster.catalog().clone(), &config, Box::new(self.clone()))
            .expect("the address above is one")
    }

    /// Cuts every connection; new ones may be made.
    pub fn cut(&self) {
        self.end(Some(Vec::new()));
    }

    /// Cuts every connection and refuses new ones.
    pub fn close(&self) {
        self.end(None);
    }

    fn end(&self, next: Option<Vec<JoinHandle<()>>>) {
        let open = std::mem::replace(&mut *self.inner.open.lock(), next);
        for connection in open.into_iter().flatten() {
            connection.abort();
        }
    }

    /// How many connections were made.
    pub fn dials(&self) -> usize {
        self.inner.dials.load(Ordering::Relaxed)
    }
}

impl Dial for Pipe {
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        Box::pin(async move {
            let inner = &self.inner;
            let mut open = inner.open.lock();
            let Some(open) = open.as_mut() else { return Err(io::ErrorKind::ConnectionRefused.into()) };
            inner.dials.fetch_add(1, Ordering::Relaxed);
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            let (api, caller, http2) = (inner.api.clone(), Caller::Known(inner.user.clone()), inner.http2);
            let env = api.registry().env().clone();
            open.push(env.spawn("pipe", async move {
                // How it ends is seen on the other side.
                let _ = serve_stream(api, far, http2, move |_| caller.clone()).await;
            }));
            Ok(Dialled { wire: Box::new(near), http2: inner.http2 })
        })
    }
}
