//! The bodies of the writes: what is to change of an object, or nothing.

use kinds::persistentvolume::view::{PRE_RESIZE_CAPACITY, PROVISIONED_BY, VolumePhase, VolumeView};
use kinds::persistentvolumeclaim::view::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, ClaimPhase, MIGRATED_TO, OLD_PROVISIONER, PROVISIONER, annotation,
    quantity,
};
use object::quantity::Quantity;
use object::{Map, Value};

use super::class::{is_built_in, migrated_to};
use super::plan::ClaimId;

/// Added by provisioners outside of this program.
const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";
/// Keeps a volume of a built-in provisioner until its data is deleted.
pub const BUILT_IN_FINALIZER: &str = "kubernetes.io/pv-controller";

/// The volume with the claim's name on it.
pub fn bind_volume(mut volume: Value, id: ClaimId<'_>, claim: &Value) -> Option<Value> {
    let reference = VolumeView::read(&volume).claim;
    let is_for = reference.as_ref().is_some_and(|claim| claim.is_for(id.namespace, id.name, id.uid));
    let mut changed = false;
    if !(is_for && reference.is_some_and(|claim| *claim.uid == *id.uid)) {
        let mut reference = Map::default();
        reference.set("kind", "PersistentVolumeClaim");
        reference.set("namespace", id.namespace);
        reference.set("name", id.name);
        reference.set("uid", id.uid);
        reference.set("apiVersion", "v1");
        let version = claim.str_at(&["metadata", "resourceVersion"]).unwrap_or_default();
        reference.set("resourceVersion", version);
        volume.map_at(&["spec"]).set("claimRef", reference);
        changed = true;
    }
    if !is_for && annotation(&volume, BOUND_BY_CONTROLLER).is_none() {
        annotate(&mut volume, BOUND_BY_CONTROLLER, "yes");
        changed = true;
    }
    changed.then_some(volume)
}

/// The claim with the volume's name on it.
pub fn bind_claim(mut claim: Value, volume: &str) -> Option<Value> {
    let mut changed = false;
    if claim.str_at(&["spec", "volumeName"]) != Some(volume) {
        claim.map_at(&["spec"]).set("volumeName", volume);
        if annotation(&claim, BOUND_BY_CONTROLLER).is_none() {
            annotate(&mut claim, BOUND_BY_CONTROLLER, "yes");
        }
        changed = true;
    }
    if annotation(&claim, BIND_COMPLETED).is_none() {
        annotate(&mut claim, BIND_COMPLETED, "yes");
        changed = true;
    }
    changed.then_some(claim)
}

/// The volume as it was before: without the claim, or, where a user named it, without the claim's uid.
pub fn unbind(mut volume: Value) -> Value {
    if annotation(&volume, BOUND_BY_CONTROLLER).is_some() {
        volume.map_at(&["spec"]).remove("claimRef");
        volume.map_at(&["metadata", "annotations"]).remove(BOUND_BY_CONTROLLER);
    } else {
        volume.map_at(&["spec", "claimRef"]).remove("uid");
    }
    volume
}

pub fn volume_phase(mut volume: Value, phase: VolumePhase, message: &str) -> Option<Value> {
    if volume.str_at(&["status", "phase"]) == Some(phase.as_str()) {
        return None;
    }
    let status = volume.map_at(&["status"]);
    status.set("phase", phase.as_str());
    status.set("message", message);
    Some(volume)
}

