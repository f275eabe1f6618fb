//! Whom an owner takes, and whom it lets go.

use std::sync::Arc;

use client::resources::{PODS, REPLICA_SETS};
use object::{About, Status};

use super::*;
use crate::testing::{Scripted, object_of};

fn set(extra: &str) -> Arc<Obj> {
    object_of(&REPLICA_SETS, "ReplicaSet", "apps/v1", "web", "rs-uid", 5, extra)
}
fn pod(name: &str, extra: &str) -> Arc<Obj> {
    object_of(&PODS, "Pod", "v1", name, &format!("uid-{name}"), 6, extra)
}
fn owned_by(uid: &str) -> String {
    format!(
        ",\"ownerReferences\":[{{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"web\",\"uid\":\"{uid}\",\
         \"controller\":true}}]"
    )
}
const DELETING: &str = ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"";

fn claimant(owner: &Obj) -> Claimant<'_> {
    Claimant { resource: &REPLICA_SETS, api_version: "apps/v1", kind: "ReplicaSet", owner, finalizer: None }
}

#[test]
fn verdicts_are_upstreams() {
    use Verdict::{Adopt, NotOurs, Ours, Release};
    let (live, going) = (set(""), set(DELETING));
    let (mine, other) = (owned_by("rs-uid"), owned_by("other"));
    let cases = [
        (&live, pod("p", &mine), true, Ours),
        (&live, pod("p", &mine), false, Release),
        (&live, pod("p", &other), true, NotOurs),
        (&live, pod("p", ""), true, Adopt),
        (&live, pod("p", ""), false, NotOurs),
        (&live, pod("p", DELETING), true, NotOurs),
        // An owner that is going keeps what it has, takes nothing, and releases nothing.
        (&going, pod("p", &mine), true, Ours),
        (&going, pod("p", &mine), false, NotOurs),
        (&going, pod("p", ""), true, NotOurs),
        (&live, pod("p", &format!("{mine}{DELETING}")), true, Ours),
    ];
    for (n, (owner, candidate, matches, wanted)) in cases.into_iter().enumerate() {
        assert_eq!(verdict(owner, &candidate, matches), wanted, "case {n}");
    }
}

#[tokio::test]
async fn adoption_reads_the_owner_once_and_patches_with_the_uid() {
    let owner = set("");
    let client = Scripted::new(vec![]);
    client.answers.lock().extend([Ok(owner.clone()), Ok(pod("a", "")), Ok(pod("b", ""))]);
    let candidates = [pod("a", ""), pod("kept", &owned_by("rs-uid")), pod("b", "")];
    let ours = claim(&*client, &claimant(&owner), &PODS, candidates, |_| true).await;
    let names: Vec<String> = ours.unwrap().iter().map(|p| p.name().to_owned()).collect();
    assert_eq!(names, ["a", "kept", "b"]);
    assert_eq!(client.log(), ["get replicasets/web", "patch pods/a", "patch pods/b"]);
    let patch = client.sent.lock()[0].clone();
    assert_eq!(patch.str_at(&["metadata", "uid"]), Some("uid-a"));
    let reference = &patch.at(&["metadata", "ownerReferences"]).unwrap().as_list().unwrap()[0];
    assert_eq!(reference.str_at(&["uid"]), Some("rs-uid"));
    assert_eq!(reference.get("controller").and_then(Value::as_bool), Some(true));
}

#[tokio::test]
async fn a_deleted_owner_adopts_nothing() {
    let owner = set("");
    let another = object_of(&REPLICA_SETS, "ReplicaSet", "apps/v1", "web", "new-uid", 9, "");
    for (fresh, why) in [
        (
            set(DELETING),
            "can't adopt Pod default/a (uid-a): default/web has just been deleted at 2026-01-01T00:00:00Z",
        ),
        (
            another,
            "can't adopt Pod default/a (uid-a): can't recheck DeletionTimestamp: original ReplicaSet default/web is gone: got uid new-uid, wanted rs-uid",
        ),
    ] {
        let client = Scripted::new(vec![]);
        client.answers.lock().push_back(Ok(fresh));
        let ours = claim(&*client, &claimant(&owner), &PODS, [pod("a", ""), pod("b", "")], |_| true).await;
        assert_eq!(ours.err().unwrap().message, why);
        assert_eq!(client.log(), ["get replicasets/web"]);
    }
}

#[tokio::test]
async fn a_release_removes_only_this_owner_and_ignores_deleted_objects() {
    let owner = set("");
    let about = About { group: "", resource: "pods" };
    let other = "Precondition failed: UID in precondition: a, UID in object meta: b";
    for answer in [
        Ok(pod("a", "")),
        Err(Status::not_found(about, "a")),
        Err(Status::unprocessable()),
        Err(Status::conflict(about, "a", other)),
    ] {
        let client = Scripted::new(vec![]);
        client.answers.lock().push_back(answer);
        let claimant = Claimant { finalizer: Some("batch.kubernetes.io/job-tracking"), ..claimant(&owner) };
        let ours = claim(&*client, &claimant, &PODS, [pod("a", &owned_by("rs-uid"))], |_| false).await;
        assert!(ours.unwrap().is_empty());
        let patch = codec::json::to_vec(&client.sent.lock()[0]);
        assert_eq!(
            String::from_utf8(patch).unwrap(),
            "{\"metadata\":{\"uid\":\"uid-a\",\"ownerReferences\":[{\"$patch\":\"delete\",\"uid\":\"rs-uid\"}],\
             \"$deleteFromPrimitiveList/finalizers\":[\"batch.kubernetes.io/job-tracking\"]}}"
        );
    }
}

#[tokio::test]
async fn another_object_of_the_name_is_not_adopted() {
    let owner = set("");
    let field = object::FieldError::invalid("metadata.uid", "x", "field is immutable");
    let client = Scripted::new(vec![]);
    let refusal = Status::invalid("", "Pod", "a", vec![field]);
    client.answers.lock().extend([Ok(owner.clone()), Err(refusal)]);
    let ours = claim(&*client, &claimant(&owner), &PODS, [pod("a", "")], |_| true).await;
    assert!(ours.unwrap().is_empty());
}

#[tokio::test]
async fn a_failure_is_returned_after_every_candidate_was_tried() {
    let owner = set("");
    let client = Scripted::new(vec![]);
    let refusal = Status::modified(About { group: "", resource: "pods" }, "a");
    client.answers.lock().extend([Ok(owner.clone()), Err(refusal.clone()), Ok(pod("b", ""))]);
    let ours = claim(&*client, &claimant(&owner), &PODS, [pod("a", ""), pod("b", "")], |_| true).await;
    assert_eq!(ours.err(), Some(refusal));
    assert_eq!(client.log().len(), 3);
}
