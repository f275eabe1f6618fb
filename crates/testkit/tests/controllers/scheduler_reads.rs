//! The scheduler knows the cluster from its watches: once they have begun, it reads nothing for a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use client::{Answer, Client, List, ListOptions, Target, Watch, WatchOptions};
use object::Obj;
use serde_json::json;
use testkit::TestCluster;
use testkit::forward::{Forward, Wrapping};

use crate::scheduling::{add_node, pod, start_with, until};
use crate::scheduling_devices::{add_claim, add_class, add_slice, one, plain_devices, with_claim};

const PODS: &str = "/api/v1/namespaces/default/pods";

struct Reading {
    inner: Arc<dyn Client>,
    reads: Arc<AtomicUsize>,
}

impl Forward for Reading {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn get<'a>(&'a self, target: Target<'a>) -> Answer<'a, Arc<Obj>> {
        self.reads.fetch_add(1, SeqCst);
        self.inner.get(target)
    }
    fn list<'a>(&'a self, target: Target<'a>, options: ListOptions) -> Answer<'a, List> {
        self.reads.fetch_add(1, SeqCst);
        self.inner.list(target, options)
    }
    fn watch<'a>(&'a self, target: Target<'a>, options: WatchOptions) -> Answer<'a, Box<dyn Watch>> {
        self.reads.fetch_add(1, SeqCst);
        self.inner.watch(target, options)
    }
}

#[tokio::test(start_paused = true)]
async fn scheduling_a_pod_costs_no_list_get_or_watch() {
    let cluster = TestCluster::simulated(64).await;
    for node in ["n1", "n2"] {
        add_node(&cluster, node, json!({})).await;
    }
    add_class(&cluster, "gpu", json!({})).await;
    add_slice(&cluster, "n1", plain_devices(1), json!({})).await;
    add_claim(&cluster, "mine", one("gpu")).await;
    let reads = Arc::new(AtomicUsize::new(0));
    let wrap = |inner| Reading { inner, reads: reads.clone() };
    let running = start_with(&cluster, &Wrapping { inner: cluster.local_clients(), wrap });
    cluster.post(PODS, pod("first", "100m")).await.ok(201);
    let bound = |pod: &serde_json::Value| pod["spec"]["nodeName"].is_string();
    until(&cluster, "first", "a bound pod", bound).await;
    let begun = reads.load(SeqCst);
    assert!(begun > 0, "each informer begins a watch, or lists and then does");
    for n in 0..16 {
        cluster.post(PODS, pod(&format!("p{n}"), "100m")).await.ok(201);
    }
    cluster.post(PODS, pod("large", "100")).await.ok(201);
    for n in 0..16 {
        until(&cluster, &format!("p{n}"), "a bound pod", bound).await;
    }
    cluster.post(PODS, with_claim("with-device", "mine")).await.ok(201);
    until(&cluster, "with-device", "a bound pod", bound).await;
    let says_why = |pod: &serde_json::Value| pod["status"]["conditions"][0]["reason"] == "Unschedulable";
    until(&cluster, "large", "why it waits", says_why).await;
    assert_eq!(reads.load(SeqCst), begun);
    running.stop().await;
    cluster.shutdown().await;
}
