//! Volumes behind claims, and the directories of the provisioner.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value as Json, json};

use crate::node::{TestNode, is_root, mount_disk, mounts_below, on_shared_mounts, uid, unmount};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";

/// A claim bound to a volume of the node with this source; nobody else binds in these tests.
async fn bound(node: &TestNode, claim: &str, volume: &str, source: Json) {
    let labels = json!({"kubernetes.io/hostname": "host-1"});
    node.cluster.post("/api/v1/nodes", json!({"metadata": {"name": "n1", "labels": labels}})).await;
    let size = json!({"storage": "1Gi"});
    let body = json!({
        "metadata": {"name": claim},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": volume, "storageClassName": "", "resources": {"requests": size}},
    });
    let made = node.cluster.post(CLAIMS, body).await.ok(201);
    let annotations = source.get("annotations").cloned().unwrap_or(json!({}));
    let mut spec = json!({
        "capacity": size, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
        "claimRef": {"namespace": "default", "name": claim, "uid": made["metadata"]["uid"]},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]}]}},
    });
    for (field, value) in source["spec"].as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let body = json!({"metadata": {"name": volume, "annotations": annotations}, "spec": spec});
    node.cluster.post(VOLUMES, body).await.ok(201);
    let status = json!({"status": {"phase": "Bound"}});
    node.cluster.merge(format!("{CLAIMS}/{claim}/status"), status).await.ok(200);
}

