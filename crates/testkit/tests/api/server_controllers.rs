//! The controllers of the API server itself: they recover from store failures, need their roles, and write nothing when there is
//! nothing to do.

use std::sync::Arc;
use std::time::Duration;

use auth::pki::new_request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use env::Env;
use futures_util::future::BoxFuture;
use object::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use store::{Commit, CommitError, Engine, Op, Revision};
use testkit::TestCluster;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// A store that fails when it is told to.
struct Stumbling {
    inner: Arc<dyn Engine>,
    /// Guards what is still to fail.
    plan: Mutex<Plan>,
}

#[derive(Default)]
struct Plan {
    /// Commits that put a value at a key with this in it.
    puts: String,
    /// How they fail, the next one first.
    errors: Vec<CommitError>,
    met: usize,
}

impl Stumbling {
    fn fail(&self, puts: &str, errors: Vec<CommitError>) {
        *self.plan.lock() = Plan { puts: puts.to_owned(), errors, met: 0 };
    }

    fn met(&self) -> usize {
        self.plan.lock().met
    }
}

impl Engine for Stumbling {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        let mut plan = self.plan.lock();
        let meant = |(key, op): &(store::Key, Op)| key.contains(&plan.puts) && matches!(op, Op::Put { .. });
        if !plan.errors.is_empty() && commit.ops.iter().any(meant) {
            plan.met += 1;
            let error = plan.errors.remove(0);
            return Box::pin(async move { Err(error) });
        }
        drop(plan);
        self.inner.commit(commit)
    }
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>> {
        self.inner.barrier()
    }
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        self.inner.compact(upto)
    }
    fn expire(&self, now: u64) -> BoxFuture<'_, Result<(), CommitError>> {
        self.inner.expire(now)
    }
    fn health(&self) -> Result<(), String> {
        self.inner.health()
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

async fn stumbling(seed: u64) -> (TestCluster, Arc<Stumbling>) {
    let mut store = None;
    let cluster = TestCluster::with(Env::simulated(seed), |config| {
        let engine = Arc::new(Stumbling { inner: config.engine.clone(), plan: Mutex::default() });
        config.engine = engine.clone();
        store = Some(engine);
    })
    .await;
    (cluster, store.unwrap())
}

/// A 503 and a 504.
fn outage() -> Vec<CommitError> {
    let why = || "on purpose".to_owned();
    vec![CommitError::Stopped(why()), CommitError::Unknown(why())]
}

/// Waits, in virtual time, until something holds; false after a minute.
async fn comes<F: Future<Output = bool>>(cluster: &TestCluster, mut holds: impl FnMut() -> F) -> bool {
    for _ in 0..120 {
        if holds().await {
            return true;
        }
        cluster.env().sleep(Duration::from_millis(500)).await;
    }
    false
}

fn part(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["example.com"], "resources": [name], "verbs": ["get"]}]})
}

async fn is_in_view(cluster: &TestCluster, name: &str) -> bool {
    cluster.get(format!("{ROLES}/view")).await.text().contains(name)
}

