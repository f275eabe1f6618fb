//! Which volume a claim gets, what becomes of either half, and what is written.

mod changes;
mod found;

use std::sync::Arc;

use catalog::Catalog;
use kinds::persistentvolume::view::{VolumePhase, VolumeView};
use kinds::persistentvolumeclaim::view::ClaimView;
use object::{Obj, Revision, Value};

use super::class::{Class, Provisioner, Reclaim, default_class, reclaim};
use super::plan::{
    ClaimId, ForClaim, ForVolume, Volume, awaited, bound, named_volume, volume, without_volume,
};

pub fn parse(text: &str) -> Value {
    codec::yaml::parse(text.as_bytes()).unwrap()
}

/// A volume with this spec and phase.
pub fn volume_tree(name: &str, spec: &str, phase: &str) -> Value {
    parse(&format!(
        "{{metadata: {{name: {name}, uid: u-{name}}}, spec: {{capacity: {{storage: 1Gi}}, accessModes: [ReadWriteOnce], \
         volumeMode: Filesystem, persistentVolumeReclaimPolicy: Retain, {spec}}}, status: {{phase: {phase}}}}}"
    ))
}

pub fn claim_tree(spec: &str, annotations: &str) -> Value {
    parse(&format!(
        "{{metadata: {{name: c, namespace: default, uid: u1, resourceVersion: '7', annotations: {{{annotations}}}}}, \
         spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}, {spec}}}, status: {{phase: Pending}}}}"
    ))
}

pub fn object(plural: &str, tree: &Value, revision: u64) -> Arc<Obj> {
    let catalog = Catalog::builtin();
    let storage = catalog.find_storage("", plural).unwrap();
    let text = |name: &str| tree.str_at(&["metadata", name]).unwrap_or_default();
    let key = storage.key(text("namespace"), text("name"));
    let obj = Obj::unpublished(storage, &key, &codec::json::to_vec(tree)).unwrap();
    Arc::new(obj.at_revision(storage, Revision(revision)))
}

pub const ID: ClaimId<'static> = ClaimId { namespace: "default", name: "c", uid: "u1" };

fn seen<'a>(name: &'a str, view: &'a VolumeView) -> Volume<'a> {
    Volume { name, view, deleting: false }
}

fn class(provisioner: &str, more: &str) -> Class {
    Class::read(&parse(&format!("{{provisioner: {provisioner}, {more}}}")))
}

#[test]
fn a_claim_without_a_volume_waits_gets_a_class_or_a_provisioner() {
    let plain = ClaimView::read(&claim_tree("", ""));
    let none = "no persistent volumes available for this claim and no storage class is set";
    let pending = ForClaim::Pending { warning: false, told: Some(("FailedBinding", none.to_owned())) };
    assert_eq!(without_volume(&plain, None, None), pending);
    assert_eq!(
        without_volume(&plain, None, Some("fast".to_owned())),
        ForClaim::AssignClass("fast".to_owned())
    );
    let no_class = ClaimView::read(&claim_tree("storageClassName: ''", ""));
    assert_eq!(without_volume(&no_class, None, Some("fast".to_owned())), pending, "none was chosen");

    let fast = ClaimView::read(&claim_tree("storageClassName: fast", ""));
    let provision = |claim: &ClaimView, class: Option<&Class>| match without_volume(claim, class, None) {
        ForClaim::Provision(provisioner) => provisioner,
        other => panic!("{other:?}"),
    };
    let missing = Provisioner::None { why: "storageclass.storage.k8s.io \"fast\" not found".to_owned() };
    assert_eq!(provision(&fast, None), missing);
    let external = class("example.com/disks", "");
    assert_eq!(provision(&fast, Some(&external)), Provisioner::External("example.com/disks".to_owned()));
    let driver = Provisioner::External("ebs.csi.aws.com".to_owned());
    assert_eq!(provision(&fast, Some(&class("kubernetes.io/aws-ebs", ""))), driver);
    let nobody =
        Provisioner::None { why: "no volume plugin matched name: kubernetes.io/no-provisioner".to_owned() };
    assert_eq!(provision(&fast, Some(&class("kubernetes.io/no-provisioner", ""))), nobody);

    let delayed = class("example.com/disks", "volumeBindingMode: WaitForFirstConsumer");
    assert_eq!(without_volume(&fast, Some(&delayed), None), ForClaim::AwaitConsumer);
    let placed = claim_tree("storageClassName: fast", "volume.kubernetes.io/selected-node: n1");
    let placed = ClaimView::read(&placed);
    assert_eq!(provision(&placed, Some(&delayed)), Provisioner::External("example.com/disks".to_owned()));
}