fn claimed(claim: &str) -> Json {
    json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_not_bound_is_told_in_the_summary() {
    let node = TestNode::new(21).await;
    let pod = node.pod("web", claimed("late")).await;
    let summary = node.volumes.mount(&pod).await.unwrap_err();
    assert_eq!(summary.events().count(), 0);
    let said = summary.to_string();
    assert!(
        said.starts_with(
            "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC default/late: failed to fetch PVC from API server: "
        ),
        "{said}"
    );
    let size = json!({"requests": {"storage": "1Gi"}});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": size});
    node.cluster.post(CLAIMS, json!({"metadata": {"name": "late"}, "spec": spec})).await.ok(201);
    let said = node.volumes.mount(&pod).await.unwrap_err().to_string();
    assert!(said.ends_with("error processing PVC default/late: PVC is not bound"), "{said}");
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn a_local_volume_is_bound_into_each_pod_and_given_to_its_group_once() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(22).await;
    let disk = node.path().join("disk");
    fs::create_dir(&disk).unwrap();
    fs::write(disk.join("file"), "x").unwrap();
    let path = disk.to_str().unwrap();
    bound(&node, "data", "disk-1", json!({"spec": {"local": {"path": path}}})).await;
    let spec = json!({"securityContext": {"fsGroup": 77}});
    let one = node.pod_with("one", claimed("data"), spec).await;
    let volume = node.mount(&one).await;
    assert!(volume.host_path.ends_with("volumes/kubernetes.io~local-volume/disk-1"));
    assert_eq!(fs::metadata(volume.host_path.join("file")).unwrap().gid(), 77);
    let two = node.pod_with("two", claimed("data"), json!({"securityContext": {"fsGroup": 88}})).await;
    let other = node.mount(&two).await;
    assert_eq!(fs::metadata(disk.join("file")).unwrap().gid(), 77, "the first pod still has it");
    let warning =
        "The requested fsGroup is 88, but the volume disk-1 has GID 77. The volume may not be shareable.";
    assert_eq!((volume.warning, other.warning.as_deref()), (None, Some(warning)));
    assert_eq!(node.mount(&two).await.warning, None, "once");
    let three = node.pod_with("three", claimed("data"), json!({"securityContext": {"fsGroup": 77}})).await;
    assert_eq!(node.mount(&three).await.warning, None, "it is that group's");
    fs::write(other.host_path.join("new"), "y").unwrap();
    node.volumes.unmount(uid(&one)).await.unwrap();
    assert!(!volume.host_path.exists());
    assert!(disk.join("new").exists() && disk.join("file").exists(), "the data stays");
    node.end(&[&one, &two, &three]).await;
}

#[tokio::test(start_paused = true)]
async fn a_local_volume_that_an_agent_left_half_done_is_made_ready() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(27).await;
    let disk = node.path().join("disk");
    fs::create_dir(&disk).unwrap();
    fs::write(disk.join("file"), "x").unwrap();
    let path = disk.to_str().unwrap();
    bound(&node, "data", "disk-1", json!({"spec": {"local": {"path": path}, "mountOptions": ["noexec"]}}))
        .await;
    let spec = json!({"securityContext": {"fsGroup": 77}});
    let pod = node.pod_with("web", claimed("data"), spec).await;
    let below = |part: &str| {
        let directory = node.path().join("root/pods").join(uid(&pod)).join(part);
        directory.join("kubernetes.io~local-volume/disk-1")
    };
    let group = || fs::metadata(disk.join("file")).unwrap().gid();
    // Killed after it was mounted.
    fs::create_dir_all(below("volumes")).unwrap();
    rustix::mount::mount_bind(&disk, below("volumes")).unwrap();
    let volume = node.mount(&pod).await;
    let flags = rustix::fs::statvfs(&volume.host_path).unwrap().f_flag;
    assert!(flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC));
    assert_eq!((group(), mounts_below(&below("volumes")).len()), (77, 1));
    std::os::unix::fs::chown(disk.join("file"), None, Some(0)).unwrap();
    node.mount(&pod).await;
    assert_eq!(group(), 0, "once");
    // It cannot be finished.
    node.volumes.unmount(uid(&pod)).await.unwrap();
    fs::create_dir_all(below("plugins").parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("nowhere", below("plugins")).unwrap();
    node.refused(&pod).await;
    assert!(mounts_below(&below("volumes")).is_empty());
    fs::remove_file(below("plugins")).unwrap();
    std::os::unix::fs::chown(disk.join("file"), None, Some(0)).unwrap();
    node.mount(&pod).await;
    assert_eq!(group(), 77);
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_another_node_is_refused() {
    let node = TestNode::new(25).await;
    let path = node.path().to_str().unwrap();
    bound(&node, "data", "disk-1", json!({"spec": {"hostPath": {"path": path}}})).await;
    let elsewhere = json!({"metadata": {"labels": {"kubernetes.io/hostname": "host-2"}}});
    node.cluster.merge("/api/v1/nodes/n1", elsewhere).await.ok(200);
    let pod = node.pod("web", claimed("data")).await;
    let why = "MountVolume.NodeAffinity check failed for volume \"disk-1\" : no matching NodeSelectorTerms";
    assert_eq!(node.refused(&pod).await, [why]);
    let back = json!({"metadata": {"labels": {"kubernetes.io/hostname": "host-1"}}});
    node.cluster.merge("/api/v1/nodes/n1", back).await.ok(200);
    assert_eq!(node.mount(&pod).await.host_path.to_str(), Some(path));
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_volume_is_the_claim_made_for_the_pod() {
    let node = TestNode::new(26).await;
    let path = node.path().to_str().unwrap();
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volumes = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]);
    let pod = node.pod("web", volumes).await;
    bound(&node, "web-data", "disk-1", json!({"spec": {"hostPath": {"path": path}}})).await;
    let said = node.volumes.mount(&pod).await.unwrap_err().to_string();
    assert!(
        said.ends_with(": PVC default/web-data was not created for pod default/web (pod is not owner)"),
        "{said}"
    );
    let owner =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid(&pod), "controller": true});
    let body = json!({"metadata": {"ownerReferences": [owner]}});
    node.cluster.merge(format!("{CLAIMS}/web-data"), body).await.ok(200);
    assert_eq!(node.mount(&pod).await.host_path.to_str(), Some(path));
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn a_local_volume_that_is_read_only_cannot_be_written_through_its_pod() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(23).await;
    let path = node.path().join("disk").to_str().unwrap().to_owned();
    bound(&node, "data", "disk-1", json!({"spec": {"local": {"path": path}}})).await;
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": true}}]);
    let pod = node.pod("web", volumes).await;
    let why = format!("MountVolume.SetUp failed for volume \"disk-1\" : path {path:?} does not exist");
    assert_eq!(node.refused(&pod).await, [why]);
    fs::create_dir(&path).unwrap();
    let volume = node.mount(&pod).await;
    assert!(volume.read_only);
    assert!(fs::write(volume.host_path.join("f"), "x").is_err());
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn the_provisioners_directories_are_made_and_removed_with_their_volume() {
    let node = TestNode::new(24).await;
    let path = node.path().join("volumes/pvc-1");
    let source = json!({
        "annotations": {"pv.kubernetes.io/provisioned-by": "setpoint.dev/local"},
        "spec": {"hostPath": {"path": path.to_str().unwrap(), "type": "DirectoryOrCreate"}},
    });
    bound(&node, "data", "pvc-1", source).await;
    let pod = node.pod("web", claimed("data")).await;
    assert_eq!(node.mount(&pod).await.host_path, path);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o777, "any user's");
    fs::write(path.join("file"), "x").unwrap();
    assert_eq!(node.volumes.reclaim().await.unwrap(), Vec::<String>::new());
    node.volumes.unmount(uid(&pod)).await.unwrap();
    assert!(path.join("file").exists());

    node.cluster.delete("/api/v1/namespaces/default/pods/web?gracePeriodSeconds=0").await.ok(200);
    // Without a pod the volume is nobody's business here, but it is still there.
    assert_eq!(node.volumes.reclaim().await.unwrap(), Vec::<String>::new());
    node.cluster.merge(format!("{VOLUMES}/pvc-1"), json!({"metadata": {"finalizers": null}})).await.ok(200);
    node.cluster.delete(format!("{VOLUMES}/pvc-1")).await.ok(200);
    assert_eq!(node.volumes.reclaim().await.unwrap(), ["pvc-1"]);
    assert!(!path.exists());
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn volumes_are_measured_as_kubelet_does() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(29).await;
    let disk = node.path().join("disk");
    fs::create_dir(&disk).unwrap();
    bound(&node, "data", "disk-1", json!({"spec": {"local": {"path": disk.to_str().unwrap()}}})).await;
    node.config_map("settings", json!({"a": "1"})).await;
    let volumes = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "files", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "about", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "host", "hostPath": {"path": "/"}},
    ]);
    let pod = node.pod("web", volumes).await;
    let mounted = node.volumes.mount(&pod).await.unwrap_or_else(|error| panic!("{error:?}"));
    fs::write(mounted["files"].host_path.join("x"), vec![1; 100_000]).unwrap();
    fs::write(mounted["memory"].host_path.join("x"), vec![1; 8192]).unwrap();
    let stats = node.volumes.stats(&pod).await;
    let names: Vec<&str> = stats.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["data", "files", "memory", "settings", "about"]);
    let ephemeral: Vec<bool> = stats.iter().map(|volume| volume.is_ephemeral).collect();
    assert_eq!(ephemeral, [false, true, false, true, false]);
    let [data, files, memory, settings, about] = stats.as_slice() else { panic!("{stats:?}") };
    assert_eq!(data.claim, Some(("default".to_owned(), "data".to_owned())));
    let whole = kubelet::server::stats::fs_of(&disk, 0).unwrap();
    assert_eq!((data.fs.capacity_bytes, data.fs.inodes), (whole.capacity_bytes, whole.inodes));
    assert!(data.fs.used_bytes > files.fs.used_bytes, "all of the file system's");
    assert!((100_000..300_000).contains(&files.fs.used_bytes.unwrap()), "{files:?}");
    assert_eq!((files.fs.inodes_used, files.fs.capacity_bytes), (Some(2), whole.capacity_bytes));
    assert_eq!((memory.fs.capacity_bytes, memory.fs.used_bytes), (Some(1 << 20), Some(8192)));
    assert_eq!(memory.fs.available_bytes, Some((1 << 20) - 8192));
    assert!(settings.fs.inodes_used.unwrap() >= 4 && about.fs.capacity_bytes != whole.capacity_bytes);
    assert!(stats.iter().all(|volume| volume.fs.inodes_free.is_some() && volume.fs.timestamp > 0));
    node.end(&[&pod]).await;
}

#[test]
fn what_the_host_mounts_in_a_local_volume_stays() {
    on_shared_mounts(|| async {
        let node = TestNode::new(26).await;
        let disk = node.path().join("disk");
        fs::create_dir(&disk).unwrap();
        bound(&node, "data", "disk-1", json!({"spec": {"local": {"path": disk.to_str().unwrap()}}})).await;
        let pod = node.pod("web", claimed("data")).await;
        let volume = node.mount(&pod).await;
        let late = disk.join("late");
        mount_disk(&late);
        assert!(volume.host_path.join("late/precious").exists());
        node.volumes.remove(uid(&pod)).await.unwrap();
        assert!(!volume.host_path.exists());
        assert_eq!(mounts_below(&disk), std::slice::from_ref(&late));
        assert!(late.join("precious").exists());
        unmount(&late);
        node.end(&[&pod]).await;
    });
}
