//! A whole cluster inside a test: the same server, on the memory store, without a socket.
//!
//! ```text
//!  TestCluster::start()          machine clock, any runtime
//!  TestCluster::simulated(seed)  virtual clock: #[tokio::test(start_paused = true)]
//!        │
//!        ├── client(), client_as(user)   kube::Client ──┐
//!        ├── get(path), post(path, body) raw requests ──┼──> Api::handle
//!        └── serve()                     TLS socket ────┘
//! ```
//! Every cluster is a value of its own: tests share nothing and may run side by side.

mod raw;
mod service;
mod socket;

use std::sync::Arc;

use apiserver::{Api, ApiConfig, Caller};
use auth::pki::Issuer;
use auth::{Tokens, UserInfo, groups};
use catalog::Catalog;
use env::Env;
use store::MemoryEngine;
use table::Table;
use tokio::task::JoinHandle;

pub use raw::{Ask, Reply, Stream};
pub use socket::Served;

/// A running cluster. Stop it with [`shutdown`](TestCluster::shutdown); dropping it stops its loops too.
pub struct TestCluster {
    api: Arc<Api>,
    loops: Vec<JoinHandle<()>>,
    sockets: Vec<JoinHandle<()>>,
}

impl TestCluster {
    /// On the machine's clock.
    pub async fn start() -> TestCluster {
        Self::in_world(Env::machine(), None).await
    }

    /// In a world of its own with a virtual clock and a seed: the same calls give the same answers, ids and
    /// times included. Needs a current-thread runtime whose time is paused.
    pub async fn simulated(seed: u64) -> TestCluster {
        Self::in_world(Env::simulated(seed), None).await
    }

    /// In a given world, with static tokens for callers that bring one.
    pub async fn in_world(env: Env, tokens: Option<Tokens>) -> TestCluster {
        let catalog = Arc::new(Catalog::builtin());
        let table = Table::new(catalog.clone(), env.clone());
        let engine = MemoryEngine::open(table.clone());
        let admission = Default::default();
        let issuer = Issuer::in_memory(env.now_seconds()).expect("an authority in memory");
        let issuer = Some(issuer);
        let api = Api::new(ApiConfig { catalog, table, engine, env, tokens, admission, issuer })
            .expect("the default plugins exist");
        if let Err(status) = api.bootstrap().await {
            panic!("the cluster's first objects: {}", status.message);
        }
        let loops = api.start_loops();
        TestCluster { api, loops, sockets: Vec::new() }
    }

    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub fn env(&self) -> &Env {
        self.api.registry().env()
    }

    pub fn catalog(&self) -> &Arc<Catalog> {
        self.api.registry().catalog()
    }

    /// The administrator's client; no socket is involved.
    pub fn client(&self) -> kube::Client {
        self.client_as(admin())
    }

    /// A client with any identity, as if a certificate had proven it.
    pub fn client_as(&self, user: UserInfo) -> kube::Client {
        let caller = Caller::Known(Arc::new(user.authenticated()));
        kube::Client::new(service::InProcess::new(self.api.clone(), caller), "default")
    }

    /// Ends watches, waits for loops and sockets.
    pub async fn shutdown(mut self) {
        self.api.begin_shutdown();
        for task in self.loops.drain(..).chain(self.sockets.drain(..)) {
            if let Err(error) = task.await
                && error.is_panic()
            {
                panic!("a task of the cluster panicked: {error}");
            }
        }
        self.api.registry().engine().close().await;
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.api.begin_shutdown();
    }
}

/// Who [`TestCluster::client`] and the raw requests are.
pub fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", &[groups::MASTERS, groups::AUTHENTICATED])
}