/// The status of a claim that has this volume, or none. `Err`: the volume does not say how large it is.
pub fn claim_status(
    mut claim: Value,
    phase: ClaimPhase,
    volume: Option<&Value>,
) -> Result<Option<Value>, String> {
    let before = claim.get("status").cloned().unwrap_or_else(Value::map);
    let said = before.str_at(&["phase"]);
    let enters = said != Some(phase.as_str());
    let status = claim.map_at(&["status"]);
    status.set("phase", phase.as_str());
    let Some(volume) = volume else {
        for field in ["accessModes", "capacity", "currentVolumeAttributesClassName"] {
            status.remove(field);
        }
        return Ok((claim.get("status") != Some(&before)).then_some(claim));
    };
    match volume.at(&["spec", "accessModes"]) {
        Some(modes) => status.set("accessModes", modes.clone()),
        None => drop(status.remove("accessModes")),
    }
    // Only when it becomes bound: later a difference says that the file system is not as large as the volume.
    if enters {
        let Some(capacity) = volume.at(&["spec", "capacity"]).filter(|c| c.get("storage").is_some()) else {
            let name = volume.str_at(&["metadata", "name"]).unwrap_or_default();
            return Err(format!("PersistentVolume \"{name}\" is without a storage capacity"));
        };
        if let Some(size) = annotation(volume, PRE_RESIZE_CAPACITY) {
            let size = if Quantity::parse(size).is_ok() { Some(size) } else { capacity.str_at(&["storage"]) };
            let mut all = before.get("capacity").and_then(Value::as_map).cloned().unwrap_or_default();
            all.set("storage", size.unwrap_or_default());
            status.set("capacity", all);
        } else if before.at(&["capacity", "storage"]).is_none()
            || quantity(&before, &["capacity", "storage"])
                != quantity(volume, &["spec", "capacity", "storage"])
        {
            status.set("capacity", capacity.clone());
        }
    }
    if said == Some("Pending") && phase == ClaimPhase::Bound {
        const CURRENT: &str = "currentVolumeAttributesClassName";
        match volume.at(&["spec", "volumeAttributesClassName"]) {
            Some(class) => status.set(CURRENT, class.clone()),
            None => drop(status.remove(CURRENT)),
        }
    }
    Ok((claim.get("status") != Some(&before)).then_some(claim))
}

/// The claim in the default class.
pub fn with_class(mut claim: Value, class: &str) -> Value {
    claim.map_at(&["spec"]).set("storageClassName", class);
    claim
}

/// The claim with the name of who is to make its volume.
pub fn with_provisioner(mut claim: Value, provisioner: &str) -> Option<Value> {
    if annotation(&claim, PROVISIONER) == Some(provisioner) {
        return None;
    }
    annotate(&mut claim, OLD_PROVISIONER, provisioner);
    annotate(&mut claim, PROVISIONER, provisioner);
    Some(migrate(claim.clone(), provisioner).unwrap_or(claim))
}

/// A claim whose provisioner was replaced by a driver says so; any other does not.
pub fn migrated_claim(claim: Value) -> Option<Value> {
    let said = annotation(&claim, PROVISIONER).or_else(|| annotation(&claim, OLD_PROVISIONER));
    let provisioner = said?.to_owned();
    migrate(claim, &provisioner)
}

/// The same of a volume, and the finalizers that go with who deletes it.
pub fn migrated_volume(volume: Value) -> Option<Value> {
    let provisioner = annotation(&volume, PROVISIONED_BY)?.to_owned();
    let finalizers = finalizers_of(&volume, &provisioner);
    let migrated = migrate(volume.clone(), &provisioner);
    if finalizers.is_none() && migrated.is_none() {
        return None;
    }
    let mut volume = migrated.unwrap_or(volume);
    if let Some(finalizers) = finalizers {
        volume.map_at(&["metadata"]).set("finalizers", finalizers);
    }
    Some(volume)
}

fn migrate(mut object: Value, provisioner: &str) -> Option<Value> {
    let said = annotation(&object, MIGRATED_TO).unwrap_or_default();
    let wanted = migrated_to(provisioner).unwrap_or_default();
    if said == wanted {
        return None;
    }
    if wanted.is_empty() {
        object.map_at(&["metadata", "annotations"]).remove(MIGRATED_TO);
    } else {
        annotate(&mut object, MIGRATED_TO, wanted);
    }
    Some(object)
}

/// `None`: they are right.
fn finalizers_of(volume: &Value, provisioner: &str) -> Option<Vec<Value>> {
    let there = volume.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap_or_default();
    let mut wanted: Vec<Value> = there.to_vec();
    let remove = |wanted: &mut Vec<Value>, name: &str| wanted.retain(|there| there.as_str() != Some(name));
    if migrated_to(provisioner).is_some() {
        remove(&mut wanted, BUILT_IN_FINALIZER);
    } else if is_built_in(provisioner) {
        remove(&mut wanted, EXTERNAL_FINALIZER);
        match volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) {
            Some("Delete") if !wanted.iter().any(|there| there.as_str() == Some(BUILT_IN_FINALIZER)) => {
                wanted.push(BUILT_IN_FINALIZER.into());
            }
            Some("Retain" | "Recycle") => remove(&mut wanted, BUILT_IN_FINALIZER),
            _ => {}
        }
    }
    (wanted != there).then_some(wanted)
}

fn annotate(object: &mut Value, name: &'static str, value: &str) {
    object.map_at(&["metadata", "annotations"]).set(name, value);
}
