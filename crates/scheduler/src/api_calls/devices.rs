//! Before a pod is bound its claims are: allocated, kept from deletion, and reserved for the pod.

use std::sync::Arc;
use std::time::Duration;

use client::resources::RESOURCE_CLAIMS;
use client::{DeleteOptions, Patch, Preconditions, WriteOptions};
use devices::Allocation;
use object::{Map, Obj, Status, Value};
use runtime::{NewEvent, Severity};

use super::{ApiCalls, gone_is_fine};
use crate::dynamic_resources::{EXTENDED_ANNOTATION, FINALIZER, ResourceClaim};
use crate::engine::{ClaimBindings, ClaimKeyAndUid, Unreserved, WrittenClaims};
use crate::evaluate::devices::{ExtendedDevices, GiveUp};
use crate::pod::Pod;

/// So often others may write a claim in between, or the server give no answer.
const MAX_TRIES: usize = 5;
const PAUSE_AFTER_CONFLICT: Duration = Duration::from_millis(10);
const PAUSE_WITHOUT_ANSWER: Duration = Duration::from_secs(1);

/// Why a claim was not written.
struct Refused {
    message: String,
    /// The version that a write was for which may yet arrive.
    doubt: Option<u64>,
    /// The claim as it was last known, if it is another than the first.
    claim: Option<Arc<ResourceClaim>>,
}

/// What was being written when it failed, and on which version of the claim where that may allocate devices.
struct Failed {
    status: Status,
    doing: &'static str,
    base: Option<u64>,
}

impl From<String> for Refused {
    fn from(message: String) -> Refused {
        Refused { message, doubt: None, claim: None }
    }
}

impl ApiCalls {
    /// Writes what is to be, one claim after the other, and ends with the first that is refused.
    pub async fn bind_claims(&self, pod: &Pod, node: &str, bindings: &ClaimBindings) -> WrittenClaims {
        self.nominate(pod, node).await;
        let mut written = WrittenClaims::default();
        for (claim, allocation) in &bindings.claims {
            if claim.is_reserved_for(&pod.uid) {
                continue;
            }
            match self.bind_claim(pod, claim, allocation.as_ref()).await {
                Ok(claim) => written.claims.push(claim),
                Err(refused) => {
                    written.doubt = refused.doubt.map(|revision| (claim.uid.clone(), revision));
                    written.error = Some(refused.message);
                    return written;
                }
            }
        }
        if let Some(extended) = &bindings.extended {
            self.bind_extended(pod, extended, &mut written).await;
        }
        written
    }

    /// Allocates and reserves a claim. A conflict is with somebody else's write, and mostly benign: the claim is read and written again.
    async fn bind_claim(
        &self,
        pod: &Pod,
        claim: &Arc<ResourceClaim>,
        allocation: Option<&Arc<Allocation>>,
    ) -> Result<Arc<ResourceClaim>, Refused> {
        let mut claim = claim.clone();
        let mut doubt = None;
        for attempt in 1.. {
            let key = claim.key();
            let ours = |claim: &ResourceClaim| {
                doubt.is_some() && claim.allocation.as_ref().map(|a| &a.devices) == allocation
            };
            let landed = ours(&claim);
            if landed && claim.is_reserved_for(&pod.uid) {
                return Ok(claim);
            }
            if claim.deleting {
                return Err(format!("claim {key} got deleted in the meantime").into());
            }
            if allocation.is_some() && claim.allocation.is_some() && !landed {
                return Err(format!("claim {key} got allocated elsewhere in the meantime").into());
            }
            if allocation.is_none() && claim.allocation.is_none() {
                return Err(format!("claim {key} got deallocated elsewhere in the meantime").into());
            }
            let Failed { status: failed, doing, base } = match self.write_claim(pod, &claim, allocation).await
            {
                Ok(written) => return Ok(written),
                Err(failed) => failed,
            };
            let unanswered = failed.code >= 500;
            if unanswered && allocation.is_some() {
                doubt = base.or(doubt);
            }
            if attempt == MAX_TRIES || !(unanswered || failed.code == 409) {
                let message = format!("{doing} {key}: {}", failed.message);
                return Err(Refused { message, doubt, claim: Some(claim) });
            }
            self.env.sleep(if unanswered { PAUSE_WITHOUT_ANSWER } else { PAUSE_AFTER_CONFLICT }).await;
            let target = RESOURCE_CLAIMS.at(&claim.namespace, &claim.name);
            match self.bounded(self.client.get(target)).await {
                Ok(fresh) if fresh.uid() == &*claim.uid => claim = parse(&fresh),
                Ok(_) => return Err(format!("claim {key} got deleted in the meantime").into()),
                Err(status) if status.code >= 500 => {}
                Err(status) => {
                    let message = format!("get updated claim {key} after conflict: {}", status.message);
                    return Err(Refused {
                        message,
                        doubt: doubt.filter(|_| status.code != 404),
                        claim: Some(claim),
                    });
                }
            }
        }
        unreachable!("the last attempt returns")
    }

