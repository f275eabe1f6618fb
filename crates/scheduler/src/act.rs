//! What the scheduler does to the world: binds pods, says why others wait, deletes victims.

use std::sync::Arc;
use std::time::Duration;

use client::resources::PODS;
use client::{Answer, Client, DeleteOptions, Patch};
use env::Env;
use object::{Map, Status, Value, time};
use runtime::{ObjectRef, Recorder, Severity};

use crate::cluster::Placed;
use crate::engine::Failure;
use crate::pod::Pod;

const LONGEST_CALL: Duration = Duration::from_secs(60);
/// An event's text is cut to this.
const MAX_NOTE: usize = 1024;

/// The API and the events of one profile.
#[derive(Clone)]
pub struct Hands {
    pub env: Env,
    pub client: Arc<dyn Client>,
    pub recorder: Recorder,
}

impl Hands {
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
        self.bounded(self.client.act(target, binding)).await?;
        let message = format!("Successfully assigned {} to {node}", pod.key());
        self.tell(pod, Severity::Normal, "Scheduled", message);
        Ok(())
    }

    /// Says why a pod has no node, where that was not said already.
    pub async fn explain(&self, failure: &Failure) -> Result<(), Status> {
        let pod = &failure.pod;
        let known = pod.scheduled.as_ref();
        let said = known.is_some_and(|c| {
            c.status == "False" && c.reason == failure.reason && c.message == failure.message
        });
        let nominated = failure.nominated_node.as_ref().filter(|node| **node != pod.nominated_node);
        // Differs from kube-scheduler, which repeats itself: while nothing changes, nothing is written.
        if said && nominated.is_none() {
            return Ok(());
        }
        self.tell(pod, Severity::Warning, "FailedScheduling", failure.message.clone());
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
        self.patch_status(pod.namespace(), &pod.name, &pod.uid, status).await
    }

    /// Takes a promise of room back.
    pub async fn unpromise(&self, pod: &Pod) -> Result<(), Status> {
        let mut status = Map::default();
        status.set("nominatedNodeName", Value::Null);
        gone_is_fine(self.patch_status(pod.namespace(), &pod.name, &pod.uid, status).await)
    }

    /// Deletes a pod to make room for another, and says so on it first.
    pub async fn evict(&self, victim: &Placed, for_pod: &Pod, node: &str) -> Result<(), Status> {
        let (namespace, name) = (&victim.class.namespace, &victim.name);
        let mut condition = Map::default();
        condition.set("type", "DisruptionTarget");
        condition.set("status", "True");
        condition.set("reason", "PreemptionByScheduler");
        let words = "preempting to accommodate a higher priority pod";
        condition.set("message", format!("{}: {words}", for_pod.scheduler_name));
        condition.set("lastTransitionTime", self.now());
        let mut status = Map::default();
        status.set("conditions", vec![Value::Map(condition)]);
        gone_is_fine(self.patch_status(namespace, name, &victim.uid, status).await)?;
        let options = DeleteOptions { uid: Some(victim.uid.to_string()), ..DeleteOptions::default() };
        gone_is_fine(self.bounded(self.client.delete(PODS.at(namespace, name), options)).await)?;
        let message = format!("Preempted by pod {} on node {node}", for_pod.uid);
        let about = reference(namespace, name, &victim.uid);
        self.recorder.event_on(about, Severity::Normal, "Preempted", message);
        Ok(())
    }

    fn tell(&self, pod: &Pod, severity: Severity, reason: &str, mut message: String) {
        if message.len() > MAX_NOTE {
            let mut end = MAX_NOTE - " ...".len();
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push_str(" ...");
        }
        self.recorder.event_on(reference(pod.namespace(), &pod.name, &pod.uid), severity, reason, message);
    }

    async fn patch_status(&self, namespace: &str, name: &str, uid: &str, status: Map) -> Result<(), Status> {
        let mut patch = Value::map();
        // Another pod of that name is none of our business.
        patch.map_at(&["metadata"]).set("uid", uid.to_owned());
        patch.make_map().set("status", Value::Map(status));
        let target = PODS.at(namespace, name).sub("status");
        self.bounded(self.client.patch(target, Patch::Strategic(patch))).await.map(drop)
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

fn nominated_value(node: &str) -> Value {
    if node.is_empty() { Value::Null } else { node.into() }
}

fn reference(namespace: &str, name: &str, uid: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        resource_version: String::new(),
        field_path: String::new(),
    }
}

/// What is gone, or another of the same name, needs nothing done to it.
fn gone_is_fine(answer: Result<(), Status>) -> Result<(), Status> {
    match answer {
        Err(status) if status.code == 404 || status.code == 409 => Ok(()),
        answer => answer,
    }
}
