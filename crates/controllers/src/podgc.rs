//! Pod GC: deletes pods nobody else will: old finished ones, those of nodes that are gone, those that go and never ran.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use client::resources::{NODES, PODS};
use client::{Client, DeleteOptions, Patch, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status};
use parking_lot::Mutex;
use runtime::{Action, Controller, Failure, Informer, Key, Reconcile, ReconcileRequest, Stop, batch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::{Context, PodFields, pod_view};
use plan::{Node, Pod, Why};

pub const NAME: &str = "pod-garbage-collector-controller";
const EVERY: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 64;

struct PodGc {
    env: Env,
    client: Arc<dyn Client>,
    pods: Arc<Informer>,
    fields: PodFields,
    nodes: Arc<Informer>,
    /// Finished pods that may lie around.
    threshold: usize,
    /// Guards the nodes that are missed, and until when they are waited for; never held while waiting.
    missed: Mutex<BTreeMap<String, Instant>>,
    stop: Stop,
}

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let gc = PodGc {
        env: context.env.clone(),
        client: context.clients.controller("pod-garbage-collector"),
        pods: context.informers.of(&PODS),
        fields: PodFields::of(context),
        nodes: context.informers.of(&NODES),
        threshold: context.settings.terminated_pod_gc_threshold,
        missed: Mutex::default(),
        stop: context.stop.clone(),
    };
    let controller = Controller::new(&context.env, NAME).workers(1).max_retries(None);
    let controller = controller.reads(&gc.pods).reads(&gc.nodes);
    // One key for the whole cluster: which pods are too many is seen by looking at all of them.
    controller.queue().add(Key::new("", "collect"), runtime::queue::NORMAL, None);
    controller.start(&context.controllers, Arc::new(gc), context.stop.clone())
}

impl Reconcile for PodGc {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.stop.stopped() => Ok(Action::AwaitChange),
                () = self.collect(&request) => Ok(Action::Requeue(EVERY)),
            }
        })
    }
}

impl PodGc {
    async fn collect(&self, request: &ReconcileRequest<'_>) {
        let all = self.pods.store().list();
        let (of, fields, nodes) = (all.len(), self.fields, self.nodes.store());
        // Most pods are on nodes that are there, or wait for one: they are not read.
        let lost = |node: &str| !node.is_empty() && nodes.get("", node).is_none();
        let may_go = |pod: &Obj| fields.is_terminal(pod) || pod.deleting() || lost(fields.node(pod));
        let objects: Vec<Arc<Obj>> = all.into_iter().filter(|pod| may_go(pod)).collect();
        let views: Vec<_> = objects.iter().map(|obj| pod_view(obj)).collect();
        let pods: Vec<Pod<'_>> =
            objects.iter().zip(&views).map(|(obj, view)| Pod { name: obj.name(), view }).collect();
        let node = |name: &str| nodes.get("", name).map(|node| Node::read(&runtime::tree(&node)));
        let gone = self.gone_nodes(&pods).await;
        let garbage = [
            (Why::Terminated, plan::terminated(&pods, self.threshold)),
            (Why::OutOfService, plan::out_of_service(&pods, &node)),
            (Why::Orphaned, plan::orphaned(&pods, &gone)),
            (Why::Unscheduled, plan::unscheduled_terminating(&pods)),
        ];
        request.plan(|| plan::describe(&garbage, of));
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
        let exists = |name: &str| self.nodes.store().get("", name).is_some();
        plan::due_nodes(pods, &exists, &mut self.missed.lock(), self.env.monotonic())
    }

    async fn delete(&self, objects: &[Arc<Obj>], which: Vec<usize>, why: Why) {
        let delete = |at: usize| -> BoxFuture<'_, Result<(), Status>> {
            let pod = &objects[which[at]];
            Box::pin(async move {
                match self.mark_and_delete(pod, why).await {
                    Err(status) if status.code != 404 => {
                        let (pod, error) = (pod.path(), &status.message);
                        tracing::warn!(pod, ?why, error, "failed to delete pod, retrying");
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
            let patch = plan::failed_patch(&runtime::tree(pod), why, now);
            self.client
                .patch(PODS.of(pod).sub("status"), Patch::Strategic(patch), WriteOptions::default())
                .await?;
        }
        let options = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::exactly(pod) };
        self.client.delete(PODS.of(pod), options).await
    }
}
