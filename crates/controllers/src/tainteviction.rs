//! Sends pods away from nodes with NoExecute taints: at once, or after the time they tolerate.
//!
//! A pod's key waits in the queue until its time; every reconcile looks again, so a taint that went away, or a toleration that
//! came, is noticed however it happened.

mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use client::resources::{NODES, PODS};
use client::{Client, DeleteOptions, Patch, WriteOptions};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Obj, Status, time};
use parking_lot::Mutex;
use runtime::{
    Action, Controller, Failure, Informer, InformerEvent, Key, ObjectRef, Reconcile, ReconcileRequest,
    Recorder, Severity, WorkQueue,
};
use tokio::task::JoinHandle;

use self::plan::{Judgement, Phase, Sentence, Then, allowed, judge, no_execute};

pub(crate) use self::plan::{Toleration, toleration, tolerations};
use crate::nodelifecycle::node::{NodeFacts, Taint};
use crate::nodelifecycle::{BY_NODE, IDENTITY, pods_by_node};
use crate::{Context, PodFields, pod_view};

pub const NAME: &str = "taint-eviction-controller";

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller(IDENTITY);
    let (recorder, task) = Recorder::start(&context.env, client.clone(), NAME, context.stop.clone());
    let (nodes, pods) = (context.informers.of(&NODES), pods_by_node(context));
    let controller =
        Controller::new(&context.env, NAME).workers(8).max_retries(None).reads(&nodes).reads(&pods);
    let known = Arc::new(Mutex::new(State::default()));
    follow_nodes(&nodes, &pods, controller.queue(), known.clone());
    follow_pods(PodFields::of(context), &pods, controller.queue(), known.clone());
    let eviction = Eviction { env: context.env.clone(), client, recorder, nodes, pods, state: known };
    let mut tasks = vec![task];
    tasks.extend(controller.start(&context.controllers, Arc::new(eviction), context.stop.clone()));
    tasks
}

#[derive(Default)]
struct State {
    /// NoExecute taints by node; nodes without any are not in it.
    tainted: BTreeMap<String, Vec<Taint>>,
    pods: BTreeMap<Key, Sentence>,
}

/// A node whose taints changed is a matter of all its pods.
fn follow_nodes(
    nodes: &Informer,
    pods: &Arc<Informer>,
    queue: Arc<WorkQueue<Key>>,
    state: Arc<Mutex<State>>,
) {
    let pods = pods.clone();
    let handler = move |event: &InformerEvent<'_>| {
        let node = event.obj();
        if matches!(event, InformerEvent::Deleted { .. }) {
            // Its pods are somebody else's now; what was decided stands.
            state.lock().tainted.remove(node.name());
            return;
        }
        let taints = no_execute(&NodeFacts::of(node));
        let changed = {
            let mut state = state.lock();
            let before = if taints.is_empty() {
                state.tainted.remove(node.name())
            } else {
                state.tainted.insert(node.name().to_owned(), taints.clone())
            };
            before.unwrap_or_default() != taints
        };
        if changed {
            for pod in pods.store().by_index(BY_NODE, node.name()) {
                queue.add(Key::of(&pod), runtime::queue::NORMAL, None);
            }
        }
    };
    nodes.add_resyncing_handler(Box::new(handler));
}

/// Pods on tainted nodes, and those something was decided about.
fn follow_pods(fields: PodFields, pods: &Informer, queue: Arc<WorkQueue<Key>>, state: Arc<Mutex<State>>) {
    let handler = move |event: &InformerEvent<'_>| {
        let pod = event.obj();
        let concerned = {
            let State { tainted, pods } = &*state.lock();
            let judged = || !pods.is_empty() && pods.contains_key(&Key::of(pod));
            tainted.contains_key(fields.node(pod)) || judged()
        };
        if concerned {
            queue.add(Key::of(pod), runtime::queue::NORMAL, None);
        }
    };
    pods.add_resyncing_handler(Box::new(handler));
}

struct Eviction {
    env: Env,
    client: Arc<dyn Client>,
    recorder: Recorder,
    nodes: Arc<Informer>,
    pods: Arc<Informer>,
    /// Guards taints and sentences; held for a few instructions.
    state: Arc<Mutex<State>>,
}

impl Reconcile for Eviction {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let pod = self.pods.store().get_key(request.key);
            let judgement = self.judge(request.key, pod.as_deref());
            let Some(pod) = pod else { return Ok(Action::AwaitChange) };
            request.plan(|| format!("{:?}", judgement.then));
            match judgement.then {
                Then::Nothing => Ok(Action::AwaitChange),
                Then::Wait(left) => Ok(Action::Requeue(left)),
                Then::Evict => {
                    self.evict(request.key, &pod).await?;
                    Ok(Action::AwaitChange)
                }
            }
        })
    }
}

impl Eviction {
    /// What is decided now, remembered, and told if it is less than was decided before.
    fn judge(&self, key: &Key, pod: Option<&Obj>) -> Judgement {
        let node = pod.map(|pod| pod_view(pod).node.clone()).unwrap_or_default();
        let (taints, before) = {
            let state = self.state.lock();
            (state.tainted.get(&*node).cloned(), state.pods.get(key).cloned())
        };
        let sentenced = |pod: &Obj| before.as_ref().is_some_and(|sentence| sentence.uid == pod.uid());
        let node_is_there = || self.nodes.store().get("", &node).is_some();
        let pod = pod.map(|pod| {
            let tolerations = || tolerations(&runtime::tree(pod));
            (pod.uid(), allowed(taints.as_deref(), tolerations, sentenced(pod), node_is_there()))
        });
        let judgement = judge(before.as_ref(), pod, self.env.monotonic());
        match &judgement.sentence {
            Some(sentence) => self.state.lock().pods.insert(key.clone(), sentence.clone()),
            None => self.state.lock().pods.remove(key),
        };
        if judgement.cancelled {
            self.tell(key, format!("Cancelling deletion of Pod {key}"));
        }
        judgement
    }

    async fn evict(&self, key: &Key, pod: &Obj) -> Result<(), Failure> {
        let set = |phase| {
            let sentence = Sentence { uid: pod.uid().to_owned(), phase };
            self.state.lock().pods.insert(key.clone(), sentence).map(|before| before.phase)
        };
        if set(Phase::Told) != Some(Phase::Told) {
            self.tell(key, format!("Marking for deletion Pod {key}"));
        }
        let result = match self.mark(pod).await {
            Ok(()) => self.client.delete(PODS.of(pod), DeleteOptions::exactly(pod)).await,
            refused => refused,
        };
        match result {
            // If another pod has the name by now, the next reconcile sees its uid.
            Err(status) if status.code != 404 => Err(status.into()),
            _ => {
                set(Phase::Done);
                Ok(())
            }
        }
    }

    /// Says in the pod's status why it goes, for those who count failures.
    async fn mark(&self, pod: &Obj) -> Result<(), Status> {
        let now = time::format_seconds(self.env.now_seconds() as i64);
        match plan::mark(&runtime::tree(pod), &now) {
            None => Ok(()),
            Some(patch) => self
                .client
                .patch(PODS.of(pod).sub("status"), Patch::Strategic(patch), WriteOptions::default())
                .await
                .map(|_| ()),
        }
    }

    fn tell(&self, pod: &Key, message: String) {
        let about = ObjectRef {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: String::new(),
            resource_version: String::new(),
            field_path: String::new(),
        };
        self.recorder.event_on(about, Severity::Normal, "TaintManagerEviction", message);
    }
}
