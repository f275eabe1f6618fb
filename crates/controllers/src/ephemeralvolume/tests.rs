//! Claims made from a pod's templates.

use object::Value;

use super::plan::{Plan, plan};

fn pod() -> Value {
    let text = "{metadata: {name: p, namespace: default, uid: u1}, spec: {volumes: [{name: a, emptyDir: {}}, \
        {name: scratch, ephemeral: {volumeClaimTemplate: {metadata: {labels: {x: y}, annotations: {n: m}}, \
        spec: {accessModes: [ReadWriteOnce]}}}}]}}";
    codec::yaml::parse(text.as_bytes()).unwrap()
}

#[test]
fn a_claim_is_the_pods_own_and_as_the_template_says() {
    let planned = plan(&pod(), "u1", &|_| None);
    let [(volume, Plan::Create { claim, body })] = &planned[..] else { panic!("{planned:?}") };
    assert_eq!((volume.as_str(), claim.as_str()), ("scratch", "p-scratch"));
    let expected = "{metadata: {name: p-scratch, namespace: default, ownerReferences: [{apiVersion: v1, kind: Pod, name: p, \
        uid: u1, controller: true, blockOwnerDeletion: true}], annotations: {n: m}, labels: {x: y}}, \
        spec: {accessModes: [ReadWriteOnce]}}";
    assert_eq!(*body, codec::yaml::parse(expected.as_bytes()).unwrap());
}

#[test]
fn a_claim_of_that_name_must_be_the_pods() {
    assert_eq!(plan(&pod(), "u1", &|_| Some(Some("u1".to_owned()))), []);
    for owner in [None, Some("u2".to_owned())] {
        let planned = plan(&pod(), "u1", &|_| Some(owner.clone()));
        let why = "PVC default/p-scratch was not created for pod default/p (pod is not owner)";
        assert_eq!(planned, [("scratch".to_owned(), Plan::Foreign(why.to_owned()))]);
    }
}
