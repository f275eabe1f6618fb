//! What the scheduler does to the world: binds pods, volumes and claims, says why others wait, deletes victims.

mod devices;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use client::{Answer, Client, DeleteOptions, Patch, Preconditions, WriteOptions};
use env::Env;
use object::{Map, Obj, Revision, Status, Value, time};
use runtime::{CONDITIONS_ORDER, Informer, NewEvent, ObjectRef, SeriesRecorder, Severity, conditions_with};

use crate::cluster::Placed;
use crate::engine::Failure;
use crate::pod::Pod;

const LONGEST_CALL: Duration = Duration::from_secs(60);
/// Others write a pod's status too; so often one of them may come in between.
const MAX_TRIES: usize = 5;
/// An event's text is cut to this.
const MAX_NOTE: usize = 1024;

/// The API and the events of one profile.
#[derive(Clone)]
pub struct ApiCalls {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub recorder: SeriesRecorder,
    /// What is known of them now; it may be more than what was decided on.
    pub pods: Arc<Informer>,
}

impl ApiCalls {
    /// Binds a pod: refused unless it is this very pod and has no node.
    pub async fn bind(&self, pod: &Pod, node: &str) -> Result<(), Status> {
        let mut binding = Value::map();
        let root = binding.make_map();
        root.set("apiVersion", "v1");
        root.set("kind", "Binding");
        let metadata = binding.map_at(&["metadata"]);
        metadata.set("name", pod.name.to_string());
        metadata.set("namespace", pod.namespace().to_string());
        metadata.set("uid", pod.uid.to_string());
        let to = binding.map_at(&["target"]);
        to.set("kind", "Node");
        to.set("name", node.to_owned());
        let target = PODS.at(pod.namespace(), &pod.name).sub("binding");
        let about = self.reference(pod.namespace(), &pod.name, &pod.uid);
        self.bounded(self.client.act(target, binding, WriteOptions::default())).await?;
        let message = format!("Successfully assigned {} to {node}", pod.key());
        self.recorder.tell(NewEvent {
            about,
            related: None,
            severity: Severity::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: cut(message),
        });
        Ok(())
    }

    /// What the pod's status has to say about why it has no node; `None` where it says so already.
    pub fn explanation(&self, failure: &Failure) -> Option<Map> {
        let pod = &failure.pod;
        let known = pod.scheduled.as_ref();
        let said = known.is_some_and(|c| {
            c.status == "False" && c.reason == failure.reason && c.message == failure.message
        });
        let nominated = failure.nominated_node.as_ref().filter(|node| **node != pod.nominated_node);
        if said && nominated.is_none() {
            return None;
        }
        let mut status = Map::default();
        if !said {
            let mut condition = Map::default();
            condition.set("type", "PodScheduled");
            condition.set("status", "False");
            condition.set("reason", failure.reason);
            condition.set("message", failure.message.clone());
            condition.set("observedGeneration", pod.generation);
            if known.is_none_or(|c| c.status != "False") {
                condition.set("lastTransitionTime", self.now());
            }
            status.set("conditions", vec![Value::Map(condition)]);
        }
        if let Some(node) = nominated {
            status.set("nominatedNodeName", nominated_value(node));
        }
        Some(status)
    }

    /// Every attempt that fails is told; what is the same again becomes a series.
    pub fn tell_failure(&self, failure: &Failure, known: &Obj) {
        let pod = &failure.pod;
        self.recorder.tell(NewEvent {
            about: reference(pod.namespace(), &pod.name, &pod.uid, Some(known)),
            related: None,
            severity: Severity::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: cut(failure.message.clone()),
        });
    }

    /// Says it in the status, unless the pod has a node by now: `known` is the newest of it that was seen, and only that version and
    /// newer ones without a node are written to. Another scheduler of the same name may have bound it.
    pub async fn explain(&self, failure: &Failure, status: Map, known: &Obj) -> Result<(), Status> {
        let pod = &failure.pod;
        let mut version = known.revision();
        for _ in 1..MAX_TRIES {
            let result = self.patch_status(pod, Some(version), status.clone()).await;
            match result {
                Err(refused) if refused.code == 409 => {}
                result => return result,
            }
            let fresh = self.bounded(self.client.get(PODS.at(pod.namespace(), &pod.name))).await?;
            if fresh.uid() != &*pod.uid || is_bound(&fresh) {
                return Ok(());
            }
            version = fresh.revision();
        }
        self.patch_status(pod, Some(version), status).await
    }

    /// Takes a promise of room back.
    pub async fn unpromise(&self, pod: &Pod) -> Result<(), Status> {
        let mut status = Map::default();
        status.set("nominatedNodeName", Value::Null);
        gone_is_fine(self.patch_status(pod, None, status).await)
    }