#[tokio::test(start_paused = true)]
async fn a_role_that_could_not_be_aggregated_is_aggregated_later() {
    let (cluster, store) = stumbling(301).await;
    store.fail("clusterroles/view", outage());
    cluster.post(ROLES, part("widgets")).await.ok(201);
    assert!(comes(&cluster, || is_in_view(&cluster, "widgets")).await, "view stays stale");
    assert_eq!(store.met(), 2);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_could_not_be_repaired_is_repaired_later() {
    let (cluster, store) = stumbling(302).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    let service = cluster.post(SERVICES, service).await.ok(201);
    let address = format!("{ADDRESSES}/{}", service["spec"]["clusterIP"].as_str().unwrap());
    store.fail("ipaddresses/", outage());
    cluster.delete(&address).await.ok(200);
    let back = || async { cluster.get(&address).await.status == 200 };
    assert!(comes(&cluster, back).await, "the address of a service stays free");
    assert_eq!(store.met(), 2);
    cluster.shutdown().await;
}

/// Each controller can do what upstream's role allows it, and nothing without it.
#[tokio::test(start_paused = true)]
async fn a_controller_without_its_role_writes_nothing() {
    let cluster = TestCluster::simulated(303).await;
    let names = [
        "clusterrole-aggregation-controller",
        "resourcequota-controller",
        "certificate-controller",
        "service-cidrs-controller",
    ];
    let path = |name: &str| format!("{BINDINGS}/system:controller:{name}");
    let mut bindings = Vec::new();
    for name in names {
        let mut binding = cluster.get(path(name)).await.ok(200);
        binding["metadata"]["resourceVersion"].take();
        bindings.push(binding);
        cluster.delete(path(name)).await.ok(200);
    }

    cluster.post(ROLES, part("gadgets")).await.ok(201);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}});
    cluster.post(QUOTAS, quota).await.ok(201);
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}});
    cluster.post(CIDRS, range).await.ok(201);
    let asked = STANDARD.encode(new_request("jane", &[], &[]).unwrap().1);
    let csr = json!({"metadata": {"name": "jane"}, "spec": {"request": asked, "usages": ["client auth"],
        "signerName": "kubernetes.io/kube-apiserver-client"}});
    let mut csr = cluster.post(REQUESTS, csr).await.ok(201);
    csr["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
    cluster.put(format!("{REQUESTS}/jane/approval"), csr).await.ok(200);

    let done = || async {
        let quota = cluster.get(format!("{QUOTAS}/q")).await.ok(200);
        let range = cluster.get(format!("{CIDRS}/more")).await.ok(200);
        let csr = cluster.get(format!("{REQUESTS}/jane")).await.ok(200);
        [
            is_in_view(&cluster, "gadgets").await,
            quota["status"]["used"]["configmaps"].is_string(),
            csr["status"]["certificate"].is_string(),
            range["status"]["conditions"][0]["status"] == "True",
        ]
    };
    cluster.env().sleep(Duration::from_secs(60)).await;
    assert_eq!(done().await, [false; 4], "written without the right to");
    for binding in bindings {
        cluster.post(BINDINGS, binding).await.ok(201);
    }
    let all = || async { done().await == [true; 4] };
    assert!(comes(&cluster, all).await, "with the right to: {:?}", done().await);
    cluster.shutdown().await;
}

/// Past every resync and every repair.
#[tokio::test(start_paused = true)]
async fn two_hours_at_rest_write_nothing() {
    let cluster = TestCluster::simulated(304).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    cluster.post(SERVICES, service).await.ok(201);
    cluster.post(ROLES, part("gizmos")).await.ok(201);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"services": "9"}}});
    cluster.post(QUOTAS, quota).await.ok(201);
    cluster.env().sleep(Duration::from_secs(90)).await;
    let before = cluster.api().registry().table().revision();
    cluster.env().sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(cluster.api().registry().table().revision(), before);
    cluster.shutdown().await;
}

/// Services that cannot be read are not services without ports.
#[tokio::test(start_paused = true)]
async fn a_failed_internal_write_stores_nothing() {
    let cluster = TestCluster::simulated(305).await;
    let registry = cluster.api().registry();
    let catalog = cluster.catalog();
    let ranges = catalog.find_storage("", "rangeallocations").unwrap();
    let before = registry.table().revision();
    let unreadable = || Status::unavailable("services could not be read");
    let refused = registry.write_internal(ranges, "servicenodeports", |_| Err(unreadable())).await;
    assert_eq!(refused.unwrap_err().code, 503);
    assert_eq!(registry.table().revision(), before);
    cluster.shutdown().await;
}

/// As other writes do (ADR 5).
#[tokio::test(start_paused = true)]
async fn a_deletion_that_lost_over_a_side_object_waits_for_its_lock() {
    let (cluster, store) = stumbling(306).await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    cluster.post(SERVICES, service).await.ok(201);
    let catalog = cluster.catalog();
    let ranges = catalog.find_storage("", "rangeallocations").unwrap();
    let ports = ranges.key("", "servicenodeports");
    store.fail(&ports, vec![CommitError::Conflict { key: ports.as_str().into() }]);
    let path = format!("{SERVICES}/web");
    let turn = cluster.api().registry().lock_contended(&ports).await;
    let reply = cluster.env().timeout(Duration::from_secs(5), cluster.delete(&path)).await;
    assert!(reply.is_err(), "it did not wait for those before it: {}", reply.unwrap().text());
    assert_eq!(store.met(), 1);
    assert_eq!(cluster.get(&path).await.status, 200);
    drop(turn);
    cluster.delete(&path).await.ok(200);
    cluster.shutdown().await;
}
