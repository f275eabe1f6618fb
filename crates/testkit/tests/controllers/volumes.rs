//! Claims and volumes are bound, released, reclaimed and lost as in upstream's controller.

use serde_json::{Value as Json, json};
use testkit::{ControlPlane, TestCluster};

use crate::batch_steps::{EVENTS, PODS, items, pass, plane, set_status, steady, succeeded, until};
use crate::volume_steps::{VOLUMES, claim, claims, volume};

const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";

struct World {
    cluster: TestCluster,
    plane: ControlPlane,
}

impl World {
    async fn new(seed: u64) -> World {
        let cluster = TestCluster::simulated(seed).await;
        let plane = plane(
            &cluster,
            &[
                "persistentvolume-binder-controller",
                "persistentvolumeclaim-protection-controller",
                "persistentvolume-protection-controller",
            ],
        );
        World { cluster, plane }
    }

    async fn volume(&self, name: &str, more: Json) {
        let mut volume = volume(name, "");
        merge(&mut volume, more);
        self.cluster.post(VOLUMES, volume).await.ok(201);
    }

    async fn claim(&self, name: &str, more: Json) {
        let mut claim = claim(name, "");
        merge(&mut claim, more);
        self.cluster.post(claims("default"), claim).await.ok(201);
    }

    async fn class(&self, name: &str, more: Json) {
        let mut class = json!({"metadata": {"name": name}, "provisioner": "example.com/disks"});
        merge(&mut class, more);
        self.cluster.post(CLASSES, class).await.ok(201);
    }

    async fn phase_of_claim(&self, name: &str, phase: &str) -> Json {
        let path = format!("{}/{name}", claims("default"));
        until(&self.cluster, &path, phase, |claim| claim["status"]["phase"] == phase).await
    }

    async fn phase_of_volume(&self, name: &str, phase: &str) -> Json {
        let path = format!("{VOLUMES}/{name}");
        until(&self.cluster, &path, phase, |volume| volume["status"]["phase"] == phase).await
    }

    async fn gone(&self, path: String) {
        self.cluster.until("it is gone", || async { self.cluster.get(&path).await.status == 404 }).await;
    }

    /// Waits until people were told this about an object; gives the event.
    async fn told(&self, name: &str, reason: &str, message: &str) -> Json {
        for _ in 0..600 {
            let events = items(&self.cluster, EVENTS).await;
            let found = events.into_iter().find(|event| {
                event["involvedObject"]["name"] == name
                    && event["reason"] == reason
                    && event["message"] == message
            });
            if let Some(event) = found {
                assert_eq!(event["source"]["component"], "persistentvolume-controller");
                return event;
            }
            pass(&self.cluster, 1).await;
        }
        panic!("{name} was never told {reason}: {message}; {:#?}", items(&self.cluster, EVENTS).await);
    }

    async fn end(self) {
        steady(&self.cluster).await;
        self.plane.stop().await;
        self.cluster.shutdown().await;
    }
}

