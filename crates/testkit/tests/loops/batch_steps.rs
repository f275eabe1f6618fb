//! Steps the tests of Jobs, budgets and pod GC have in common: waiting, playing the node, dying after n writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use apiserver::LocalClients;
use client::{Answer, Client, Clients, DeleteOptions, List, ListOptions, Patch, Target, Watch, WatchOptions};
use object::Value;
use serde_json::{Value as Json, json};
use table::Obj;
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
    cluster.get(path).await.ok(200)["items"].as_array().unwrap().clone()
}

/// Sets a pod's status as its node would.
pub async fn set_status(cluster: &TestCluster, pod: &Json, status: Json) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    cluster.merge(format!("{PODS}/{name}/status"), json!({"status": status})).await.ok(200);
}

pub fn succeeded() -> Json {
    json!({"phase": "Succeeded"})
}

/// Nothing is written while nothing changes.
pub async fn steady(cluster: &TestCluster) {
    // What was under way may end first.
    pass(cluster, 5).await;
    let before = cluster.api().registry().table().revision();
    pass(cluster, 600).await;
    assert_eq!(cluster.api().registry().table().revision(), before, "something is written without a reason");
}

/// Clients that stop dead once so many objects (events aside) were written.
pub struct Mortal {
    inner: LocalClients,
    left: Arc<AtomicI64>,
}

impl Mortal {
    pub fn new(cluster: &TestCluster, writes: i64) -> Mortal {
        let inner = LocalClients::new(cluster.api().clone());
        Mortal { inner, left: Arc::new(AtomicI64::new(writes)) }
    }
    /// Tells whether a write was refused because the loop is dead.
    pub fn life(&self) -> Arc<AtomicI64> {
        self.left.clone()
    }
}

impl Clients for Mortal {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        Arc::new(MortalClient { inner: self.inner.controller(name), left: self.left.clone() })
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.inner.user(name, groups)
    }
}

struct MortalClient {
    inner: Arc<dyn Client>,
    left: Arc<AtomicI64>,
}

impl MortalClient {
    async fn spend(&self, target: &Target<'_>) {
        if target.resource.plural != "events" && self.left.fetch_sub(1, SeqCst) <= 0 {
            std::future::pending::<()>().await;
        }
    }
}

impl Client for MortalClient {
    fn catalog(&self) -> &Arc<catalog::Catalog> {
        self.inner.catalog()
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.inner.get(target)
    }
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        self.inner.list(target, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        self.inner.watch(target, options)
    }
    fn create<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.create(target, body).await
        })
    }
    fn update<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.update(target, body).await
        })
    }
    fn patch<'a>(&'a self, target: Target<'a>, patch: Patch) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.patch(target, patch).await
        })
    }
    fn delete<'a>(&'a self, target: Target<'a>, options: DeleteOptions) -> Answer<'a, ()> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.delete(target, options).await
        })
    }
    fn delete_collection<'a>(
        &'a self,
        target: Target<'a>,
        options: DeleteOptions,
        which: ListOptions,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.delete_collection(target, options, which).await
        })
    }
    fn act<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, ()> {
        Box::pin(async move {
            self.spend(&target).await;
            self.inner.act(target, body).await
        })
    }
}
