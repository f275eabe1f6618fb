//! Where pods with volumes go, in which words they do not, and what is waited for before they are bound.

use std::time::Duration;

use object::Value;

use crate::testing::{NOW, engine, next, node, pod, rng, tree};
use crate::{Engine, ScheduleResult};

const WAITS: &str = r#""provisioner":"example.com/disk","volumeBindingMode":"WaitForFirstConsumer""#;

fn class(name: &str, members: &str) -> Value {
    tree(&format!(r#"{{"metadata":{{"name":"{name}"}},{members}}}"#))
}

/// A claim of the class `slow` for 1Gi; `spec` and `metadata` are further members.
fn claim(name: &str, spec: &str, metadata: &str) -> Value {
    let more = |part: &str| if part.is_empty() { String::new() } else { format!(",{part}") };
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"1"{}}},
        "spec":{{"storageClassName":"slow","accessModes":["ReadWriteOnce"],
                 "resources":{{"requests":{{"storage":"1Gi"}}}}{}}}}}"#,
        more(metadata),
        more(spec)
    ))
}

fn bound(name: &str, volume: &str) -> Value {
    let done = r#""annotations":{"pv.kubernetes.io/bind-completed":"yes"}"#;
    claim(name, &format!(r#""volumeName":"{volume}""#), done)
}

fn volume(name: &str, size: &str, spec: &str, metadata: &str) -> Value {
    let more = |part: &str| if part.is_empty() { String::new() } else { format!(",{part}") };
    tree(&format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"1"{}}},
        "spec":{{"storageClassName":"slow","accessModes":["ReadWriteOnce"],"capacity":{{"storage":"{size}"}}{}}},
        "status":{{"phase":"Available"}}}}"#,
        more(metadata),
        more(spec)
    ))
}

/// Only for nodes whose label has this value.
fn local_to(key: &str, value: &str) -> String {
    format!(
        r#""nodeAffinity":{{"required":{{"nodeSelectorTerms":[{{"matchExpressions":[
        {{"key":"{key}","operator":"In","values":["{value}"]}}]}}]}}}}"#
    )
}

fn host(name: &str) -> String {
    local_to("kubernetes.io/hostname", name)
}