fn merge(into: &mut Json, more: Json) {
    match (into, more) {
        (Json::Object(into), Json::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Json::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn annotation<'a>(object: &'a Json, name: &str) -> &'a Json {
    &object["metadata"]["annotations"][name]
}

#[tokio::test(start_paused = true)]
async fn a_claim_and_the_smallest_volume_that_fits_are_bound_to_each_other() {
    let world = World::new(71).await;
    let large = json!({"spec": {"capacity": {"storage": "10Gi"}}});
    world.volume("large", large.clone()).await;
    world.volume("fits", json!({"spec": {"capacity": {"storage": "2Gi"}}})).await;
    world.volume("classy", json!({"spec": {"storageClassName": "fast"}})).await;
    for name in ["large", "fits", "classy"] {
        world.phase_of_volume(name, "Available").await;
    }
    world.claim("c", json!({})).await;
    let claim = world.phase_of_claim("c", "Bound").await;
    assert_eq!(claim["spec"]["volumeName"], "fits");
    assert_eq!(claim["status"]["capacity"], json!({"storage": "2Gi"}));
    assert_eq!(claim["status"]["accessModes"], json!(["ReadWriteOnce"]));
    let volume = world.phase_of_volume("fits", "Bound").await;
    let reference = &volume["spec"]["claimRef"];
    let expected = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c",
        "uid": claim["metadata"]["uid"], "resourceVersion": reference["resourceVersion"]});
    assert_eq!(*reference, expected);
    for (object, name) in
        [(&claim, "bound-by-controller"), (&claim, "bind-completed"), (&volume, "bound-by-controller")]
    {
        assert_eq!(*annotation(object, &format!("pv.kubernetes.io/{name}")), "yes");
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_gets_the_volume_that_comes() {
    let world = World::new(72).await;
    world.claim("c", json!({})).await;
    let why = "no persistent volumes available for this claim and no storage class is set";
    let event = world.told("c", "FailedBinding", why).await;
    assert_eq!(event["type"], "Normal");
    let before = world.cluster.env().now_seconds();
    world.volume("v", json!({})).await;
    world.phase_of_claim("c", "Bound").await;
    assert!(world.cluster.env().now_seconds() - before < 5, "not only when it looks again by itself");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn each_of_many_claims_gets_a_volume_of_its_own() {
    let world = World::new(73).await;
    for number in 0..100 {
        world.volume(&format!("v{number}"), json!({})).await;
    }
    for number in 0..101 {
        world.claim(&format!("c{number}"), json!({})).await;
    }
    world
        .cluster
        .until("all volumes are bound", || async {
            items(&world.cluster, VOLUMES).await.iter().all(|volume| volume["status"]["phase"] == "Bound")
        })
        .await;
    let all = items(&world.cluster, &claims("default")).await;
    let mut names: Vec<&str> = all.iter().filter_map(|claim| claim["spec"]["volumeName"].as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 100);
    for volume in items(&world.cluster, VOLUMES).await {
        let claim = all.iter().find(|claim| claim["metadata"]["name"] == volume["spec"]["claimRef"]["name"]);
        assert_eq!(claim.unwrap()["spec"]["volumeName"], volume["metadata"]["name"]);
    }
    let waits = all.iter().find(|claim| claim["status"]["phase"] == "Pending").unwrap();
    // The one that is left gets what another leaves, if that may be used again.
    let last = waits["metadata"]["name"].as_str().unwrap();
    world.volume("late", json!({})).await;
    world.phase_of_claim(last, "Bound").await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn users_may_choose_from_both_sides() {
    let world = World::new(74).await;
    let reserved =
        json!({"spec": {"claimRef": {"namespace": "default", "name": "later"}, "storageClassName": "x"}});
    world.volume("reserved", reserved).await;
    world.phase_of_volume("reserved", "Available").await;
    world.claim("other", json!({"spec": {"storageClassName": "x"}})).await;
    world.told("other", "ProvisioningFailed", "storageclass.storage.k8s.io \"x\" not found").await;
    world.claim("later", json!({})).await;
    world.phase_of_claim("later", "Bound").await;
    let volume = world.phase_of_volume("reserved", "Bound").await;
    assert!(annotation(&volume, "pv.kubernetes.io/bound-by-controller").is_null(), "a user did it");

    world.claim("chooses", json!({"spec": {"volumeName": "chosen"}})).await;
    pass(&world.cluster, 30).await;
    world.phase_of_claim("chooses", "Pending").await;
    world.volume("chosen", json!({"spec": {"accessModes": ["ReadOnlyMany"]}})).await;
    let why = "Cannot bind to requested volume \"chosen\": incompatible accessMode";
    assert_eq!(world.told("chooses", "VolumeMismatch", why).await["type"], "Warning");
    world.claim("second", json!({"spec": {"volumeName": "reserved"}})).await;
    let why = "volume \"reserved\" already bound to a different claim.";
    world.told("second", "FailedBinding", why).await;
    let modes = json!({"spec": {"accessModes": ["ReadWriteOnce"]}});
    world.cluster.merge(format!("{VOLUMES}/chosen"), modes).await.ok(200);
    let claim = world.phase_of_claim("chooses", "Bound").await;
    assert!(annotation(&claim, "pv.kubernetes.io/bound-by-controller").is_null());
    assert_eq!(*annotation(&claim, "pv.kubernetes.io/bind-completed"), "yes");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_released_volume_is_kept_deleted_or_failed_as_its_policy_says() {
    let world = World::new(75).await;
    let local = json!({"hostPath": null, "local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
    let iscsi =
        json!({"hostPath": null, "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2026-01.a:b", "lun": 0}});
    let volumes = [
        ("kept", "Retain", Json::Null),
        ("deleted", "Delete", Json::Null),
        ("failed", "Delete", local),
        ("unrecycled", "Recycle", iscsi),
    ];
    for (name, policy, more) in volumes {
        let mut spec = json!({"persistentVolumeReclaimPolicy": policy, "storageClassName": name});
        if !more.is_null() {
            merge(&mut spec, more);
        }
        world.volume(name, json!({"spec": spec})).await;
        world.claim(name, json!({"spec": {"storageClassName": name}})).await;
        world.phase_of_claim(name, "Bound").await;
    }
    for name in ["kept", "deleted", "failed", "unrecycled"] {
        world.cluster.delete(format!("{}/{name}", claims("default"))).await.ok(200);
    }
    let kept = world.phase_of_volume("kept", "Released").await;
    assert_eq!(kept["spec"]["claimRef"]["name"], "kept", "people see whose it was");
    world.gone(format!("{VOLUMES}/deleted")).await;
    let why = "error getting deleter volume plugin for volume \"failed\": no volume plugin matched";
    assert_eq!(world.phase_of_volume("failed", "Failed").await["status"]["message"], why);
    assert_eq!(world.told("failed", "VolumeFailedDelete", why).await["type"], "Warning");
    world.phase_of_volume("unrecycled", "Failed").await;
    world.told("unrecycled", "VolumeFailedRecycle", "No recycler plugin found for the volume!").await;
    // A claim of the same name is another one, and gets nothing of the old.
    world.claim("kept", json!({"spec": {"storageClassName": ""}})).await;
    pass(&world.cluster, 60).await;
    world.phase_of_volume("kept", "Released").await;
    world.phase_of_claim("kept", "Pending").await;
    // Unless an administrator says so.
    world
        .cluster
        .merge(format!("{VOLUMES}/kept"), json!({"spec": {"claimRef": {"uid": null}}}))
        .await
        .ok(200);
    world.phase_of_claim("kept", "Bound").await;
    world.end().await;
}

/// The test plays the node.
#[tokio::test(start_paused = true)]
async fn a_recycled_volume_is_emptied_by_a_pod_and_used_again() {
    let world = World::new(178).await;
    let policy = json!({"persistentVolumeReclaimPolicy": "Recycle", "capacity": {"storage": "5Gi"}});
    world.volume("v", json!({"spec": policy})).await;
    let path = format!("{PODS}/recycler-for-v");
    let release = async |claim: &str| {
        world.claim(claim, json!({})).await;
        world.phase_of_claim(claim, "Bound").await;
        world.cluster.delete(format!("{}/{claim}", claims("default"))).await.ok(200);
        until(&world.cluster, &path, "there", |pod| pod["kind"] == "Pod").await
    };
    let pod = release("first").await;
    assert_eq!(pod["spec"]["activeDeadlineSeconds"], 150, "thirty seconds for each GiB");
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    let volume = world.phase_of_volume("v", "Released").await;
    assert_eq!(pod["spec"]["volumes"][0]["hostPath"]["path"], volume["spec"]["hostPath"]["path"]);
    assert_eq!(pod["spec"]["containers"][0]["volumeMounts"][0]["mountPath"], "/scrub");
    pass(&world.cluster, 60).await;
    world.phase_of_volume("v", "Released").await;
    set_status(&world.cluster, &pod, succeeded()).await;
    let volume = world.phase_of_volume("v", "Available").await;
    assert!(volume["spec"].get("claimRef").is_none(), "{volume:#}");
    world.told("v", "VolumeRecycled", "Volume recycled").await;
    world.gone(path.clone()).await;

    let pod = release("second").await;
    set_status(&world.cluster, &pod, json!({"phase": "Failed", "message": "no such disk"})).await;
    let why = "Recycle failed: failed to recycle volume: no such disk";
    assert_eq!(world.phase_of_volume("v", "Failed").await["status"]["message"], why);
    world.told("v", "VolumeFailedRecycle", why).await;
    // Once more, after a while.
    let again = |other: &Json| other["kind"] == "Pod" && other["metadata"]["uid"] != pod["metadata"]["uid"];
    let pod = until(&world.cluster, &path, "another", again).await;
    set_status(&world.cluster, &pod, succeeded()).await;
    world.phase_of_volume("v", "Available").await;

    let pod = release("third").await;
    world.cluster.delete(format!("{VOLUMES}/v")).await.ok(200);
    world.gone(format!("{VOLUMES}/v")).await;
    set_status(&world.cluster, &pod, succeeded()).await;
    world.gone(path.clone()).await;
    world.end().await;
}

/// A pod of that name that ended well says nothing of this volume.
#[tokio::test(start_paused = true)]
async fn a_volume_is_not_taken_for_empty_because_of_anothers_pod() {
    let world = World::new(179).await;
    let policy = json!({"persistentVolumeReclaimPolicy": "Recycle", "capacity": {"storage": "5Gi"}});
    world.volume("v", json!({"spec": policy})).await;
    let path = format!("{PODS}/recycler-for-v");
    let pod = json!({"metadata": {"name": "recycler-for-v"}, "spec": {"containers": [{"name": "pv-recycler", "image": "i"}]}});
    let theirs = world.cluster.post(PODS, pod).await.ok(201);
    set_status(&world.cluster, &theirs, succeeded()).await;
    world.claim("c", json!({})).await;
    world.phase_of_claim("c", "Bound").await;
    world.cluster.delete(format!("{}/c", claims("default"))).await.ok(200);
    let ours = |pod: &Json| pod["kind"] == "Pod" && pod["metadata"]["uid"] != theirs["metadata"]["uid"];
    let pod = until(&world.cluster, &path, "another", ours).await;
    world.phase_of_volume("v", "Released").await;
    set_status(&world.cluster, &pod, succeeded()).await;
    world.phase_of_volume("v", "Available").await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_is_gone_is_lost_and_found_again() {
    let world = World::new(76).await;
    world.volume("v", json!({})).await;
    world.claim("c", json!({})).await;
    world.phase_of_claim("c", "Bound").await;
    world.cluster.delete(format!("{VOLUMES}/v")).await.ok(200);
    pass(&world.cluster, 60).await;
    world.phase_of_volume("v", "Bound").await;
    world.cluster.merge(format!("{VOLUMES}/v"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    let lost = world.phase_of_claim("c", "Lost").await;
    assert!(lost["status"]["capacity"].is_null());
    let why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(world.told("c", "ClaimLost", why).await["type"], "Warning");
    world.volume("v", json!({})).await;
    world.phase_of_claim("c", "Bound").await;
    world.phase_of_volume("v", "Bound").await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_names_no_class_gets_the_default_one_when_it_comes() {
    let world = World::new(77).await;
    world.claim("c", json!({"spec": {"storageClassName": null}})).await;
    world.claim("none", json!({})).await;
    let why = "no persistent volumes available for this claim and no storage class is set";
    world.told("c", "FailedBinding", why).await;
    let mark = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    world.class("fast", json!({"metadata": {"annotations": mark}})).await;
    let path = format!("{}/c", claims("default"));
    let claim =
        until(&world.cluster, &path, "a class", |claim| claim["spec"]["storageClassName"] == "fast").await;
    assert_eq!(claim["status"]["phase"], "Pending");
    let waits = "Waiting for a volume to be created either by the external provisioner 'example.com/disks' or manually by the \
         system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.";
    world.told("c", "ExternalProvisioning", waits).await;
    let claim = world.cluster.get(&path).await.ok(200);
    for name in ["volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"]
    {
        assert_eq!(*annotation(&claim, name), "example.com/disks");
    }
    let none = world.phase_of_claim("none", "Pending").await;
    assert_eq!(none["spec"]["storageClassName"], "", "it chose to have none");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_its_first_consumer() {
    let world = World::new(78).await;
    world.class("slow", json!({"volumeBindingMode": "WaitForFirstConsumer"})).await;
    let slow = json!({"spec": {"storageClassName": "slow"}});
    world.volume("v", slow.clone()).await;
    world.phase_of_volume("v", "Available").await;
    world.claim("c", slow.clone()).await;
    let first = "waiting for first consumer to be created before binding";
    assert_eq!(world.told("c", "WaitForFirstConsumer", first).await["type"], "Normal");
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
    world.cluster.post(PODS, pod).await.ok(201);
    world.told("c", "WaitForPodScheduled", "waiting for pod p to be scheduled").await;
    world.phase_of_volume("v", "Available").await;
    // The scheduler decides: for a new volume on a node, or for this one.
    let node = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}});
    world.cluster.merge(format!("{}/c", claims("default")), node).await.ok(200);
    let path = format!("{}/c", claims("default"));
    let name = "volume.kubernetes.io/storage-provisioner";
    let claim =
        until(&world.cluster, &path, "a provisioner", |claim| !annotation(claim, name).is_null()).await;
    let reference = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c",
        "uid": claim["metadata"]["uid"]});
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": reference}});
    world.cluster.merge(format!("{VOLUMES}/v"), bound).await.ok(200);
    let claim = world.phase_of_claim("c", "Bound").await;
    assert_eq!(claim["spec"]["volumeName"], "v");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_claim_has_another_is_let_go_of() {
    let world = World::new(79).await;
    world.volume("v", json!({})).await;
    world.claim("c", json!({})).await;
    let claim = world.phase_of_claim("c", "Bound").await;
    // What a second binder could have left behind.
    let reference = json!({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "c",
        "uid": claim["metadata"]["uid"]});
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": reference}});
    world.volume("w", bound).await;
    let free = world.phase_of_volume("w", "Available").await;
    assert!(free["spec"]["claimRef"].is_null(), "{free:#}");
    world.phase_of_volume("v", "Bound").await;
    world.end().await;
}

/// Whoever takes the claim off a volume that is bound gets it back: the claim still names it.
#[tokio::test(start_paused = true)]
async fn a_bound_claim_notices_that_its_volume_does_not_name_it_any_more() {
    let world = World::new(79).await;
    world.volume("v", json!({})).await;
    world.claim("c", json!({})).await;
    world.phase_of_claim("c", "Bound").await;
    let path = format!("{VOLUMES}/v");
    let bound = world.phase_of_volume("v", "Bound").await;
    world.cluster.merge(&*path, json!({"spec": {"claimRef": null}})).await.ok(200);
    pass(&world.cluster, 60).await;
    let again = world.phase_of_volume("v", "Bound").await;
    assert_eq!(again["spec"]["claimRef"]["uid"], bound["spec"]["claimRef"]["uid"]);
    world.end().await;
}