#[test]
fn people_are_told_whom_a_claim_waits_for() {
    let pods = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (waiting, reason, message) in [
        (&[][..], "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        (&["a"], "WaitForPodScheduled", "waiting for pod a to be scheduled"),
        (&["a", "b"], "WaitForPodScheduled", "waiting for pods a,b to be scheduled"),
    ] {
        assert_eq!(awaited(&pods(waiting)), (reason, message.to_owned()));
    }
}

#[test]
fn a_named_volume_must_fit() {
    for (of_claim, of_volume, why) in [
        ("", "", None),
        ("", "capacity: {storage: 512Mi}", Some("requested PV is too small")),
        ("storageClassName: a", "storageClassName: b", Some("storageClassName does not match")),
        ("volumeAttributesClassName: gold", "", Some("volumeAttributesClassName does not match")),
        ("volumeMode: Block", "", Some("incompatible volumeMode")),
        ("", "accessModes: [ReadOnlyMany]", Some("incompatible accessMode")),
    ] {
        let claim = ClaimView::read(&claim_tree(&format!("volumeName: v, {of_claim}"), ""));
        let volume = VolumeView::read(&volume_tree("v", of_volume, "Available"));
        let expected = match why {
            None => ForClaim::Bind,
            Some(why) => ForClaim::Pending {
                warning: true,
                told: Some(("VolumeMismatch", format!("Cannot bind to requested volume \"v\": {why}"))),
            },
        };
        assert_eq!(named_volume(ID, &claim, Some(seen("v", &volume))), expected, "{of_claim} {of_volume}");
    }
    let claim = ClaimView::read(&claim_tree("volumeName: v", ""));
    assert_eq!(named_volume(ID, &claim, None), ForClaim::Pending { warning: false, told: None });
    let reserved =
        VolumeView::read(&volume_tree("v", "claimRef: {namespace: default, name: c}", "Available"));
    assert_eq!(named_volume(ID, &claim, Some(seen("v", &reserved))), ForClaim::Bind);
    let taken =
        VolumeView::read(&volume_tree("v", "claimRef: {namespace: default, name: d, uid: x}", "Bound"));
    let told = ("FailedBinding", "volume \"v\" already bound to a different claim.".to_owned());
    assert_eq!(
        named_volume(ID, &claim, Some(seen("v", &taken))),
        ForClaim::Pending { warning: true, told: Some(told.clone()) }
    );
    let ours = ClaimView::read(&claim_tree("volumeName: v", "pv.kubernetes.io/bound-by-controller: 'yes'"));
    let why =
        "invalid binding of claim \"default/c\" to volume \"v\": volume already claimed by \"default/d\"";
    let broken = ForClaim::Broken { told, why: why.to_owned() };
    assert_eq!(named_volume(ID, &ours, Some(seen("v", &taken))), broken);
}

#[test]
fn a_bound_claim_without_its_volume_is_lost() {
    let claim = |spec: &str| ClaimView::read(&claim_tree(spec, "pv.kubernetes.io/bind-completed: 'yes'"));
    let reason = |planned: ForClaim| match planned {
        ForClaim::Lost((reason, _)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(bound(ID, &claim(""), None)), "ClaimLost");
    assert_eq!(reason(bound(ID, &claim("volumeName: v"), None)), "ClaimLost");
    let of = |spec: &str| VolumeView::read(&volume_tree("v", spec, "Bound"));
    let other = of("claimRef: {namespace: default, name: c, uid: another}");
    assert_eq!(reason(bound(ID, &claim("volumeName: v"), Some(seen("v", &other)))), "ClaimMisbound");
    for volume in [of(""), of("claimRef: {namespace: default, name: c, uid: u1}")] {
        assert_eq!(bound(ID, &claim("volumeName: v"), Some(seen("v", &volume))), ForClaim::Bind);
    }
}

#[test]
fn a_volume_follows_its_claim() {
    let of = |spec: &str| VolumeView::read(&volume_tree("v", spec, "Bound"));
    let reference = "claimRef: {namespace: default, name: c, uid: u1}";
    let claim = |spec: &str| ClaimView::read(&claim_tree(spec, ""));
    let available = ForVolume::Phase(VolumePhase::Available);
    assert_eq!(volume("v", &of(""), None), available);
    assert_eq!(volume("v", &of("claimRef: {namespace: default, name: c}"), None), available);
    assert_eq!(volume("v", &of(reference), None), ForVolume::Release);
    assert_eq!(volume("v", &of(reference), Some(&claim(""))), ForVolume::WakeClaim);
    let bound = ForVolume::Phase(VolumePhase::Bound);
    assert_eq!(volume("v", &of(reference), Some(&claim("volumeName: v"))), bound);
    let elsewhere = claim("volumeName: w");
    assert_eq!(volume("v", &of(reference), Some(&elsewhere)), ForVolume::Unbind);
    let mut made = of(&format!("{reference}, persistentVolumeReclaimPolicy: Delete"));
    assert_eq!(volume("v", &made, Some(&elsewhere)), ForVolume::Unbind, "a user made it");
    made.provisioned_by = Some("example.com/disks".into());
    assert_eq!(volume("v", &made, Some(&elsewhere)), ForVolume::Release);
    let ForVolume::Mismatch { volume: of_volume, claim: of_claim } =
        volume("v", &of(reference), Some(&claim("volumeMode: Block")))
    else {
        panic!("another mode")
    };
    let end = "due to incompatible volumeMode.";
    assert_eq!(
        of_volume,
        format!("Cannot bind PersistentVolume to requested PersistentVolumeClaim \"c\" {end}")
    );
    assert_eq!(
        of_claim,
        format!("Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim {end}")
    );
}

#[test]
fn the_reclaim_policy_says_what_becomes_of_a_released_volume() {
    let of = |policy: &str, source: &str, by: Option<&str>| {
        let tree =
            volume_tree("v", &format!("persistentVolumeReclaimPolicy: {policy}, {source}"), "Released");
        let mut view = VolumeView::read(&tree);
        view.provisioned_by = by.map(Box::from);
        reclaim("v", &view)
    };
    let fails = |why: &str| Reclaim::Fail { reason: "VolumeFailedDelete", why: why.to_owned() };
    assert_eq!(of("Retain", "hostPath: {path: /tmp/v}", None), Reclaim::Leave);
    assert_eq!(of("Recycle", "hostPath: {path: /tmp/v}", None), Reclaim::Recycle);
    assert_eq!(of("Delete", "hostPath: {path: /tmp/v}", None), Reclaim::Delete);
    let outside = "host_path deleter only supports /tmp/.+ but received provided /data";
    assert_eq!(of("Delete", "hostPath: {path: /data}", None), fails(outside));
    let none = "error getting deleter volume plugin for volume \"v\": no";
    let local = fails(&format!("{none} volume plugin matched"));
    assert_eq!(of("Delete", "local: {path: /data}", None), local);
    let nfs = fails(&format!("{none} deletable volume plugin matched"));
    assert_eq!(of("Delete", "nfs: {server: a, path: /}", None), nfs);
    assert_eq!(of("Delete", "csi: {driver: d}", None), Reclaim::Leave);
    assert_eq!(of("Delete", "local: {path: /data}", Some("example.com/x")), Reclaim::Leave);
    let unknown = fails("no volume plugin matched name: kubernetes.io/x");
    assert_eq!(of("Delete", "local: {path: /data}", Some("kubernetes.io/x")), unknown);
    assert!(matches!(of("Later", "", None), Reclaim::Fail { reason: "VolumeUnknownReclaimPolicy", .. }));
}

#[test]
fn the_newest_default_class_counts() {
    let marked = |created: &str, mark: &str| {
        let text = format!(
            "{{provisioner: p, metadata: {{creationTimestamp: '{created}', annotations: {{storageclass.kubernetes.io/is-default-class: '{mark}'}}}}}}"
        );
        Class::read(&parse(&text))
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let classes = [
        ("a", marked(old, "true")),
        ("b", marked(new, "true")),
        ("c", marked(new, "true")),
        ("d", marked("2027", "false")),
    ];
    assert_eq!(default_class(classes.into_iter()).as_deref(), Some("b"));
    assert_eq!(default_class([("d", marked(new, ""))].into_iter()), None);
}