    /// One attempt, on the version that is known; with what it was about when it failed.
    async fn write_claim(
        &self,
        pod: &Pod,
        claim: &ResourceClaim,
        allocation: Option<&Arc<Allocation>>,
    ) -> Result<Arc<ResourceClaim>, Failed> {
        let mut revision = claim.revision;
        let target = RESOURCE_CLAIMS.at(&claim.namespace, &claim.name);
        let options = WriteOptions::default;
        // The finalizer is no part of the status. From an attempt that was interrupted it may be there already.
        let protected = claim.finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER));
        if allocation.is_some() && !protected {
            let mut patch = on_version(&claim.uid, revision);
            let finalizers = claim.finalizers.iter().cloned().chain([Value::from(FINALIZER)]);
            patch.map_at(&["metadata"]).set("finalizers", finalizers.collect::<Vec<_>>());
            let answer = self.bounded(self.client.patch(target, Patch::Merge(patch), options())).await;
            let doing = "add finalizer to claim";
            let answer = answer.map_err(|status| Failed { status, doing, base: None })?;
            revision = answer.revision().0;
        }
        let mut patch = on_version(&claim.uid, revision);
        let known = claim.allocation.as_ref();
        let mut tree = match (known, allocation) {
            (Some(known), _) => known.tree().clone(),
            (None, Some(allocation)) => allocation.to_value(),
            (None, None) => Value::map(),
        };
        let status = patch.map_at(&["status"]);
        if known.is_none_or(|known| known.since.is_none()) {
            tree.make_map().set("allocationTimestamp", self.now());
            status.set("allocation", tree);
        }
        let consumer = consumer(pod);
        status.set("reservedFor", claim.reserved_for.iter().cloned().chain([consumer]).collect::<Vec<_>>());
        let doing = match allocation {
            Some(_) => "add allocation and reservation to claim",
            None => "add reservation to claim",
        };
        let answer =
            self.bounded(self.client.patch(target.sub("status"), Patch::Merge(patch), options())).await;
        answer.map(|answer| parse(&answer)).map_err(|status| Failed { status, doing, base: Some(revision) })
    }

    async fn bind_extended(&self, pod: &Pod, extended: &ExtendedDevices, written: &mut WrittenClaims) {
        let requests = &extended.requests.0;
        let namespace = pod.namespace();
        let body = extended_claim(pod, requests.spec());
        let create = self.client.create(RESOURCE_CLAIMS.within(namespace), body, WriteOptions::default());
        let created = match self.bounded(create).await {
            Ok(created) => parse(&created),
            Err(status) => {
                let why = &status.message;
                written.error = Some(format!("create claim for extended resources {namespace}/: {why}"));
                return;
            }
        };
        written.extended = Some(created.clone());
        match self.bind_claim(pod, &created, Some(&extended.allocation)).await {
            Ok(claim) => written.extended = Some(claim),
            Err(refused) => {
                written.doubt = refused.doubt.map(|revision| (created.uid.clone(), revision));
                written.error = Some(refused.message);
                written.extended = refused.claim.or(Some(created));
                return;
            }
        }
        let mut status = Map::default();
        status.set("extendedResourceClaimStatus", requests.status(&created.name));
        if let Err(status) = self.patch_status(pod, None, status).await {
            let (pod, why) = (pod.key(), &status.message);
            written.error = Some(format!("update pod {pod} ExtendedResourceClaimStatus: {why}"));
        }
    }

    /// Says that the pod waits for its devices.
    pub fn tell_devices_pending(&self, pod: &Pod, node: &str) {
        self.recorder.tell(NewEvent {
            about: self.reference(pod.namespace(), &pod.name, &pod.uid),
            related: None,
            severity: Severity::Normal,
            reason: "BindingConditionsPending",
            action: "Scheduling",
            note: format!("waiting for binding conditions for device on node {node}"),
        });
    }

    /// The pod does not use its claims: others may.
    pub async fn unreserve(&self, pod: &Pod, unreserved: &Unreserved) -> Result<(), Status> {
        let mut result = Ok(());
        for claim in &unreserved.claims {
            let mut entry = Map::default();
            entry.set("$patch", "delete");
            entry.set("uid", pod.uid.to_string());
            let mut patch = Value::map();
            patch.map_at(&["metadata"]).set("uid", claim.uid.to_string());
            patch.map_at(&["status"]).set("reservedFor", vec![Value::Map(entry)]);
            let target = RESOURCE_CLAIMS.at(&claim.namespace, &claim.name).sub("status");
            let patch = self.client.patch(target, Patch::Strategic(patch), WriteOptions::default());
            // The others are tried all the same.
            result = gone_is_fine(self.bounded(patch).await.map(drop)).and(result);
        }
        if let Some(claim) = &unreserved.extended {
            result = self.delete_claim(claim).await.and(result);
        }
        result
    }

    /// Makes a pod's next attempt possible.
    pub async fn give_up(&self, given_up: &GiveUp) -> Result<(), Status> {
        match given_up {
            GiveUp::Delete(claim) => {
                let (namespace, name, uid) = (claim.namespace.clone(), claim.name.clone(), claim.uid.clone());
                self.delete_claim(&ClaimKeyAndUid { namespace, name, uid }).await
            }
            GiveUp::Deallocate(claim) => {
                let mut patch = on_version(&claim.uid, claim.revision);
                let status = patch.map_at(&["status"]);
                for member in ["allocation", "reservedFor", "devices"] {
                    status.set(member, Value::Null);
                }
                let target = RESOURCE_CLAIMS.at(&claim.namespace, &claim.name).sub("status");
                let patch = self.client.patch(target, Patch::Merge(patch), WriteOptions::default());
                self.bounded(patch).await.map(drop)
            }
        }
    }

    /// Without its finalizer, which nobody else would remove.
    async fn delete_claim(&self, claim: &ClaimKeyAndUid) -> Result<(), Status> {
        let target = RESOURCE_CLAIMS.at(&claim.namespace, &claim.name);
        for attempt in 1..=MAX_TRIES {
            let known = match self.bounded(self.client.get(target)).await {
                Ok(known) if known.uid() == &*claim.uid => parse(&known),
                Ok(_) => return Ok(()),
                Err(status) if status.code == 404 => return Ok(()),
                Err(status) => return Err(status),
            };
            let finalizers = || known.finalizers.iter().filter(|f| f.as_str() != Some(FINALIZER)).cloned();
            if finalizers().count() == known.finalizers.len() {
                break;
            }
            let mut patch = on_version(&claim.uid, known.revision);
            patch.map_at(&["metadata"]).set("finalizers", finalizers().collect::<Vec<_>>());
            let patch = self.client.patch(target, Patch::Merge(patch), WriteOptions::default());
            match self.bounded(patch).await {
                Ok(_) => break,
                Err(status) if status.code == 409 && attempt < MAX_TRIES => {}
                Err(status) => return gone_is_fine(Err(status)),
            }
        }
        let options =
            DeleteOptions { preconditions: Preconditions::uid(&*claim.uid), ..DeleteOptions::default() };
        gone_is_fine(self.bounded(self.client.delete(target, options)).await)
    }
}

