//! Before a pod is bound its volumes are: claims get the volumes that were chosen, or have theirs made for the node.

use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use client::{Patch, WriteOptions};
use object::{Map, Status, Value};

use super::ApiCalls;
use crate::pod::Pod;
use crate::storage::{BOUND_BY_CONTROLLER, Claim, ClaimRef, SELECTED_NODE, Volume, VolumeBindings};

impl ApiCalls {
    /// Writes what is to be, each on the version that was decided on, and notes the revisions it got.
    /// The volume controller does the rest, or takes it back.
    pub async fn bind_volumes(
        &self,
        pod: &Pod,
        node: &str,
        volumes: &VolumeBindings,
        written: &mut Vec<u64>,
    ) -> Result<(), Status> {
        self.nominate(pod, node).await;
        for (volume, claim) in &volumes.bind {
            let target = PERSISTENT_VOLUMES.at("", &volume.name);
            let patch = Patch::Merge(bind(volume, claim));
            let answer = self.bounded(self.client.patch(target, patch, WriteOptions::default())).await?;
            written.push(answer.revision().0);
        }
        for claim in &volumes.provision {
            let target = PERSISTENT_VOLUME_CLAIMS.at(&claim.namespace, &claim.name);
            let patch = Patch::Merge(provision(claim, node));
            let answer = self.bounded(self.client.patch(target, patch, WriteOptions::default())).await?;
            written.push(answer.revision().0);
        }
        Ok(())
    }
}

fn bind(volume: &Volume, claim: &Claim) -> Value {
    let ClaimRef { namespace, name, uid } = ClaimRef::of(claim);
    let mut reference = Map::default();
    reference.set("apiVersion", "v1");
    reference.set("kind", "PersistentVolumeClaim");
    reference.set("namespace", namespace.to_string());
    reference.set("name", name.to_string());
    reference.set("uid", uid.to_string());
    reference.set("resourceVersion", claim.revision.to_string());
    let mut patch = metadata(volume.revision);
    let meant = volume.claim.as_ref();
    if meant != Some(&ClaimRef::of(claim)) {
        patch.map_at(&["spec"]).set("claimRef", Value::Map(reference));
    }
    // Without it the volume was meant for the claim by whoever made it, and stays the claim's.
    if !meant.is_some_and(|meant| meant.means(claim)) && !volume.bound_by_controller {
        patch.map_at(&["metadata", "annotations"]).set(BOUND_BY_CONTROLLER, "yes");
    }
    patch
}

fn provision(claim: &Claim, node: &str) -> Value {
    let mut patch = metadata(claim.revision);
    patch.map_at(&["metadata", "annotations"]).set(SELECTED_NODE, node.to_owned());
    patch
}

fn metadata(revision: u64) -> Value {
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("resourceVersion", revision.to_string());
    patch
}
