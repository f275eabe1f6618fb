//! Controllers next to a test's server: started with it, stopped cleanly, killed and started again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use apiserver::LocalClients;
use client::Clients;
use controllers::{Context, Settings, Trust};
use runtime::{ControllerRegistry, Informers, Stopper};
use tokio::task::JoinHandle;

use crate::TestCluster;

/// Those without which no pod can be created, and those whose work belongs to what the API itself does: who tests the API expects it.
const BESIDE_THE_API: [&str; 6] = [
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "clusterrole-aggregation-controller",
    "resourcequota-controller",
    "service-cidr-controller",
];

/// What a cluster starts with.
pub(crate) fn base() -> impl Iterator<Item = &'static str> {
    controllers::ACCOUNTS.into_iter().chain(BESIDE_THE_API)
}

/// A controller manager: informers, controllers, and a stop switch.
pub struct ControlPlane {
    pub context: Context,
    stopper: Stopper,
    tasks: Vec<JoinHandle<()>>,
}

impl TestCluster {
    /// All controllers, in process, except those the cluster starts with.
    pub fn control_plane(&self) -> ControlPlane {
        let mut plane = self.bare_control_plane(self.local_clients());
        let apart =
            |name: &str| base().any(|base| base == name) || controllers::OFF_BY_DEFAULT.contains(&name);
        plane.tasks = controllers::start(&plane.context, &|name| !apart(name));
        plane
    }

    /// The controllers of these names, through those clients.
    pub fn controllers(&self, clients: Arc<dyn Clients>, names: &[&str]) -> ControlPlane {
        let known = |name: &&str| controllers::CONTROLLERS.iter().any(|row| row.name == *name);
        assert!(names.iter().all(known), "not all of {names:?} are names of controllers");
        let mut plane = self.bare_control_plane(clients);
        plane.tasks = controllers::start(&plane.context, &|name| names.contains(&name));
        plane
    }

    /// The same with parameters of one's own.
    pub fn controllers_with(&self, names: &[&str], settings: Settings) -> ControlPlane {
        let mut plane = self.bare_control_plane(self.local_clients());
        plane.context.settings = Arc::new(settings);
        plane.tasks = controllers::start(&plane.context, &|name| names.contains(&name));
        plane
    }

    /// A context without any controller, for a test that starts some by hand, through its own clients.
    pub fn bare_control_plane(&self, clients: Arc<dyn Clients>) -> ControlPlane {
        let (stopper, stop) = Stopper::new();
        let reader = clients.user("system:kube-controller-manager", &[]);
        let informers = Informers::new(self.env().clone(), reader, stop.clone());
        let (env, controllers, trust) =
            (self.env().clone(), Arc::new(ControllerRegistry::default()), self.trust());
        let settings = Arc::default();
        let context = Context { env, clients, informers, controllers, stop, trust, settings };
        ControlPlane { context, stopper, tasks: Vec::new() }
    }
}

impl TestCluster {
    /// What the cluster's server gives its controllers beside a client.
    pub fn trust(&self) -> Trust {
        let api = self.api().clone();
        let (root_ca, issuer) = (api.root_ca(), api.issuer());
        Trust {
            root_ca,
            sign: Some(Arc::new(move |account, secret| api.sign_secret_token(account, secret))),
            issuer,
            serving_names: None,
        }
    }

    /// The controllers a cluster starts with.
    pub(crate) fn start_base(&mut self, names: &[&str]) {
        self.base = Some(self.controllers(self.local_clients(), names));
    }

    /// Clients without a socket, one identity for each controller.
    pub fn local_clients(&self) -> Arc<dyn Clients> {
        Arc::new(LocalClients::new(self.api().clone()))
    }

    /// Waits, in virtual time, until the condition holds; panics after an hour.
    pub async fn until<F>(&self, what: &str, mut so: impl FnMut() -> F)
    where
        F: Future<Output = bool>,
    {
        for _ in 0..36_000 {
            if so().await {
                return;
            }
            self.env().sleep(Duration::from_millis(100)).await;
        }
        panic!("waited in vain until {what}");
    }
}

/// Starts simulated nodes `sim-0` and on.
pub fn nodes(count: usize) -> node::simulated::Settings {
    node::simulated::Settings { count, ..Default::default() }
}

impl ControlPlane {
    /// Adds tasks this plane has to wait for.
    pub fn own(&mut self, tasks: Vec<JoinHandle<()>>) {
        self.tasks.extend(tasks);
    }

    /// Stops the controllers cleanly.
    pub async fn stop(mut self) {
        self.stopper.stop();
        self.tasks.extend(self.context.informers.take_tasks());
        for task in self.tasks.drain(..) {
            let _ = task.await;
        }
    }

    /// Kills the controllers in the middle of whatever they do.
    pub fn kill(mut self) {
        self.tasks.extend(self.context.informers.take_tasks());
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }
}
