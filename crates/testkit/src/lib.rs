//! A whole cluster inside a test: the same server, on the memory store, without a socket.
//!
//! ```text
//!  TestCluster::start()          machine clock, any runtime
//!  TestCluster::simulated(seed)  virtual clock: #[tokio::test(start_paused = true)]
//!        │
//!        ├── client(), client_as(user)   kube::Client ──┐
//!        ├── get(path), post(path, body) raw requests ──┼──> Api::handle
//!        ├── pipe(), http_clients()      HTTP in memory ┤
//!        └── serve()                     TLS socket ────┘
//! ```
//! Every cluster is a value of its own: tests share nothing and may run side by side.

mod control;
pub mod faults;
pub mod forward;
pub mod journal;
mod pipe;
mod raw;
pub mod requests;
mod service;
mod socket;
mod state;
mod widgets;

use std::sync::Arc;
use std::time::Duration;

use apiserver::{Api, ApiConfig, Caller, ClusterSettings};
use auth::jwt::SigningKey;
use auth::pki::Issuer;
use auth::service_account::{ServiceAccounts, Settings};
use auth::{Tokens, UserInfo, groups};
use catalog::Catalog;
use env::Env;
use store::MemoryEngine;
use table::{Scope, Selection, Table};
use tokio::task::JoinHandle;

pub use control::{ControlPlane, nodes};
pub use pipe::Pipe;
pub use raw::{Ask, Reply, Stream};
pub use socket::Served;
pub use widgets::widgets;

/// A running cluster. Stop it with [`shutdown`](TestCluster::shutdown); dropping it stops its loops too.
pub struct TestCluster {
    api: Arc<Api>,
    loops: Vec<JoinHandle<()>>,
    /// Makes default accounts, where nobody else does.
    accounts: Option<ControlPlane>,
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
        Self::with(env, |config| config.tokens = tokens).await
    }

    /// In a given world, with a configuration of one's own.
    pub async fn with(env: Env, change: impl FnOnce(&mut ApiConfig)) -> TestCluster {
        let mut cluster = Self::bare(env, change).await;
        cluster.start_accounts();
        cluster.settled().await;
        cluster
    }

    /// The server alone: no namespace gets an account, so no pod can be made, unless the test runs the loops that do.
    pub async fn bare(env: Env, change: impl FnOnce(&mut ApiConfig)) -> TestCluster {
        let table = Table::new(Arc::new(Catalog::builtin()), env.clone());
        let engine = MemoryEngine::open(table.clone());
        let issuer = Issuer::in_memory(env.now_seconds()).expect("an authority in memory");
        let mut config = ApiConfig {
            table,
            engine,
            env,
            tokens: None,
            service_accounts: service_accounts(Settings::default()),
            bootstrap_tokens: true,
            admission: Default::default(),
            issuer: Some(issuer),
            cluster: ClusterSettings::default(),
        };
        change(&mut config);
        let api = Api::new(config).unwrap_or_else(|error| panic!("{error}"));
        if let Err(status) = api.bootstrap().await {
            panic!("the cluster's first objects: {}", status.message);
        }
        let loops = api.start_controllers();
        TestCluster { api, loops, accounts: None, sockets: Vec::new() }
    }

    /// Waits until loops have made a default account for every namespace there is.
    pub async fn settled(&self) {
        let table = self.api.registry().table();
        let catalog = table.catalog();
        let stored = |plural: &str| catalog.find_storage("", plural).expect("a core resource");
        let (namespaces, accounts) = (stored("namespaces"), stored("serviceaccounts"));
        // Far more turns than any test's namespaces need.
        for _ in 0..10_000 {
            let everything = Selection::everything(Scope::All);
            let all = table.list(namespaces.id, &everything, None, None, 0).expect("the present is readable");
            let lacking = all
                .items
                .iter()
                .filter(|ns| !ns.deleting())
                .any(|ns| table.get(accounts.id, &accounts.key(ns.name(), "default")).is_none());
            if !lacking {
                return;
            }
            self.env().sleep(Duration::from_millis(1)).await;
        }
        panic!("some namespace never got its default account");
    }

    pub fn api(&self) -> &Arc<Api> {
        &self.api
    }

    pub fn env(&self) -> &Env {
        self.api.registry().env()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
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
        if let Some(accounts) = self.accounts.take() {
            accounts.stop().await;
        }
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

/// The issuer of every test cluster. Its key is the same in all of them: a world under a seed must not draw
/// keys from the machine, and the world's own random numbers are no stuff for keys.
pub fn service_accounts(settings: Settings) -> ServiceAccounts {
    let key = SigningKey::from_pem(SERVICE_ACCOUNT_KEY).expect("the key below is one");
    ServiceAccounts::new(settings, key, Vec::new())
}

const SERVICE_ACCOUNT_KEY: &[u8] = include_bytes!("service_account.key");

/// Who [`TestCluster::client`] and the raw requests are.
pub fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", &[groups::MASTERS, groups::AUTHENTICATED])
}
