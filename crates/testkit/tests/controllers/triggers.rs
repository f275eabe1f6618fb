//! Three controllers that should keep as many lamps lit as there are ConfigMaps with the label, and lose an event.
//!
//! The first counts changes; the second counts the maps when something changes; the third does that and looks again.
//! An event that is lost on the wire leaves a hole in the informer's cache too, which no resync can fill: so a turn
//! that must forgive such a loss reads what matters from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use client::resources::CONFIG_MAPS;
use client::{Answer, Client, Event, ListOptions, Target, Watch, WatchOptions};
use futures_util::future::BoxFuture;
use runtime::{
    Action, Change, Controller, ControllerRegistry, Failure, Informer, Key, QueueKind, Reconcile,
    ReconcileRequest, Scope, Stopper, Trigger,
};
use serde_json::json;
use testkit::TestCluster;
use testkit::forward::{Forward, Forwarding};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A client whose watches lose events of objects called `lost-...` while it is told to.
struct Lossy {
    inner: Arc<dyn Client>,
    losing: Arc<AtomicBool>,
}

struct LossyWatch {
    inner: Box<dyn Watch>,
    losing: Arc<AtomicBool>,
}

impl Watch for LossyWatch {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let before = into.len();
            let more = self.inner.pull(into).await?;
            let losing = self.losing.load(Ordering::SeqCst);
            let mut n = 0;
            into.retain(|event| {
                n += 1;
                let (Event::Added(obj) | Event::Modified(obj) | Event::Deleted(obj)) = event else {
                    return true;
                };
                n <= before || !losing || !obj.name().starts_with("lost-")
            });
            Ok(more)
        })
    }
}

impl Forward for Lossy {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let inner = self.inner.watch(target, options).await?;
            let watch: Box<dyn Watch> = Box::new(LossyWatch { inner, losing: self.losing.clone() });
            Ok(watch)
        })
    }
}

/// The world: how many lamps are lit.
struct Lamps {
    lit: Arc<AtomicI64>,
    client: Arc<dyn Client>,
}

impl Reconcile for Lamps {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            match request.change() {
                Some(Change::Added(_)) => {
                    self.lit.fetch_add(1, Ordering::SeqCst);
                }
                Some(Change::Deleted(_)) => {
                    self.lit.fetch_sub(1, Ordering::SeqCst);
                }
                Some(Change::Updated { .. }) => {}
                None => {
                    let options = ListOptions { label_selector: "lamp".into(), ..ListOptions::default() };
                    let maps = self.client.list(CONFIG_MAPS.within("default"), options).await?;
                    self.lit.store(maps.items.len() as i64, Ordering::SeqCst);
                }
            }
            Ok(Action::AwaitChange)
        })
    }
}

struct Rig {
    cluster: TestCluster,
    lit: Arc<AtomicI64>,
    losing: Arc<AtomicBool>,
    _stopper: Stopper,
}

async fn rig(trigger: Trigger) -> Rig {
    let cluster = TestCluster::simulated(5).await;
    let env = cluster.env().clone();
    let inner = cluster.local_clients().user("kubernetes-admin", &["system:masters"]);
    let losing = Arc::new(AtomicBool::new(false));
    let client: Arc<dyn Client> = Arc::new(Forwarding(Lossy { inner, losing: losing.clone() }));
    let (stopper, stop) = Stopper::new();
    let scope = Scope { label_selector: "lamp".into(), ..Scope::all(&CONFIG_MAPS) };
    let maps = Informer::new(env.clone(), client.clone(), scope, QueueKind::default());
    let lit = Arc::new(AtomicI64::new(0));
    Controller::new(&env, "lamps").trigger(trigger).watches(&maps, |_| vec![Key::new("", "lamps")]).start(
        &Arc::new(ControllerRegistry::default()),
        Arc::new(Lamps { lit: lit.clone(), client }),
        stop.clone(),
    );
    maps.start(stop);
    maps.synced().await;
    Rig { cluster, lit, losing, _stopper: stopper }
}

impl Rig {
    async fn create(&self, name: &str) {
        let map = json!({"metadata": {"name": name, "labels": {"lamp": "yes"}}});
        self.cluster.post(MAPS, map).await.ok(201);
        self.settle(1).await;
    }
    async fn settle(&self, seconds: u64) {
        self.cluster.env().sleep(Duration::from_secs(seconds)).await;
    }
    fn lit(&self) -> i64 {
        self.lit.load(Ordering::SeqCst)
    }
    /// Two maps, the event of the third is lost.
    async fn lose_one(&self) {
        self.create("a").await;
        self.create("b").await;
        assert_eq!(self.lit(), 2);
        self.losing.store(true, Ordering::SeqCst);
        self.create("lost-c").await;
        self.losing.store(false, Ordering::SeqCst);
        assert_eq!(self.lit(), 2, "nobody knows yet");
    }
}

#[tokio::test(start_paused = true)]
async fn edge_triggered_alone_never_recovers_a_lost_event() {
    let rig = rig(Trigger::EdgeOnly).await;
    rig.lose_one().await;
    rig.create("d").await;
    assert_eq!(rig.lit(), 3, "four maps, and one lamp is missing");
    rig.settle(2 * 24 * 3600).await;
    assert_eq!(rig.lit(), 3, "for ever");
    rig.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn level_driven_only_the_next_event_recovers_a_lost_one() {
    let rig = rig(Trigger::Level).await;
    rig.lose_one().await;
    rig.settle(2 * 24 * 3600).await;
    assert_eq!(rig.lit(), 2, "time alone does not help");
    rig.create("d").await;
    assert_eq!(rig.lit(), 4);
    rig.cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn with_resync_a_lost_event_is_recovered_by_itself() {
    let rig = rig(Trigger::LevelWithResync { period: Duration::from_secs(600) }).await;
    rig.lose_one().await;
    rig.settle(1200).await;
    assert_eq!(rig.lit(), 3);
    rig.cluster.shutdown().await;
}
