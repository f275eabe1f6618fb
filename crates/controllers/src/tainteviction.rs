//! Sends pods away from nodes with NoExecute taints: at once, or after the time they tolerate.
//!
//! A pod's key waits in the queue until its time; every turn looks again, so a taint that went away, or a toleration that
//! came, is noticed however it happened.

mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use client::resources::{NODES, PODS};
use client::{Client, DeleteOptions, Patch};
use env::Env;
use futures_util::future::BoxFuture;
use object::{Map, Status, Value, time};
use parking_lot::Mutex;
use runtime::{
    Controller, Failure, Informer, Key, Next, Notice, ObjectRef, Reconcile, Recorder, Severity, Turn,
    WorkQueue,
};
use table::Obj;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::plan::{Stay, no_execute, stay, tolerations};
use crate::nodelifecycle::node::{NodeFacts, Taint};
use crate::nodelifecycle::{BY_NODE, IDENTITY, pods_by_node};
use crate::{Context, pod_view};

pub const NAME: &str = "taint-eviction-controller";

pub fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let client = context.clients.controller(IDENTITY);
    let (recorder, task) = Recorder::start(&context.env, client.clone(), NAME, context.stop.clone());
    let (nodes, pods) = (context.informers.of(NODES), pods_by_node(context));
    let controller =
        Controller::new(&context.env, NAME).workers(8).max_retries(None).reads(&nodes).reads(&pods);
    let known = Arc::new(Mutex::new(State::default()));
    follow_nodes(&nodes, &pods, controller.queue(), known.clone());
    follow_pods(&pods, controller.queue(), known.clone());
    let eviction = Eviction { env: context.env.clone(), client, recorder, nodes, pods, state: known };
    let mut tasks = vec![task];
    tasks.extend(controller.start(&context.board, Arc::new(eviction), context.stop.clone()));
    tasks
}

#[derive(Default)]
struct State {
    /// NoExecute taints by node; nodes without any are not in it.
    tainted: BTreeMap<String, Vec<Taint>>,
    pods: BTreeMap<Key, Sentence>,
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sentence {
    uid: String,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    At(Instant),
    /// People were told; the deletion may have to be tried again.
    Told,
    Done,
}

/// A node whose taints changed is a matter of all its pods.
fn follow_nodes(
    nodes: &Informer,
    pods: &Arc<Informer>,
    queue: Arc<WorkQueue<Key>>,
    state: Arc<Mutex<State>>,
) {
    let pods = pods.clone();
    let handler = move |notice: &Notice<'_>| {
        let node = notice.obj();
        if matches!(notice, Notice::Deleted { .. }) {
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
fn follow_pods(pods: &Informer, queue: Arc<WorkQueue<Key>>, state: Arc<Mutex<State>>) {
    let handler = move |notice: &Notice<'_>| {
        let key = Key::of(notice.obj());
        let concerned = {
            let state = state.lock();
            state.pods.contains_key(&key) || state.tainted.contains_key(&*pod_view(notice.obj()).node)
        };
        if concerned {
            queue.add(key, runtime::queue::NORMAL, None);
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
    fn reconcile<'a>(&'a self, turn: Turn<'a>) -> BoxFuture<'a, Result<Next, Failure>> {
        Box::pin(async move {
            let pod = self.pods.store().get_key(turn.key);
            let Some(pod) = pod else {
                self.cancel(turn.key);
                return Ok(Next::Done);
            };
            let another = |sentence: &Sentence| sentence.uid != pod.uid();
            if self.state.lock().pods.get(turn.key).is_some_and(another) {
                self.cancel(turn.key);
            }
            let now = self.env.monotonic();
            match self.decide(turn.key, &pod, now) {
                None => Ok(Next::Done),
                Some(at) if at > now => Ok(Next::After(at - now)),
                Some(_) => {
                    turn.plan(|| "evict".to_owned());
                    self.evict(turn.key, &pod).await?;
                    Ok(Next::Done)
                }
            }
        })
    }
}

impl Eviction {
    /// When the pod must go; `None`: it may stay, or is gone already as far as this loop goes.
    fn decide(&self, key: &Key, pod: &Obj, now: Instant) -> Option<Instant> {
        let node = &pod_view(pod).node;
        let (taints, before) = {
            let state = self.state.lock();
            let taints = state.tainted.get(&**node).cloned();
            (taints, state.pods.get(key).map(|sentence| sentence.phase))
        };
        let stay = match taints {
            Some(taints) => stay(&taints, &tolerations(&runtime::tree(pod))),
            // A node that is gone pardons nobody.
            None if before.is_some() && self.nodes.store().get("", node).is_none() => Stay::Seconds(0),
            None => Stay::Forever,
        };
        let at = match (stay, before) {
            (Stay::Forever, _) => {
                self.cancel(key);
                return None;
            }
            (_, Some(Phase::Done)) => return None,
            (_, Some(Phase::Told)) => return Some(now),
            // What was decided first stands, even if another taint would now allow less or more.
            (Stay::Seconds(_), Some(Phase::At(at))) => return Some(at),
            (Stay::Seconds(seconds), None) => {
                // A pod may say any number: clocks cannot count for ever.
                now + Duration::from_secs(seconds.clamp(0, i64::from(u32::MAX)).unsigned_abs())
            }
            (Stay::No, Some(Phase::At(at))) => {
                if at > now {
                    self.cancel(key);
                }
                now
            }
            (Stay::No, None) => now,
        };
        let sentence = Sentence { uid: pod.uid().to_owned(), phase: Phase::At(at) };
        self.state.lock().pods.insert(key.clone(), sentence);
        Some(at)
    }

    /// Nothing shall happen to the pod any more.
    fn cancel(&self, key: &Key) {
        let removed = self.state.lock().pods.remove(key);
        if removed.is_some_and(|sentence| matches!(sentence.phase, Phase::At(_))) {
            self.tell(key, format!("Cancelling deletion of Pod {key}"));
        }
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
            // If another pod has the name by now, the next turn sees its uid.
            Err(status) if status.code != 404 => Err(status.into()),
            _ => {
                set(Phase::Done);
                Ok(())
            }
        }
    }

    /// Says in the pod's status why it goes, for those who count failures.
    async fn mark(&self, pod: &Obj) -> Result<(), Status> {
        const REASON: &str = "DeletionByTaintManager";
        let tree = runtime::tree(pod);
        let conditions = tree.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let there = conditions.iter().find(|c| c.str_at(&["type"]) == Some("DisruptionTarget"));
        let said = |c: &Value| c.str_at(&["status"]) == Some("True");
        if there.is_some_and(|c| said(c) && c.str_at(&["reason"]) == Some(REASON)) {
            return Ok(());
        }
        let mut condition = Map::default();
        condition.set("type", "DisruptionTarget");
        condition.set("status", "True");
        condition.set("reason", REASON);
        condition.set("message", "Taint manager: deleting due to NoExecute taint");
        if !there.is_some_and(said) {
            condition.set("lastTransitionTime", time::format_seconds(self.env.now_seconds() as i64));
        }
        if let Some(generation) = tree.at(&["metadata", "generation"]).and_then(Value::as_int) {
            condition.set("observedGeneration", generation);
        }
        let mut patch = Value::map();
        patch.map_at(&["metadata"]).set("uid", pod.uid().to_owned());
        patch.map_at(&["status"]).set("conditions", Value::List(vec![Value::Map(condition)]));
        self.client.patch(PODS.of(pod).sub("status"), Patch::Strategic(patch)).await.map(|_| ())
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