fn with_claims(name: &str, claims: &[&str]) -> Value {
    let volume = |c: &&str| format!(r#"{{"name":"{c}","persistentVolumeClaim":{{"claimName":"{c}"}}}}"#);
    let volumes: Vec<String> = claims.iter().map(volume).collect();
    pod(name, "", "", &format!(r#""volumes":[{}]"#, volumes.join(",")))
}

fn on(mut pod: Value, node: &str) -> Value {
    pod.map_at(&["spec"]).set("nodeName", node.to_owned());
    pod
}

/// Two nodes in two zones, and a class whose claims wait for pods.
fn two_nodes() -> Engine {
    let zone = |z: &str| format!(r#""topology.kubernetes.io/zone":"{z}""#);
    let mut engine = engine(&[node("n1", &zone("a"), ""), node("n2", &zone("b"), "")]);
    engine.set_storage_class("slow", Some(&class("slow", WAITS)), NOW);
    engine
}

fn set_claims(engine: &mut Engine, claims: &[Value]) {
    for claim in claims {
        let name = claim.str_at(&["metadata", "name"]).expect("named").to_owned();
        engine.set_claim("ns", &name, Some(claim), NOW);
    }
}

fn set_volumes(engine: &mut Engine, volumes: &[Value]) {
    for volume in volumes {
        let name = volume.str_at(&["metadata", "name"]).expect("named").to_owned();
        engine.set_volume(&name, Some(volume), NOW);
    }
}

/// What is said of the nodes, without the part about preemption.
fn why(engine: &mut Engine) -> String {
    let message = next(engine).expect_err("no node fits");
    message.split(" no new claims").next().unwrap_or_default().to_owned()
}

fn tried(mut engine: Engine, pod: &Value) -> Result<String, String> {
    engine.set_pod(pod, NOW);
    let message = |m: String| m.split(" no new claims").next().unwrap_or_default().to_owned();
    next(&mut engine).map_err(message)
}

#[test]
fn a_claim_that_is_missing_lost_deleted_or_unbound_keeps_its_pod_waiting() {
    let said = |claims: &[Value]| {
        let mut engine = two_nodes();
        engine.set_storage_class("now", Some(&class("now", r#""volumeBindingMode":"Immediate""#)), NOW);
        set_claims(&mut engine, claims);
        engine.set_pod(&with_claims("p", &["c"]), NOW);
        next(&mut engine).expect_err("it waits")
    };
    let all = |why: &str| format!("0/2 nodes are available: {why}. not found");
    assert_eq!(said(&[]), all("persistentvolumeclaim \"c\" not found"));
    let mut lost = claim("c", r#""volumeName":"v""#, "");
    lost.map_at(&["status"]).set("phase", "Lost");
    assert_eq!(
        said(&[lost]),
        all("persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"")
    );
    let deleted = claim("c", "", r#""deletionTimestamp":"2026-01-01T00:00:00Z""#);
    assert_eq!(said(&[deleted]), all("persistentvolumeclaim \"c\" is being deleted"));
    let unbound = all("pod has unbound immediate PersistentVolumeClaims");
    assert_eq!(said(&[claim("c", r#""storageClassName":"now""#, "")]), unbound);
    assert_eq!(said(&[claim("c", r#""storageClassName":"no such class""#, "")]), unbound);
    // The volume was chosen by a person, and is not yet the claim's.
    assert_eq!(said(&[claim("c", r#""volumeName":"v""#, "")]), unbound);
    assert_eq!(said(&[bound("c", "v")]), all("persistentvolume \"v\" not found"));
}

#[test]
fn a_bound_volume_decides_by_its_affinity_and_its_zone() {
    let mut engine = two_nodes();
    set_claims(&mut engine, &[bound("c", "v")]);
    set_volumes(&mut engine, &[volume("v", "1Gi", &host("n2"), "")]);
    assert_eq!(tried(engine, &with_claims("p", &["c"])), Ok("n2".to_owned()));

    let mut engine = two_nodes();
    set_claims(&mut engine, &[bound("c", "v")]);
    set_volumes(&mut engine, &[volume("v", "1Gi", &host("n3"), "")]);
    let words = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.";
    assert_eq!(tried(engine, &with_claims("p", &["c"])), Err(words.to_owned()));

    for (zones, wanted) in [
        (r#""failure-domain.beta.kubernetes.io/zone":"b__c""#, Ok("n2".to_owned())),
        (
            r#""topology.kubernetes.io/zone":"c""#,
            Err("0/2 nodes are available: 2 node(s) had no available volume zone.".to_owned()),
        ),
    ] {
        let mut engine = two_nodes();
        set_claims(&mut engine, &[bound("c", "v")]);
        set_volumes(&mut engine, &[volume("v", "1Gi", "", &format!(r#""labels":{{{zones}}}"#))]);
        assert_eq!(tried(engine, &with_claims("p", &["c"])), wanted);
    }
}

#[test]
fn an_ephemeral_volume_waits_for_its_own_claim() {
    let ephemeral = pod("p", "", "", r#""volumes":[{"name":"scratch","ephemeral":{}}]"#);
    let all = |why: &str| Err(format!("0/2 nodes are available: {why}. not found"));
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\"";
    assert_eq!(tried(two_nodes(), &ephemeral), all(waits));
    let of = |uid: &str| {
        let owner = format!(r#""ownerReferences":[{{"kind":"Pod","controller":true,"uid":"{uid}"}}]"#);
        let mut engine = two_nodes();
        set_claims(&mut engine, &[claim("p-scratch", "", &owner)]);
        tried(engine, &ephemeral)
    };
    let foreign = "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)";
    assert_eq!(of("other"), all(foreign));
    assert!(of("p").is_ok());
}

#[test]
fn the_smallest_volume_that_fits_is_taken_and_only_once() {
    let mut engine = two_nodes();
    engine.set_storage_class("slow", Some(&class("slow", &WAITS.replace("example.com/disk", ""))), NOW);
    set_claims(&mut engine, &[claim("c", "", ""), claim("d", "", ""), claim("e", "", "")]);
    let labelled = r#""labels":{"kind":"other"}"#;
    let taken = r#""claimRef":{"namespace":"ns","name":"somebody","uid":"u"}"#;
    set_volumes(
        &mut engine,
        &[
            volume("large", "5Gi", &host("n1"), labelled),
            volume("small", "512Mi", &host("n1"), ""),
            volume("taken", "1Gi", taken, ""),
            volume("right", "2Gi", &host("n1"), ""),
            volume("block", "1Gi", &format!(r#""volumeMode":"Block",{}"#, host("n1")), ""),
            volume("shared", "1Gi", &format!(r#""accessModes":["ReadOnlyMany"],{}"#, host("n1")), ""),
        ],
    );
    for (name, claim, wanted) in [("p", "c", "right"), ("q", "d", "large")] {
        engine.set_pod(&with_claims(name, &[claim]), NOW);
        let Some(ScheduleResult::BindVolumes { node, volumes, .. }) = engine.next(NOW, &mut rng(1)) else {
            panic!("{name} has a node")
        };
        let [(volume, of)] = &volumes.bind[..] else { panic!("{volumes:?}") };
        assert_eq!((&*node, &*volume.name, &*of.name), ("n1", wanted, claim));
    }
    // What the first two took is taken before anybody has written it down.
    engine.set_pod(&with_claims("r", &["e"]), NOW);
    let none = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    assert_eq!(why(&mut engine), none);
    // The second gives up: what was assumed for it is free, and the third is tried again.
    engine.volumes_refused("q", 0, NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
}

#[test]
fn a_volume_meant_for_a_claim_is_the_only_one_it_takes() {
    let mut engine = two_nodes();
    set_claims(&mut engine, &[claim("c", r#""selector":{"matchLabels":{"no":"volume"}}"#, "")]);
    let meant = format!(r#""claimRef":{{"namespace":"ns","name":"c"}},{}"#, host("n2"));
    set_volumes(&mut engine, &[volume("v", "3Gi", &meant, ""), volume("w", "1Gi", "", "")]);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    let Some(ScheduleResult::BindVolumes { volumes, node, .. }) = engine.next(NOW, &mut rng(1)) else {
        panic!("it has a node")
    };
    // On the first node it could be provisioned as well: then both fit, and the choice is one of score.
    match &*node {
        "n2" => assert_eq!(&*volumes.bind[0].0.name, "v"),
        _ => assert_eq!(volumes.provision.len(), 1),
    }
}

#[test]
fn a_volume_is_provisioned_where_its_class_allows_and_there_is_room() {
    let topologies = |zone: &str| {
        format!(
            r#"{WAITS},"allowedTopologies":[{{"matchLabelExpressions":[
            {{"key":"topology.kubernetes.io/zone","values":["{zone}"]}}]}}]"#
        )
    };
    let with = |change: &dyn Fn(&mut Engine)| {
        let mut engine = two_nodes();
        set_claims(&mut engine, &[claim("c", "", "")]);
        change(&mut engine);
        tried(engine, &with_claims("p", &["c"]))
    };
    let no_volume = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    let no_space = "0/2 nodes are available: 2 node(s) did not have enough free storage.";
    let class_of = |members: String| {
        move |engine: &mut Engine| engine.set_storage_class("slow", Some(&class("slow", &members)), NOW)
    };
    assert_eq!(with(&class_of(topologies("b"))), Ok("n2".to_owned()));
    assert_eq!(with(&class_of(topologies("c"))), Err(no_volume.to_owned()));
    let none = WAITS.replace("example.com/disk", "kubernetes.io/no-provisioner");
    assert_eq!(with(&class_of(none)), Err(no_volume.to_owned()));

    let tracked = |engine: &mut Engine| {
        let driver = tree(r#"{"spec":{"storageCapacity":true}}"#);
        engine.set_csi_driver("example.com/disk", Some(&driver), NOW);
    };
    let capacity = |members: &str| {
        tree(&format!(
            r#"{{"storageClassName":"slow","nodeTopology":{{"matchLabels":{{"topology.kubernetes.io/zone":"b"}}}},{members}}}"#
        ))
    };
    assert_eq!(with(&tracked), Err(no_space.to_owned()));
    let room = |members: &'static str| {
        move |engine: &mut Engine| {
            tracked(engine);
            engine.set_storage_capacity("ns", "b", Some(&capacity(members)), NOW);
        }
    };
    assert_eq!(with(&room(r#""capacity":"1Gi""#)), Ok("n2".to_owned()));
    assert_eq!(with(&room(r#""capacity":"1023Mi""#)), Err(no_space.to_owned()));
    assert_eq!(with(&room(r#""capacity":"9Gi","maximumVolumeSize":"1Mi""#)), Err(no_space.to_owned()));
    // Its volume is being made for a node already.
    let selected = r#""annotations":{"volume.kubernetes.io/selected-node":"n1"}"#;
    assert_eq!(with(&|engine| set_claims(engine, &[claim("c", "", selected)])), Ok("n1".to_owned()));
    let gone = selected.replace("n1", "n3");
    assert_eq!(with(&|engine| set_claims(engine, &[claim("c", "", &gone)])), Err(no_volume.to_owned()));
}

#[test]
fn a_claim_for_one_pod_and_a_disk_in_use_are_kept_from_others() {
    let once = claim("c", r#""accessModes":["ReadWriteOncePod"]"#, "");
    let mut engine = two_nodes();
    set_claims(&mut engine, &[once]);
    engine.set_pod(&on(with_claims("user", &["c"]), "n1"), NOW);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    assert_eq!(
        why(&mut engine),
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
         mode already in-use by another pod."
    );
    engine.remove_pod("user", NOW);
    assert!(next(&mut engine).is_ok(), "it is woken when the claim is free");

    let disk = |name: &str, read_only: bool| {
        let source = format!(r#"{{"pdName":"d","readOnly":{read_only}}}"#);
        pod(name, "", "", &format!(r#""volumes":[{{"name":"v","gcePersistentDisk":{source}}}]"#))
    };
    for (theirs, ours, conflict) in [(false, true, true), (true, true, false), (true, false, true)] {
        let mut engine = engine_with_disk(&disk("user", theirs));
        engine.set_pod(&disk("p", ours), NOW);
        match conflict {
            true => {
                assert_eq!(why(&mut engine), "0/1 nodes are available: 1 node(s) had no available disk.")
            }
            false => assert_eq!(next(&mut engine), Ok("n1".to_owned())),
        }
    }
}

fn engine_with_disk(user: &Value) -> Engine {
    let mut engine = engine(&[node("n1", "", "")]);
    engine.set_pod(&on(user.clone(), "n1"), NOW);
    engine
}

#[test]
fn preemption_takes_a_claim_from_a_less_important_pod_but_no_zone() {
    let important = |mut pod: Value| {
        pod.map_at(&["spec"]).set("priority", 10i64);
        pod
    };
    let mut engine = two_nodes();
    set_claims(&mut engine, &[claim("c", r#""accessModes":["ReadWriteOncePod"]"#, "")]);
    engine.set_pod(&on(with_claims("user", &["c"]), "n1"), NOW);
    engine.set_pod(&important(with_claims("p", &["c"])), NOW);
    let Some(ScheduleResult::Failed(failure)) = engine.next(NOW, &mut rng(1)) else { panic!("it waits") };
    assert_eq!(failure.nominated_node.as_deref(), Some("n1"));
    assert_eq!(failure.victims.iter().map(|v| &*v.uid).collect::<Vec<_>>(), ["user"]);

    let mut engine = two_nodes();
    set_claims(&mut engine, &[bound("c", "v")]);
    set_volumes(&mut engine, &[volume("v", "1Gi", &host("n3"), "")]);
    engine.set_pod(&on(pod("user", "", "", ""), "n1"), NOW);
    engine.set_pod(&important(with_claims("p", &["c"])), NOW);
    let Some(ScheduleResult::Failed(failure)) = engine.next(NOW, &mut rng(1)) else { panic!("it waits") };
    assert!(failure.victims.is_empty());
}

#[test]
fn a_node_has_no_more_volumes_of_a_driver_than_it_can() {
    let csi = |handle: &str| format!(r#""csi":{{"driver":"d","volumeHandle":"{handle}"}}"#);
    let mut engine = engine(&[node("n1", "", "")]);
    let limit = |count: u32| {
        tree(&format!(r#"{{"spec":{{"drivers":[{{"name":"d","allocatable":{{"count":{count}}}}}]}}}}"#))
    };
    engine.set_csi_node("n1", Some(&limit(2)), NOW);
    for name in ["a", "b", "c"] {
        set_claims(&mut engine, &[bound(name, name)]);
        set_volumes(&mut engine, &[volume(name, "1Gi", &csi(name), "")]);
    }
    engine.set_pod(&on(with_claims("one", &["a"]), "n1"), NOW);
    // The same volume twice is one.
    engine.set_pod(&on(with_claims("two", &["a"]), "n1"), NOW);
    engine.set_pod(&with_claims("three", &["b", "a"]), NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    engine.set_pod(&with_claims("four", &["c"]), NOW);
    let full = "0/1 nodes are available: 1 node(s) exceed max volume count.";
    assert_eq!(why(&mut engine), full);
    engine.set_csi_node("n1", Some(&limit(3)), NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    // Attached counts as well, whether a pod uses it or not.
    set_claims(&mut engine, &[bound("e", "e")]);
    set_volumes(&mut engine, &[volume("e", "1Gi", &csi("e"), ""), volume("f", "1Gi", &csi("f"), "")]);
    engine.set_csi_node("n1", Some(&limit(4)), NOW);
    let attachment =
        tree(r#"{"spec":{"attacher":"d","nodeName":"n1","source":{"persistentVolumeName":"f"}}}"#);
    engine.set_attachment("va", Some(&attachment), NOW);
    engine.set_pod(&with_claims("five", &["e"]), NOW);
    assert_eq!(why(&mut engine), full);
    engine.set_attachment("va", None, NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
}

#[test]
fn a_node_without_a_feature_is_none_for_a_pod_that_needs_it() {
    let declared = |name: &str, features: &str| {
        let mut node = node(name, "", "");
        let list = tree(&format!(r#"{{"it":[{features}]}}"#)).get("it").expect("written").clone();
        node.map_at(&["status"]).set("declaredFeatures", list);
        node
    };
    let needs = tree(
        r#"{"metadata":{"name":"p","namespace":"ns","uid":"p"},"spec":{"containers":[{"name":"c",
        "restartPolicyRules":[{"action":"RestartAllContainers"}]}]}}"#,
    );
    let mut engine = engine(&[node("n1", "", ""), declared("n2", r#""ExtendWebSocketsToKubelet""#)]);
    engine.set_pod(&needs, NOW);
    assert_eq!(why(&mut engine), "0/2 nodes are available: 2 node(s) didn't match Pod's required features.");
    engine.set_node(&declared("n1", r#""Other""#), NOW);
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
    engine.set_node(&declared("n1", r#""RestartAllContainersOnContainerExits""#), NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
}

/// A pod whose volume is to be provisioned on `n1`, written at revision 2.
fn provisioning() -> Engine {
    let mut engine = two_nodes();
    let selected = r#""annotations":{"volume.kubernetes.io/selected-node":"n1"}"#;
    set_claims(&mut engine, &[claim("c", "", selected)]);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    assert_eq!(next(&mut engine), Ok("n1".to_owned()));
    engine.volumes_written("p", vec![2], NOW);
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
    engine
}

fn at(mut tree: Value, revision: &str) -> Value {
    tree.map_at(&["metadata"]).set("resourceVersion", revision.to_owned());
    tree
}

fn annotated(mut claim: Value, key: &'static str, value: &str) -> Value {
    claim.map_at(&["metadata", "annotations"]).set(key, value.to_owned());
    claim
}

#[test]
fn a_pod_is_bound_once_its_volume_is() {
    let mut engine = provisioning();
    let ready = annotated(bound("c", "v"), "volume.kubernetes.io/selected-node", "n1");
    set_claims(&mut engine, &[at(ready, "3")]);
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()), "the volume was not seen yet");
    let claimed = r#""claimRef":{"namespace":"ns","name":"c","uid":"u-c"}"#;
    set_volumes(&mut engine, &[volume("v", "1Gi", claimed, "")]);
    assert!(
        matches!(engine.next(NOW, &mut rng(1)), Some(ScheduleResult::Bind { node, .. }) if &*node == "n1")
    );
}

#[test]
fn a_pod_whose_volume_cannot_be_made_or_takes_too_long_is_tried_again() {
    let before =
        |words: &str| Err(format!("running PreBind plugin \"VolumeBinding\": binding volumes: {words}"));
    let mut engine = provisioning();
    set_claims(&mut engine, &[at(claim("c", "", r#""annotations":{"a":"b"}"#), "3")]);
    assert_eq!(next(&mut engine), before("provisioning failed for PVC \"c\""));

    let mut engine = provisioning();
    set_claims(&mut engine, &[at(claim("c", "", ""), "3")]);
    assert_eq!(next(&mut engine), before("selectedNode annotation reset for PVC \"c\""));

    let mut engine = provisioning();
    engine.remove_node("n1", NOW);
    assert_eq!(next(&mut engine), before("failed to get node \"n1\": node \"n1\" not found"));

    let mut engine = provisioning();
    engine.set_claim("ns", "c", None, NOW);
    let gone = "failed to check provisioning pvc: persistentvolumeclaims \"ns/c\" not found";
    assert_eq!(next(&mut engine), before(gone));

    let mut engine = provisioning();
    let late = NOW + Duration::from_secs(600);
    assert_eq!(engine.next_wake(), Some(late));
    assert!(engine.next(late - Duration::from_secs(1), &mut rng(1)).is_none());
    let Some(ScheduleResult::VolumesFailed { queued, message, .. }) = engine.next(late, &mut rng(1)) else {
        panic!("it is too late")
    };
    assert_eq!(Err(message), before("context deadline exceeded"));
    engine.bind_failed(queued, late);
    assert!(engine.waiting("p").is_some(), "it waits to be tried again");

    // A pod that is gone waits for nothing.
    let mut engine = provisioning();
    engine.remove_pod("p", NOW);
    set_claims(&mut engine, &[at(claim("c", "", ""), "3")]);
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
}

#[test]
fn a_claim_wakes_the_pods_that_use_it_and_no_others() {
    let mut engine = two_nodes();
    for n in 0..3 {
        engine.set_pod(&with_claims(&format!("p{n}"), &[&format!("c{n}")]), NOW);
        next(&mut engine).expect_err("no claim");
    }
    set_claims(&mut engine, &[claim("c1", "", "")]);
    assert_eq!(engine.lengths().unschedulable, 2);
    assert!(next(&mut engine).is_ok());
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
}

#[test]
fn a_volume_wakes_the_pods_it_may_be_for_and_no_others() {
    let mut engine = two_nodes();
    let own = r#""provisioner":"kubernetes.io/no-provisioner","volumeBindingMode":"WaitForFirstConsumer""#;
    engine.set_storage_class("slow", Some(&class("slow", own)), NOW);
    for n in 0..4 {
        set_claims(&mut engine, &[claim(&format!("c{n}"), "", "")]);
        engine.set_pod(&with_claims(&format!("p{n}"), &[&format!("c{n}")]), NOW);
        next(&mut engine).expect_err("no volume");
    }
    let mut other = volume("other", "1Gi", "", "");
    other.map_at(&["spec"]).set("storageClassName", "fast".to_owned());
    set_volumes(&mut engine, &[other]);
    assert_eq!(engine.lengths().unschedulable, 4, "it is of another class");

    let of = |name: &str| format!(r#""claimRef":{{"namespace":"ns","name":"{name}"}}"#);
    set_volumes(&mut engine, &[volume("v1", "1Gi", &of("c1"), "")]);
    assert_eq!(engine.lengths().unschedulable, 3, "it is one claim's");

    // A claim that has a volume waits for that one alone, whichever claim the volume names.
    set_claims(&mut engine, &[bound("c2", "v2")]);
    next(&mut engine).expect("its claim has a volume");
    next(&mut engine).expect_err("its volume is missing");
    assert_eq!(engine.lengths().unschedulable, 3);
    set_volumes(&mut engine, &[volume("v2", "1Gi", &of("none"), "")]);
    assert_eq!(engine.lengths().unschedulable, 2);
    set_volumes(&mut engine, &[volume("free", "1Gi", "", "")]);
    assert_eq!(engine.lengths().unschedulable, 0, "anyone may have it");
}

#[test]
fn what_changes_of_volumes_is_asked_only_about_pods_that_wait_for_volumes() {
    let mut engine = two_nodes();
    set_claims(&mut engine, &[bound("c", "v")]);
    let zone = r#""labels":{"topology.kubernetes.io/zone":"c"}"#;
    set_volumes(&mut engine, &[volume("v", "1Gi", "", zone)]);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    for n in 0..50 {
        engine.set_pod(&pod(&format!("large{n}"), "", r#""cpu":"100""#, ""), NOW);
    }
    while engine.next(NOW, &mut rng(1)).is_some() {}
    assert_eq!(engine.lengths().unschedulable, 51);
    let asked = |engine: &mut Engine, change: &dyn Fn(&mut Engine)| {
        engine.queue().asked.set(0);
        change(engine);
        let asked = engine.queue().asked.get();
        // Who was woken is tried again, for nothing.
        while engine.next(NOW, &mut rng(1)).is_some() {}
        asked
    };
    let other = volume("other", "1Gi", "", "");
    assert_eq!(asked(&mut engine, &|e| e.set_volume("other", Some(&other), NOW)), 1);
    let fast = class("fast", WAITS);
    assert_eq!(asked(&mut engine, &|e| e.set_storage_class("fast", Some(&fast), NOW)), 1);
    let limits = tree(r#"{"metadata":{"name":"n1"},"spec":{"drivers":[]}}"#);
    assert_eq!(asked(&mut engine, &|e| e.set_csi_node("n1", Some(&limits), NOW)), 0);
}

#[test]
fn a_released_volume_wakes_the_pods_whose_claim_it_was() {
    let mut engine = two_nodes();
    let claimed = r#""claimRef":{"namespace":"ns","name":"c","uid":"u-c"}"#;
    set_volumes(&mut engine, &[volume("v", "1Gi", claimed, "")]);
    let mut going = bound("c", "v");
    going.map_at(&["metadata"]).set("deletionTimestamp", "2026-01-01T00:00:00Z");
    set_claims(&mut engine, &[going]);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    engine.set_pod(&with_claims("other", &["d"]), NOW);
    for _ in 0..2 {
        next(&mut engine).expect_err("it waits");
    }
    engine.set_claim("ns", "c", None, NOW);
    set_volumes(&mut engine, &[at(volume("v", "1Gi", claimed, ""), "9")]);
    assert_eq!(engine.lengths().unschedulable, 1, "the other waits on");
    assert_eq!(why(&mut engine), "0/2 nodes are available: persistentvolumeclaim \"c\" not found. not found");
}

#[test]
fn a_pod_that_waits_for_its_volume_makes_room_for_another() {
    let preempted = "running PreBind plugin \"VolumeBinding\": preempted by DefaultPreemption";
    let mut engine = provisioning();
    assert!(engine.cancel_binding("p"));
    assert_eq!(next(&mut engine), Err(preempted.to_owned()));
    assert!(!engine.cancel_binding("p"), "it waits no more");

    // What is on its way is waited for: the answer may yet be a refusal.
    let mut engine = two_nodes();
    set_claims(&mut engine, &[claim("c", "", "")]);
    engine.set_pod(&with_claims("p", &["c"]), NOW);
    assert!(next(&mut engine).is_ok());
    assert!(engine.cancel_binding("p"));
    assert_eq!(next(&mut engine), Err("nothing waits".to_owned()));
    engine.volumes_written("p", vec![2], NOW);
    assert_eq!(next(&mut engine), Err(preempted.to_owned()));
}
