//! Leader election of two processes: takeover after a crash, hand-over on release, a deposed leader stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver::LocalClients;
use client::{Answer, Client, Clients, Target};
use object::{Obj, Status};
use runtime::election::Outcome;
use runtime::{Elector, Stop, Stopper};
use testkit::TestCluster;
use testkit::forward::{Forward, Forwarding, Verb};
use tokio::task::JoinHandle;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager";

/// A client whose wire can be cut.
struct Cuttable {
    inner: Arc<dyn Client>,
    cut: AtomicBool,
}

impl Cuttable {
    fn check(&self) -> Result<(), Status> {
        if self.cut.load(Ordering::SeqCst) { Err(Status::unavailable("connection refused")) } else { Ok(()) }
    }
}

impl Forward for Cuttable {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        Box::pin(async move {
            self.check()?;
            self.inner.get(target).await
        })
    }
    fn write<'a, T: Send + 'a>(&'a self, _: Verb, _: Target<'a>, call: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            self.check()?;
            call.await
        })
    }
}

/// Says that work is under way, until it ends or is ended.
struct Working(Arc<AtomicBool>);

impl Working {
    fn begin(flag: Arc<AtomicBool>) -> Working {
        flag.store(true, Ordering::SeqCst);
        Working(flag)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A process that would lead, with one task that runs while it does.
struct Process {
    client: Arc<Forwarding<Cuttable>>,
    stopper: Stopper,
    leading: Arc<AtomicBool>,
    task: JoinHandle<Outcome>,
}

fn process(cluster: &TestCluster, identity: &str) -> Process {
    slow_process(cluster, identity, Duration::ZERO)
}

/// Its work takes that much longer after it was told to stop.
fn slow_process(cluster: &TestCluster, identity: &str, slow: Duration) -> Process {
    let clients = LocalClients::new(cluster.api().clone());
    let inner = clients.user("system:kube-controller-manager", &[]);
    let client = Arc::new(Forwarding(Cuttable { inner, cut: AtomicBool::new(false) }));
    let (stopper, stop) = Stopper::new();
    let leading = Arc::new(AtomicBool::new(false));
    let env = cluster.env().clone();
    let mut elector = Elector::new(&env, client.clone(), "kube-system", "kube-controller-manager", identity);
    let flag = leading.clone();
    let task = env.clone().spawn("process", async move {
        let lead = |lost: Stop| {
            let clock = env.clone();
            vec![env.spawn("work", async move {
                let _working = Working::begin(flag);
                lost.stopped().await;
                clock.sleep(slow).await;
            })]
        };
        elector.run(&stop, lead).await
    });
    Process { client, stopper, leading, task }
}

impl Process {
    fn leads(&self) -> bool {
        self.leading.load(Ordering::SeqCst)
    }
}

/// Virtual milliseconds until it holds.
async fn until(cluster: &TestCluster, what: &str, mut holds: impl FnMut() -> bool) -> u64 {
    for passed in 0..60_000 {
        if holds() {
            return passed;
        }
        cluster.env().sleep(Duration::from_millis(1)).await;
    }
    panic!("{what}: not within a minute");
}

#[tokio::test(start_paused = true)]
async fn a_silent_leader_is_replaced_after_its_lease_and_not_before() {
    let cluster = TestCluster::simulated(1).await;
    let first = process(&cluster, "first");
    until(&cluster, "the first leads", || first.leads()).await;
    let second = process(&cluster, "second");
    cluster.env().sleep(Duration::from_secs(120)).await;
    assert!(first.leads() && !second.leads());
    let lease = cluster.get(LEASE).await.json();
    assert_eq!(lease["spec"]["holderIdentity"], "first");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    assert_ne!(lease["spec"]["acquireTime"], lease["spec"]["renewTime"]);

    first.task.abort();
    let took = until(&cluster, "the second leads", || second.leads()).await;
    // Fifteen seconds after the change it saw last; it looks every 2 to 4.4 seconds.
    assert!((10_000..24_000).contains(&took), "{took}");
    let lease = cluster.get(LEASE).await.json();
    assert_eq!(lease["spec"]["holderIdentity"], "second");
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    second.stopper.stop();
    assert_eq!(second.task.await.unwrap(), Outcome::Stopped);
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_after_its_work_has_ended() {
    let cluster = TestCluster::simulated(2).await;
    let first = process(&cluster, "first");
    until(&cluster, "the first leads", || first.leads()).await;
    let second = process(&cluster, "second");
    cluster.env().sleep(Duration::from_secs(30)).await;
    first.stopper.stop();
    assert_eq!(first.task.await.unwrap(), Outcome::Stopped);
    assert!(!first.leading.load(Ordering::SeqCst), "its work ended before the lease was given back");
    let lease = cluster.get(LEASE).await.json();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    assert!(lease["spec"]["holderIdentity"].as_str().unwrap_or("").is_empty());
    let took = until(&cluster, "the second leads", || second.leads()).await;
    assert!(took < 5_000, "{took}");
    let lease = cluster.get(LEASE).await.json();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    second.stopper.stop();
    second.task.await.unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_begins() {
    let cluster = TestCluster::simulated(3).await;
    let first = process(&cluster, "first");
    until(&cluster, "the first leads", || first.leads()).await;
    let second = process(&cluster, "second");
    cluster.env().sleep(Duration::from_secs(30)).await;
    first.client.0.cut.store(true, Ordering::SeqCst);
    let mut both = false;
    let took = until(&cluster, "the first stops", || {
        both |= first.leads() && second.leads();
        !first.leads()
    })
    .await;
    assert!((10_000..=12_001).contains(&took), "{took}");
    until(&cluster, "the second leads", || second.leads()).await;
    assert!(!both);
    assert_eq!(first.task.await.unwrap(), Outcome::Lost);
    second.stopper.stop();
    second.task.await.unwrap();
    cluster.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_holder_stops_at_once() {
    let cluster = TestCluster::simulated(4).await;
    let first = process(&cluster, "first");
    until(&cluster, "the first leads", || first.leads()).await;
    let stolen = serde_json::json!({"spec": {"holderIdentity": "thief"}});
    cluster.merge(LEASE, stolen).await.ok(200);
    let took = until(&cluster, "the first stops", || !first.leads()).await;
    assert!(took <= 2_001, "{took}");
    assert_eq!(first.task.await.unwrap(), Outcome::Lost);
    let lease = cluster.get(LEASE).await.json();
    assert_eq!(lease["spec"]["holderIdentity"], "thief", "a deposed leader writes nothing more");
    cluster.shutdown().await;
}

/// How long the first's work went on after it was told to stop; nobody else may lead meanwhile.
async fn handed_over(seed: u64, slow: Duration) -> u64 {
    let cluster = TestCluster::simulated(seed).await;
    let first = slow_process(&cluster, "first", slow);
    until(&cluster, "the first leads", || first.leads()).await;
    let second = process(&cluster, "second");
    cluster.env().sleep(Duration::from_secs(30)).await;
    first.stopper.stop();
    let mut both = false;
    let took = until(&cluster, "the first's work ends", || {
        both |= first.leads() && second.leads();
        !first.leads()
    })
    .await;
    assert!(!both, "two led at the same time");
    assert_eq!(first.task.await.expect("the process ended"), Outcome::Stopped);
    let waited = until(&cluster, "the second leads", || second.leads()).await;
    assert!(waited < 5_000, "the lease was not given back: {waited}");
    second.stopper.stop();
    second.task.await.expect("the process ended");
    cluster.shutdown().await;
    took
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_while_its_work_winds_down() {
    // Longer than the lease.
    let took = handed_over(5, Duration::from_secs(25)).await;
    assert!((25_000..=25_002).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_stop_is_aborted_before_another_leads() {
    let took = handed_over(6, Duration::from_secs(24 * 3600)).await;
    assert!((30_000..=30_002).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn work_of_a_leader_that_lost_its_lease_ends_with_the_lease() {
    let cluster = TestCluster::simulated(7).await;
    let first = slow_process(&cluster, "first", Duration::from_secs(24 * 3600));
    until(&cluster, "the first leads", || first.leads()).await;
    let second = process(&cluster, "second");
    cluster.env().sleep(Duration::from_secs(30)).await;
    first.client.0.cut.store(true, Ordering::SeqCst);
    let mut both = false;
    until(&cluster, "the second leads", || {
        both |= first.leads() && second.leads();
        second.leads()
    })
    .await;
    assert!(!both && !first.leads());
    assert_eq!(first.task.await.unwrap(), Outcome::Lost);
    second.stopper.stop();
    second.task.await.unwrap();
    cluster.shutdown().await;
}