    /// Deletes a pod to make room for another, and says so on it first.
    pub async fn evict(&self, victim: &Placed, for_pod: &Pod, node: &str) -> Result<(), Status> {
        let (namespace, name) = (&victim.class.namespace, &victim.name);
        let told = self.preempted(victim, for_pod, node);
        let mut condition = Map::default();
        condition.set("type", "DisruptionTarget");
        condition.set("status", "True");
        condition.set("reason", "PreemptionByScheduler");
        let words = "preempting to accommodate a higher priority pod";
        condition.set("message", format!("{}: {words}", for_pod.scheduler_name));
        let mut status = Map::default();
        let mut since = self.now();
        let known = self.known(namespace, name, &victim.uid);
        if let Some(pod) = known.as_deref().map(runtime::tree) {
            let there = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
            let before = there.iter().find(|c| c.str_at(&["type"]) == Some("DisruptionTarget"));
            let before = before.filter(|c| c.str_at(&["status"]) == Some("True"));
            if let Some(time) = before.and_then(|c| c.str_at(&["lastTransitionTime"])) {
                time.clone_into(&mut since);
            }
            if let Some(generation) = pod.at(&["metadata", "generation"]).and_then(Value::as_int) {
                condition.set("observedGeneration", generation);
            }
            status.set(CONDITIONS_ORDER, conditions_with(&pod, "DisruptionTarget"));
        }
        condition.set("lastTransitionTime", since);
        status.set("conditions", vec![Value::Map(condition)]);
        // A conflict may be with somebody else's write, and the victim still there: it is not taken for gone.
        let gone = |answer: Result<(), Status>| if is_missing(&answer) { Ok(()) } else { answer };
        gone(self.patch(namespace, name, metadata(&victim.uid), status).await)?;
        let options =
            DeleteOptions { preconditions: Preconditions::uid(&*victim.uid), ..DeleteOptions::default() };
        gone(self.bounded(self.client.delete(PODS.at(namespace, name), options)).await)?;
        self.recorder.tell(told);
        Ok(())
    }

    /// A pod that was not bound yet had to make room for another: it is not deleted, and waits for its turn.
    pub fn tell_cancelled(&self, victim: &Placed, for_pod: &Pod, node: &str) {
        let mut told = self.preempted(victim, for_pod, node);
        told.note.push_str(" (in kube-scheduler memory).");
        self.recorder.tell(told);
    }

    fn preempted(&self, victim: &Placed, for_pod: &Pod, node: &str) -> NewEvent {
        NewEvent {
            about: self.reference(&victim.class.namespace, &victim.name, &victim.uid),
            // Differs from kube-scheduler v1.36, which means to name the pod and does not: it cannot make the reference.
            related: Some(self.reference(for_pod.namespace(), &for_pod.name, &for_pod.uid)),
            severity: Severity::Normal,
            reason: "Preempted",
            action: "Preempting",
            note: format!("Preempted by pod {} on node {node}", for_pod.uid),
        }
    }

    /// Says where the pod will be, once what comes before is done: others may count on it. It comes there without this as well.
    async fn nominate(&self, pod: &Pod, node: &str) {
        let mut status = Map::default();
        status.set("nominatedNodeName", node.to_owned());
        if let Err(status) = self.patch_status(pod, None, status).await {
            tracing::debug!(pod = pod.key(), error = status.message, "failed to nominate the node");
        }
    }

    /// The pod as it was seen last; another one of that name is not it.
    fn known(&self, namespace: &str, name: &str, uid: &str) -> Option<Arc<Obj>> {
        self.pods.store().get(namespace, name).filter(|known| known.uid() == uid)
    }

    fn reference(&self, namespace: &str, name: &str, uid: &str) -> ObjectRef {
        reference(namespace, name, uid, self.known(namespace, name, uid).as_deref())
    }

    async fn patch_status(&self, pod: &Pod, version: Option<Revision>, status: Map) -> Result<(), Status> {
        let mut metadata = metadata(&pod.uid);
        if let Some(version) = version {
            metadata.set("resourceVersion", version.to_string());
        }
        self.patch(pod.namespace(), &pod.name, metadata, status).await
    }

    async fn patch(&self, namespace: &str, name: &str, metadata: Map, status: Map) -> Result<(), Status> {
        let mut patch = Map::default();
        patch.set("metadata", Value::Map(metadata));
        patch.set("status", Value::Map(status));
        let target = PODS.at(namespace, name).sub("status");
        self.bounded(self.client.patch(target, Patch::Strategic(Value::Map(patch)), WriteOptions::default()))
            .await
            .map(drop)
    }

    /// A server that never answers must not take up the calls that may be under way at once.
    async fn bounded<T>(&self, call: Answer<'_, T>) -> Result<T, Status> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.env.sleep(LONGEST_CALL) => Err(Status::timeout("the server did not answer in time")),
        }
    }

    fn now(&self) -> String {
        time::format_seconds(self.env.now_seconds() as i64)
    }
}

/// Another pod of that name is none of our business.
fn metadata(uid: &str) -> Map {
    let mut metadata = Map::default();
    metadata.set("uid", uid.to_owned());
    metadata
}

pub fn is_bound(pod: &Obj) -> bool {
    runtime::tree(pod).str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty())
}

fn nominated_value(node: &str) -> Value {
    if node.is_empty() { Value::Null } else { node.into() }
}

fn cut(mut note: String) -> String {
    if note.len() > MAX_NOTE {
        let mut end = MAX_NOTE - " ...".len();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push_str(" ...");
    }
    note
}

fn reference(namespace: &str, name: &str, uid: &str, known: Option<&Obj>) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        resource_version: known.map(|known| known.revision().to_string()).unwrap_or_default(),
        field_path: String::new(),
    }
}

fn is_missing(answer: &Result<(), Status>) -> bool {
    matches!(answer, Err(status) if status.code == 404)
}

/// What is gone, or another of the same name, needs nothing done to it.
fn gone_is_fine(answer: Result<(), Status>) -> Result<(), Status> {
    match answer {
        Err(status) if status.code == 404 || status.code == 409 => Ok(()),
        answer => answer,
    }
}
