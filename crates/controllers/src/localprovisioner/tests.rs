//! Volumes that are made, and claims that are refused.

use kinds::persistentvolume::view::VolumeView;
use kinds::persistentvolumeclaim::view::ClaimView;
use object::Value;

use super::plan::{ForClaim, NotProvisioned, awaits, is_released, provision, storage_class, without_node};

fn parse(text: &str) -> Value {
    codec::yaml::parse(text.as_bytes()).unwrap()
}

fn claim(spec: &str, annotations: &str) -> Value {
    parse(&format!(
        "{{metadata: {{name: c, namespace: default, uid: u1, resourceVersion: '7', annotations: {{volume.kubernetes.io/storage-provisioner: \
         setpoint.dev/local, {annotations}}}}}, spec: {{accessModes: [ReadWriteOnce], storageClassName: local, \
         resources: {{requests: {{storage: 1Gi}}}}, {spec}}}}}"
    ))
}

const ON_NODE: &str = "volume.kubernetes.io/selected-node: n1";

fn planned(claim: &Value, class: &Value, node: Option<&str>) -> ForClaim {
    let node = node.map(parse);
    provision(claim, &ClaimView::read(claim), Some(class), node.as_ref())
}

#[test]
fn a_volume_is_a_directory_on_the_selected_node() {
    let node = "{metadata: {name: n1, labels: {kubernetes.io/hostname: host-1}}}";
    let claim = claim("", ON_NODE);
    assert!(awaits(&ClaimView::read(&claim)));
    let ForClaim::Create(volume) = planned(&claim, &storage_class(), Some(node)) else { panic!("no volume") };
    let expected = "{metadata: {name: pvc-u1, annotations: {pv.kubernetes.io/provisioned-by: setpoint.dev/local}}, spec: {claimRef: \
        {kind: PersistentVolumeClaim, apiVersion: v1, namespace: default, name: c, uid: u1, resourceVersion: '7'}, hostPath: \
        {path: /var/lib/setpoint/volumes/pvc-u1, type: DirectoryOrCreate}, storageClassName: local, volumeMode: Filesystem, \
        persistentVolumeReclaimPolicy: Delete, accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, nodeAffinity: {required: \
        {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [host-1]}]}]}}}}";
    assert_eq!(volume, parse(expected));
    let ForClaim::Create(volume) = planned(&claim, &storage_class(), Some("{metadata: {name: n1}}")) else {
        panic!("no volume")
    };
    let terms = volume.at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).unwrap();
    assert_eq!(
        *terms,
        parse("[{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]}]")
    );
}

#[test]
fn what_a_directory_cannot_be_is_refused() {
    let node = Some("{metadata: {name: n1}}");
    for (spec, why) in [
        ("volumeMode: Block", "only volumeMode Filesystem is supported"),
        (
            "accessModes: [ReadWriteMany]",
            "only the access modes ReadWriteOnce and ReadWriteOncePod are supported",
        ),
        ("dataSource: {kind: VolumeSnapshot, name: s}", "data sources are not supported"),
    ] {
        let refused = ForClaim::Refuse(NotProvisioned { why: why.to_owned(), try_elsewhere: false });
        assert_eq!(planned(&claim(spec, ON_NODE), &storage_class(), node), refused);
    }
    let why = "failed to get target node: node \"n1\" not found".to_owned();
    let gone = ForClaim::Refuse(NotProvisioned { why, try_elsewhere: true });
    assert_eq!(planned(&claim("", ON_NODE), &storage_class(), None), gone);
    let free = without_node(claim("", ON_NODE));
    assert_eq!(planned(&free, &storage_class(), None), ForClaim::Nothing, "the scheduler has not chosen yet");
    let mut at_once = storage_class();
    at_once.make_map().set("volumeBindingMode", "Immediate");
    assert!(matches!(planned(&free, &at_once, None), ForClaim::Refuse(_)), "nobody will choose");
    let mut other = storage_class();
    other.make_map().set("provisioner", "example.com/other");
    assert_eq!(planned(&claim("", ON_NODE), &other, node), ForClaim::Nothing);
}

#[test]
fn its_own_volumes_go_when_they_are_released() {
    let of = |by: &str, policy: &str, phase: &str| {
        is_released(&VolumeView::read(&parse(&format!(
            "{{metadata: {{annotations: {{pv.kubernetes.io/provisioned-by: {by}}}}}, spec: {{persistentVolumeReclaimPolicy: {policy}}}, \
             status: {{phase: {phase}}}}}"
        ))))
    };
    assert!(of("setpoint.dev/local", "Delete", "Released"));
    assert!(!of("setpoint.dev/local", "Retain", "Released"));
    assert!(!of("setpoint.dev/local", "Delete", "Bound"));
    assert!(!of("example.com/other", "Delete", "Released"));
}
