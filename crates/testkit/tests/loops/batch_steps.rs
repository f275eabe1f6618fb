//! Steps the tests of Jobs, budgets and pod GC have in common: waiting, playing the node, dying after n writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use apiserver::LocalClients;
use client::{Answer, Client, Clients, Target};
use object::{About, Status};
use serde_json::{Value as Json, json};
use testkit::forward::{Forward, Forwarding, Verb};
use testkit::{ControlPlane, TestCluster};

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The loops of these names, through those clients.
pub fn plane_with(cluster: &TestCluster, clients: Arc<dyn Clients>, names: &[&str]) -> ControlPlane {
    let mut plane = cluster.bare_control_plane(clients);
    for row in controllers::ROWS.iter().filter(|row| names.contains(&row.name)) {
        let tasks = (row.start)(&plane.context);
        plane.own(tasks);
    }
    plane
}

pub fn plane(cluster: &TestCluster, names: &[&str]) -> ControlPlane {
    plane_with(cluster, Arc::new(LocalClients::new(cluster.api().clone())), names)
}

/// Waits in virtual time, at most an hour of it, until an object is as wanted; and gives it.
pub async fn until(cluster: &TestCluster, path: &str, what: &str, wanted: impl Fn(&Json) -> bool) -> Json {
    let mut last = Json::Null;
    for _ in 0..36_000 {
        last = cluster.get(path).await.json();
        if wanted(&last) {
            return last;
        }
        cluster.env().sleep(Duration::from_millis(100)).await;
    }
    panic!("never came: {what}; last seen {last:#}");
}

pub async fn pass(cluster: &TestCluster, seconds: u64) {
    for _ in 0..seconds {
        cluster.env().sleep(Duration::from_secs(1)).await;
    }
}

pub async fn items(cluster: &TestCluster, path: &str) -> Vec<Json> {
    cluster.get(path).await.ok(200)["items"].as_array().expect("a list").clone()
}

/// Sets a pod's status as its node would.
pub async fn set_status(cluster: &TestCluster, pod: &Json, status: Json) {
    let name = pod["metadata"]["name"].as_str().expect("a pod has a name");
    cluster.merge(format!("{PODS}/{name}/status"), json!({"status": status})).await.ok(200);
}

pub fn succeeded() -> Json {
    json!({"phase": "Succeeded"})
}

/// Nothing is written while nothing changes.
pub async fn steady(cluster: &TestCluster) {
    // What was under way may end first.
    pass(cluster, 5).await;
    // A failure that lasts is told again now and then.
    let versions = || cluster.versions(&["events", "leases"]);
    let before = versions();
    pass(cluster, 600).await;
    assert_eq!(versions(), before, "something is written without a reason");
}

/// Clients whose writes (events aside) go wrong.
pub struct Troubled {
    inner: LocalClients,
    trouble: Arc<Trouble>,
}

pub struct Trouble {
    kind: Kind,
    writes: AtomicI64,
}

#[derive(Clone, Copy)]
pub enum Kind {
    /// They stop dead once so many were written.
    DieAfter(i64),
    /// Of every so many, one is refused with a conflict, and the next is done but answered with a timeout.
    Every(i64),
}

#[derive(PartialEq, Eq)]
enum Fate {
    Well,
    Conflict,
    Timeout,
}

impl Trouble {
    async fn fate(&self, target: &Target<'_>) -> Fate {
        if target.resource.plural == "events" {
            return Fate::Well;
        }
        let before = self.writes.fetch_add(1, SeqCst);
        match self.kind {
            Kind::DieAfter(most) if before >= most => std::future::pending().await,
            Kind::Every(n) if before % n == 0 => Fate::Conflict,
            Kind::Every(n) if before % n == 1 => Fate::Timeout,
            _ => Fate::Well,
        }
    }
    pub fn writes(&self) -> i64 {
        self.writes.load(SeqCst)
    }
}

impl Troubled {
    pub fn new(cluster: &TestCluster, kind: Kind) -> (Troubled, Arc<Trouble>) {
        let trouble = Arc::new(Trouble { kind, writes: AtomicI64::new(0) });
        let inner = LocalClients::new(cluster.api().clone());
        (Troubled { inner, trouble: trouble.clone() }, trouble)
    }
}

impl Clients for Troubled {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        let (inner, trouble) = (self.inner.controller(name), self.trouble.clone());
        Arc::new(Forwarding(TroubledClient { inner, trouble }))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.inner.user(name, groups)
    }
}

struct TroubledClient {
    inner: Arc<dyn Client>,
    trouble: Arc<Trouble>,
}

impl Forward for TroubledClient {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn write<'a, T: Send + 'a>(&'a self, _: Verb, target: Target<'a>, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let fate = self.trouble.fate(&target).await;
            if fate == Fate::Conflict {
                let about = About { group: target.resource.group, resource: target.resource.plural };
                return Err(Status::conflict(about, target.name, "injected"));
            }
            let answer = call.await;
            if fate == Fate::Timeout { Err(Status::timeout("injected")) } else { answer }
        })
    }
}
