//! What is written of either half.

use kinds::persistentvolume::view::VolumePhase;
use kinds::persistentvolumeclaim::view::ClaimPhase;
use object::Value;

use super::{ID, claim_tree, parse, volume_tree};
use crate::persistentvolume::change::{
    bind_claim, bind_volume, claim_status, migrated_claim, migrated_volume, unbind, volume_phase,
    with_provisioner,
};

const BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations"])?.str_at(&[name])
}

#[test]
fn a_volume_and_its_claim_name_each_other_and_say_who_did_it() {
    let claim = claim_tree("", "");
    let volume = bind_volume(volume_tree("v", "", "Available"), ID, &claim).unwrap();
    let expected = "{kind: PersistentVolumeClaim, namespace: default, name: c, uid: u1, apiVersion: v1, resourceVersion: '7'}";
    assert_eq!(volume.at(&["spec", "claimRef"]), Some(&parse(expected)));
    assert_eq!(annotation(&volume, BY_CONTROLLER), Some("yes"));
    assert_eq!(bind_volume(volume, ID, &claim), None, "nothing is missing");
    let reserved = volume_tree("v", "claimRef: {namespace: default, name: c}", "Available");
    let reserved = bind_volume(reserved, ID, &claim).unwrap();
    assert_eq!(reserved.str_at(&["spec", "claimRef", "uid"]), Some("u1"));
    assert_eq!(annotation(&reserved, BY_CONTROLLER), None, "a user did");

    let bound = bind_claim(claim.clone(), "v").unwrap();
    assert_eq!(bound.str_at(&["spec", "volumeName"]), Some("v"));
    assert_eq!(annotation(&bound, BY_CONTROLLER), Some("yes"));
    assert_eq!(annotation(&bound, "pv.kubernetes.io/bind-completed"), Some("yes"));
    assert_eq!(bind_claim(bound, "v"), None);
    let named = bind_claim(claim_tree("volumeName: v", ""), "v").unwrap();
    assert_eq!(annotation(&named, BY_CONTROLLER), None);
}

#[test]
fn a_volume_that_is_let_go_of_is_as_its_user_left_it() {
    let reference = "claimRef: {namespace: default, name: c, uid: u1}";
    let mut ours = volume_tree("v", reference, "Bound");
    ours.map_at(&["metadata", "annotations"]).set(BY_CONTROLLER, "yes");
    assert!(unbind(ours).at(&["spec", "claimRef"]).is_none());
    let reserved = unbind(volume_tree("v", reference, "Bound"));
    assert_eq!(reserved.at(&["spec", "claimRef"]), Some(&parse("{namespace: default, name: c}")));
}

#[test]
fn a_claim_has_the_size_and_modes_of_its_volume_from_when_it_is_bound() {
    let volume = volume_tree("v", "capacity: {storage: 5Gi}, volumeAttributesClassName: gold", "Bound");
    let bound = claim_status(claim_tree("", ""), ClaimPhase::Bound, Some(&volume)).unwrap().unwrap();
    let expected = "{phase: Bound, accessModes: [ReadWriteOnce], capacity: {storage: 5Gi}, currentVolumeAttributesClassName: gold}";
    assert_eq!(bound.get("status"), Some(&parse(expected)));
    assert_eq!(claim_status(bound.clone(), ClaimPhase::Bound, Some(&volume)), Ok(None));
    let grown = volume_tree("v", "capacity: {storage: 6Gi}, volumeAttributesClassName: gold", "Bound");
    assert_eq!(
        claim_status(bound.clone(), ClaimPhase::Bound, Some(&grown)),
        Ok(None),
        "the file system is not"
    );
    let lost = claim_status(bound, ClaimPhase::Lost, None).unwrap().unwrap();
    assert_eq!(lost.get("status"), Some(&parse("{phase: Lost}")));
    assert_eq!(claim_status(claim_tree("", ""), ClaimPhase::Pending, None), Ok(None));

    let mut growing = volume.clone();
    growing.map_at(&["metadata", "annotations"]).set("volume.alpha.kubernetes.io/pre-resize-capacity", "3Gi");
    let bound = claim_status(claim_tree("", ""), ClaimPhase::Bound, Some(&growing)).unwrap().unwrap();
    assert_eq!(bound.str_at(&["status", "capacity", "storage"]), Some("3Gi"));
    let mut sizeless = volume;
    sizeless.map_at(&["spec"]).remove("capacity");
    let why = claim_status(claim_tree("", ""), ClaimPhase::Bound, Some(&sizeless)).unwrap_err();
    assert_eq!(why, "PersistentVolume \"v\" is without a storage capacity");
}

#[test]
fn a_phase_is_written_when_it_changes() {
    assert_eq!(volume_phase(volume_tree("v", "", "Bound"), VolumePhase::Bound, ""), None);
    let failed = volume_phase(volume_tree("v", "", "Bound"), VolumePhase::Failed, "why").unwrap();
    assert_eq!(failed.get("status"), Some(&parse("{phase: Failed, message: why}")));
}

#[test]
fn provisioners_and_their_successors_are_named() {
    let claim = with_provisioner(claim_tree("", ""), "example.com/disks").unwrap();
    for name in ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
    {
        assert_eq!(annotation(&claim, name), Some("example.com/disks"));
    }
    assert_eq!(with_provisioner(claim.clone(), "example.com/disks"), None);
    assert_eq!(migrated_claim(claim), None);
    let old = claim_tree("", "volume.beta.kubernetes.io/storage-provisioner: kubernetes.io/cinder");
    let migrated = migrated_claim(old).unwrap();
    assert_eq!(annotation(&migrated, "pv.kubernetes.io/migrated-to"), Some("cinder.csi.openstack.org"));
    assert_eq!(migrated_claim(migrated), None);

    let volume = |by: &str, policy: &str, finalizers: &str| {
        let mut volume = volume_tree("v", &format!("persistentVolumeReclaimPolicy: {policy}"), "Bound");
        volume.map_at(&["metadata", "annotations"]).set("pv.kubernetes.io/provisioned-by", by);
        volume.map_at(&["metadata"]).set("finalizers", parse(finalizers));
        volume
    };
    let finalizers = |volume: Option<Value>| volume.unwrap().at(&["metadata", "finalizers"]).cloned();
    let built_in = "[kubernetes.io/pv-controller]";
    assert_eq!(finalizers(migrated_volume(volume("kubernetes.io/x", "Delete", "[]"))), Some(parse(built_in)));
    assert_eq!(finalizers(migrated_volume(volume("kubernetes.io/x", "Retain", built_in))), Some(parse("[]")));
    assert_eq!(
        finalizers(migrated_volume(volume("kubernetes.io/gce-pd", "Delete", built_in))),
        Some(parse("[]"))
    );
    assert_eq!(migrated_volume(volume("example.com/disks", "Delete", "[]")), None);
}
