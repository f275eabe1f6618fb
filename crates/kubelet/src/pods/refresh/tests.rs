//! Pods of which no object changes, for hours.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use client::resources::PODS;
use client::{Answer, Client, Target};
use node::pod::Pod;
use object::{Status, Value};
use runtime::{Stopper, tree};
use serde_json::json;
use testkit::TestCluster;
use testkit::forward::{Forward, Forwarding};

use super::super::{Changes, Pods, tests};

/// Counts the tokens that are asked for, and refuses them while it is told to.
struct Tokens {
    inner: Arc<dyn Client>,
    asked: Arc<AtomicUsize>,
    refuse: Arc<AtomicBool>,
}

impl Forward for Tokens {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn review<'a>(&'a self, target: Target<'a>, body: Value) -> Answer<'a, Value> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.refuse.load(Ordering::Relaxed) {
            return Box::pin(async { Err(Status::unavailable("not now")) });
        }
        self.inner.review(target, body)
    }
}

struct Case {
    cluster: TestCluster,
    pods: Pods,
    uid: String,
    token: std::path::PathBuf,
    asked: Arc<AtomicUsize>,
    refuse: Arc<AtomicBool>,
    _stopper: Stopper,
}

impl Case {
    /// A pod that runs, with a token that is good for an hour.
    async fn new(root: &Path, seed: u64) -> Case {
        let cluster = TestCluster::simulated(seed).await;
        let source = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}});
        let pod = json!({
            "metadata": {"name": "idle"},
            "spec": {
                "nodeName": "n",
                "automountServiceAccountToken": false,
                "volumes": [{"name": "v", "projected": {"sources": [source]}}],
                "containers": [{"name": "c", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            },
        });
        cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
        let inner = cluster.local_clients().user("system:node:n", &["system:nodes"]);
        let (asked, refuse): (Arc<AtomicUsize>, Arc<AtomicBool>) = Default::default();
        let client: Arc<dyn Client> =
            Arc::new(Forwarding(Tokens { inner, asked: asked.clone(), refuse: refuse.clone() }));
        let pod =
            tree(&client.get(PODS.at("default", "idle")).await.unwrap_or_else(|s| panic!("{}", s.message)));
        let (pods, _stopper) =
            tests::open(root, &cluster, client, Arc::new(tests::Quick::new()), &Changes::default(), |_| ())
                .await;
        let uid = pod.str_at(&["metadata", "uid"]).unwrap().to_owned();
        let token = root.join("pods").join(&uid).join("volumes/kubernetes.io~projected/v/token");
        pods.runtime().create(&Pod::read(&pod), 0);
        let case = Case { cluster, pods, uid, token, asked, refuse, _stopper };
        case.cluster.until("the pod has a token", || async { case.text().is_some() }).await;
        case
    }

    fn text(&self) -> Option<String> {
        std::fs::read_to_string(&self.token).ok()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    async fn sleep(&self, seconds: u64) {
        self.cluster.env().sleep(Duration::from_secs(seconds)).await;
    }

    async fn end(self) {
        self.pods.shared.parts.volumes.remove(&self.uid).await.unwrap();
        self.cluster.shutdown().await;
    }
}

/// A token is a file in memory; without root a test says so and ends.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: mounts need root");
    }
    root
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_at_four_fifths_of_its_life_though_nothing_changes() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path(), 43).await;
    let first = case.text();
    case.sleep(2800).await;
    assert_eq!((case.text(), case.asked()), (first.clone(), 1), "nobody is woken before");
    case.sleep(100).await;
    let second = case.text();
    assert_ne!(second, first);
    case.sleep(2700).await;
    assert_eq!((case.text(), case.asked()), (second.clone(), 2));
    case.sleep(300).await;
    assert_ne!(case.text(), second, "again and again");
    case.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refresh_that_failed_is_tried_again_ever_more_rarely() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path(), 44).await;
    let first = case.text();
    case.refuse.store(true, Ordering::Relaxed);
    case.sleep(3000).await;
    assert_eq!(case.text(), first, "used on while it is valid");
    let tried = case.asked();
    assert!((3..12).contains(&tried), "{tried} attempts in two minutes");
    // Also one that is not valid any more.
    case.sleep(3600).await;
    assert!(case.asked() > tried);
    assert_eq!(case.text(), first);
    case.refuse.store(false, Ordering::Relaxed);
    case.sleep(130).await;
    assert_ne!(case.text(), first);
    case.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_soon_after_the_clock_was_set_forward() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let case = Case::new(folder.path(), 45).await;
    let first = case.text();
    case.cluster.env().set_clock(3000);
    case.sleep(700).await;
    assert_ne!(case.text(), first);
    case.end().await;
}
