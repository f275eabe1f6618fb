//! A complete cluster inside a test: the same server, on the memory store, without a socket.
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
//! Clusters share nothing, so tests may run in parallel.

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

/// A running cluster. Stop it with [`shutdown`](TestCluster::shutdown); dropping it stops its controllers too.
pub struct TestCluster {
    api: Arc<Api>,
    controllers: Vec<JoinHandle<()>>,
    /// The controllers it started with.
    base: Option<ControlPlane>,
    sockets: Vec<JoinHandle<()>>,
}

impl TestCluster {
    /// On the system clock.
    pub async fn start() -> TestCluster {
        Self::with_tokens(Env::machine(), None).await
    }

    /// With a virtual clock and a seed: the same calls give the same responses, uids and
    /// times included. Needs a current-thread runtime whose time is paused.
    pub async fn simulated(seed: u64) -> TestCluster {
        Self::with_tokens(Env::simulated(seed), None).await
    }

    /// With a given [`Env`], and static tokens.
    pub async fn with_tokens(env: Env, tokens: Option<Tokens>) -> TestCluster {
        Self::with(env, |config| config.tokens = tokens).await
    }

    /// With a given [`Env`] and configuration.
    pub async fn with(env: Env, change: impl FnOnce(&mut ApiConfig)) -> TestCluster {
        Self::with_base(env, change, &control::base().collect::<Vec<_>>()).await
    }

    /// The same where no controllers run but those that make ServiceAccounts and their tokens.
    pub async fn with_accounts(env: Env, change: impl FnOnce(&mut ApiConfig)) -> TestCluster {
        Self::with_base(env, change, &controllers::ACCOUNTS).await
    }

    async fn with_base(env: Env, change: impl FnOnce(&mut ApiConfig), names: &[&str]) -> TestCluster {
        let mut cluster = Self::bare(env, change).await;
        cluster.start_base(names);
        cluster.settled().await;
        cluster
    }

    /// The server alone: namespaces get no ServiceAccount, so no pod can be created, unless the test runs the controllers that do.
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
            admission_configuration: Default::default(),
            issuer: Some(issuer),
            cluster: ClusterSettings {
                usage: Some(node::simulated::usage::containers),
                ..ClusterSettings::default()
            },
        };
        change(&mut config);
        let api = Api::new(config).unwrap_or_else(|error| panic!("{error}"));
        if let Err(status) = api.bootstrap().await {
            panic!("the cluster's first objects: {}", status.message);
        }
        let controllers = api.start_controllers();
        TestCluster { api, controllers, base: None, sockets: Vec::new() }
    }

    /// Changes the spec of the CustomResourceDefinition at `path`, and waits until it is served so.
    pub async fn redefine(&self, path: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let before = self.catalog().generation();
        let mut crd = self.get(path).await.ok(200);
        change(&mut crd["spec"]);
        self.put(path, crd).await.ok(200);
        while self.catalog().generation() == before {
            self.env().sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until controllers have created a default ServiceAccount in every namespace.
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

    /// The administrator's client, without a socket.
    pub fn client(&self) -> kube::Client {
        self.client_as(admin())
    }

    /// A client with any user, as if authenticated by a certificate.
    pub fn client_as(&self, user: UserInfo) -> kube::Client {
        let caller = Caller::Known(Arc::new(user.authenticated()));
        kube::Client::new(service::InProcess::new(self.api.clone(), caller), "default")
    }

    /// Ends watches, waits for controllers and sockets.
    pub async fn shutdown(mut self) {
        if let Some(base) = self.base.take() {
            base.stop().await;
        }
        self.api.begin_shutdown();
        for task in self.controllers.drain(..).chain(self.sockets.drain(..)) {
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

/// The issuer of every test cluster. All use the same key: a simulation must not draw
/// keys from the operating system, and its own random numbers are not fit for keys.
pub fn service_accounts(settings: Settings) -> ServiceAccounts {
    let key = SigningKey::from_pem(SERVICE_ACCOUNT_KEY).expect("the key below is one");
    ServiceAccounts::new(settings, key, Vec::new())
}

const SERVICE_ACCOUNT_KEY: &[u8] = include_bytes!("service_account.key");

/// The user of [`TestCluster::client`] and of raw requests.
pub fn admin() -> UserInfo {
    UserInfo::new("kubernetes-admin", &[groups::MASTERS, groups::AUTHENTICATED])
}
