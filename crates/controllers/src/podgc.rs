//! Pod GC: deletes pods nobody else will: old finished ones, those of nodes that are gone, those that go and never ran.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use client::resources::{NODES, PODS};
use client::{Client, DeleteOptions, Patch};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Map, Status, Value, time};
use parking_lot::Mutex;
use runtime::{Controller, Failure, Informer, Key, Next, Reconcile, Stop, Turn, batch};
use table::Obj;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Context, pod_view};
use plan::{Node, Pod, Why};

pub const NAME: &str = "pod-garbage-collector-controller";
const EVERY: Duration = Duration::from_secs(20);
/// A node is looked for that long before it counts as gone.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Finished pods that may lie around.
const TERMINATED: usize = 12_500;
const AT_ONCE: usize = 64;

struct PodGc {
    env: Env,
    client: Arc<dyn Client>,
    pods: Arc<Informer>,
    nodes: Arc<Informer>,
    /// Guards the nodes that are missed, and until when they are waited for; never held while waiting.
    missed: Mutex<BTreeMap<String, Instant>>,
    stop: Stop,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let gc = PodGc {
        env: context.env.clone(),
        client: context.clients.controller("pod-garbage-collector"),
        pods: context.informers.of(PODS),
        nodes: context.informers.of(NODES),
        missed: Mutex::default(),
        stop: context.stop.clone(),
    };
    let controller = Controller::new(&context.env, NAME).workers(1).max_retries(None);
    let controller = controller.reads(&gc.pods).reads(&gc.nodes);
    // One key for the whole cluster: which pods are too many is seen by looking at all of them.
    controller.queue().add(Key::new("", "collect"), runtime::queue::NORMAL, None);
    controller.start(&context.board, Arc::new(gc), context.stop.clone())
}

impl Reconcile for PodGc {
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.stop.stopped() => Ok(Next::Done),
                () = self.collect(&turn) => Ok(Next::After(EVERY)),
            }
        })
    }
}

impl PodGc {
    async fn collect(&self, turn: &Turn<'_>) {
        let objects = self.pods.store().list();
        let views: Vec<_> = objects.iter().map(|obj| pod_view(obj)).collect();
        let pods: Vec<Pod<'_>> =
            objects.iter().zip(&views).map(|(obj, view)| Pod { name: obj.name(), view }).collect();
        let nodes = self.nodes.store();
        let node = |name: &str| nodes.get("", name).map(|node| Node::read(&runtime::tree(&node)));
        let gone = self.gone_nodes(&pods).await;
        let garbage = [
            (Why::Terminated, plan::terminated(&pods, TERMINATED)),
            (Why::OutOfService, plan::out_of_service(&pods, &node)),
            (Why::Orphaned, plan::orphaned(&pods, &gone)),
            (Why::Unscheduled, plan::unscheduled_terminating(&pods)),
        ];
        turn.plan(|| plan::describe(&garbage, pods.len()));
        for (why, which) in garbage {
            self.delete(&objects, which, why).await;
        }
    }

    /// Nodes that pods are bound to and that do not exist, after waiting and asking the server itself.
    async fn gone_nodes(&self, pods: &[Pod<'_>]) -> BTreeSet<String> {
        let due = self.due_nodes(pods);
        let mut gone = BTreeSet::new();
        for name in due {
            if matches!(self.client.get(NODES.at("", &name)).await, Err(status) if status.code == 404) {
                gone.insert(name);
            }
        }
        gone
    }

    /// Nodes that were missed for long enough; they are not waited for any more.
    fn due_nodes(&self, pods: &[Pod<'_>]) -> Vec<String> {
        let now = self.env.monotonic();
        let exists = |name: &str| self.nodes.store().get("", name).is_some();
        let bound: BTreeSet<&str> =
            pods.iter().map(|pod| &*pod.view.node).filter(|n| !n.is_empty()).collect();
        let mut missed = self.missed.lock();
        missed.retain(|name, _| bound.contains(name.as_str()) && !exists(name));
        for name in bound.into_iter().filter(|name| !exists(name)) {
            missed.entry(name.to_owned()).or_insert(now + QUARANTINE);
        }
        let due: Vec<String> =
            missed.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
        missed.retain(|_, until| *until > now);
        due
    }

    async fn delete(&self, objects: &[Arc<Obj>], which: Vec<usize>, why: Why) {
        let delete = |at: usize| -> BoxFuture<'_, Result<(), Status>> {
            let pod = &objects[which[at]];
            Box::pin(async move {
                match self.mark_and_delete(pod, why).await {
                    Err(status) if status.code != 404 => {
                        let (pod, error) = (pod.path(), &status.message);
                        tracing::warn!(pod, ?why, error, "a pod could not be collected, trying again");
                        Err(status)
                    }
                    _ => Ok(()),
                }
            })
        };
        // Told above; the next round tries again.
        let _ = batch::all(which.len(), AT_ONCE, &delete).await;
    }

    /// Failed first, then deleted at once: nobody is left who could say what became of it.
    async fn mark_and_delete(&self, pod: &Obj, why: Why) -> Result<(), Status> {
        if !pod_view(pod).is_terminal() {
            let now = self.env.now_seconds() as i64;
            let patch = failed_patch(&runtime::tree(pod), why, now);
            self.client.patch(PODS.of(pod).sub("status"), Patch::Strategic(patch)).await?;
        }
        let options = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::exactly(pod) };
        self.client.delete(PODS.of(pod), options).await
    }
}

/// Status that says the pod failed, and of a pod whose node is gone, why.
fn failed_patch(pod: &Value, why: Why, now: i64) -> Value {
    let generation = pod.at(&["metadata", "generation"]).and_then(Value::as_int);
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("uid", pod.str_at(&["metadata", "uid"]).unwrap_or(""));
    let status = patch.map_at(&["status"]);
    status.set("phase", "Failed");
    if let Some(generation) = generation {
        status.set("observedGeneration", generation);
    }
    if why == Why::Orphaned {
        let before = kinds::conditions::find(pod, "DisruptionTarget");
        let since = before.filter(|c| c.str_at(&["status"]) == Some("True"));
        let since = since.and_then(|c| c.str_at(&["lastTransitionTime"])).map(str::to_owned);
        let mut condition = Map::default();
        condition.set("type", "DisruptionTarget");
        condition.set("status", "True");
        condition.set("reason", "DeletionByPodGC");
        condition.set("message", "PodGC: node no longer exists");
        condition.set("lastTransitionTime", since.unwrap_or_else(|| time::format_seconds(now)));
        if let Some(generation) = generation {
            condition.set("observedGeneration", generation);
        }
        status.set("conditions", vec![Value::Map(condition)]);
    }
    patch
}