fn parse(claim: &Obj) -> Arc<ResourceClaim> {
    Arc::new(ResourceClaim::parse(&runtime::tree(claim)))
}

fn on_version(uid: &str, revision: u64) -> Value {
    let mut patch = Value::map();
    let metadata = patch.map_at(&["metadata"]);
    metadata.set("uid", uid.to_owned());
    metadata.set("resourceVersion", revision.to_string());
    patch
}

fn consumer(pod: &Pod) -> Value {
    let mut consumer = Map::default();
    consumer.set("resource", "pods");
    consumer.set("name", pod.name.to_string());
    consumer.set("uid", pod.uid.to_string());
    Value::Map(consumer)
}

fn extended_claim(pod: &Pod, spec: Value) -> Value {
    let mut owner = Map::default();
    owner.set("apiVersion", "v1");
    owner.set("kind", "Pod");
    owner.set("name", pod.name.to_string());
    owner.set("uid", pod.uid.to_string());
    owner.set("controller", true);
    let mut claim = Value::map();
    let metadata = claim.map_at(&["metadata"]);
    metadata.set("generateName", format!("{}-extended-resources-", pod.name));
    metadata.set("namespace", pod.namespace().to_string());
    metadata.set("ownerReferences", vec![Value::Map(owner)]);
    claim.map_at(&["metadata", "annotations"]).set(EXTENDED_ANNOTATION, "true");
    claim.make_map().set("spec", spec);
    claim
}
