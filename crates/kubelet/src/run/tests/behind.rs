//! An agent whose view of the API is behind.

use std::sync::atomic::{AtomicBool, Ordering};

use client::{Answer, Clients, Event, Target, Watch, WatchOptions};
use testkit::forward::{Forward, Wrapping};

use super::*;

/// Its watches stall when they are told to.
struct Stalling {
    inner: Arc<dyn Client>,
    stalls: Arc<AtomicBool>,
}

struct Stalled {
    inner: Box<dyn Watch>,
    stalls: Arc<AtomicBool>,
}

impl Forward for Stalling {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        Box::pin(async move {
            let (inner, stalls) = (self.inner.watch(target, options).await?, self.stalls.clone());
            Ok(Box::new(Stalled { inner, stalls }) as Box<dyn Watch>)
        })
    }
}

impl Watch for Stalled {
    fn pull<'a>(&'a mut self, into: &'a mut Vec<Event>) -> Answer<'a, bool> {
        Box::pin(async move {
            let mut events = Vec::new();
            let goes_on = self.inner.pull(&mut events).await?;
            if self.stalls.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            into.append(&mut events);
            Ok(goes_on)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_looked_after_though_the_watch_does_not_show_what_was_written_of_it() {
    let cluster = TestCluster::simulated(71).await;
    let (stopper, stop) = Stopper::new();
    let (env, stalls) = (cluster.env().clone(), Arc::new(AtomicBool::new(false)));
    let (inner, told) = (cluster.local_clients(), stalls.clone());
    let wrap = move |inner| Stalling { inner, stalls: told.clone() };
    let clients = Wrapping { inner, wrap };
    let informers =
        runtime::Informers::new(env.clone(), clients.user("admin", &["system:masters"]), stop.clone());
    let settings = node::simulated::Settings::default();
    let board = Arc::default();
    let tasks = node::simulated::start(&env, &clients, &informers, &board, &settings, stop).unwrap();
    let pod = serde_json::json!({
        "metadata": {"name": "p", "annotations": {"sim.setpoint.dev/run-seconds": "5", "sim.setpoint.dev/exit-code": "1"}},
        "spec": {
            "nodeName": "sim-0",
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "i:1"}],
        },
    });
    cluster.post("/api/v1/namespaces/default/pods", pod).await.ok(201);
    let admin = cluster.local_clients().user("admin", &["system:masters"]);
    let restarts = async || {
        let pod = runtime::tree(&admin.get(PODS.at("default", "p")).await.unwrap());
        let all = pod.at(&["status", "containerStatuses"]).and_then(Value::as_list)?;
        all.first()?.get("restartCount").and_then(Value::as_int)
    };
    cluster.until("the pod runs", || async { restarts().await.is_some() }).await;
    stalls.store(true, Ordering::Relaxed);
    env.sleep(Duration::from_secs(120)).await;
    // After 5 s at once, then 10, 20 and 40 s later.
    assert!(restarts().await >= Some(3), "{:?}", restarts().await);
    stopper.stop();
    for task in tasks {
        task.await.unwrap();
    }
}
