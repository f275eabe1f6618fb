//! Config maps, secrets, the downward API and their projections as files; emptyDirs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use kubelet::volumes::{ImageVolume, image_volumes};
use object::Value;
use serde_json::json;

use crate::node::{CONFIG_MAPS, SECRETS, TestNode, is_root, mounts_below, text, uid};

#[tokio::test(start_paused = true)]
async fn a_config_map_reaches_its_files_by_one_swap() {
    let node = TestNode::new(11).await;
    node.config_map("app", json!({"a": "1", "b": "2"})).await;
    let pod = node.pod("web", json!([{"name": "config", "configMap": {"name": "app"}}])).await;
    let volume = node.mount(&pod).await;
    assert!(volume.read_only);
    let path = volume.host_path.clone();
    assert!(path.ends_with(format!("pods/{}/volumes/kubernetes.io~configmap/config", uid(&pod))));
    assert_eq!(text(&path, "a").as_deref(), Some("1"));
    let before = fs::read_link(path.join("..data")).unwrap();
    node.volumes.refresh(&pod).await.unwrap();
    assert_eq!(fs::read_link(path.join("..data")).unwrap(), before, "nothing changed");

    let change = json!({"data": {"a": "3", "b": null}});
    node.cluster.merge(format!("{CONFIG_MAPS}/app"), change).await.ok(200);
    node.until_told(uid(&pod)).await;
    node.volumes.refresh(&pod).await.unwrap();
    assert_eq!(text(&path, "a").as_deref(), Some("3"));
    assert_eq!(text(&path, "b"), None);
    assert_eq!(node.mount(&pod).await, volume, "mounting again changes nothing");
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_told_in_kubelets_words_and_waited_for() {
    let node = TestNode::new(12).await;
    let volumes =
        json!([{"name": "config", "configMap": {"name": "late", "items": [{"key": "k", "path": "p"}]}}]);
    let pod = node.pod("web", volumes).await;
    let said = |why: &str| vec![format!("MountVolume.SetUp failed for volume \"config\" : {why}")];
    assert_eq!(node.refused(&pod).await, said("configmap \"late\" not found"));
    let error = node.volumes.mount(&pod).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "unmounted volumes=[config], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
    );
    node.config_map("late", json!({})).await;
    node.until_told(uid(&pod)).await;
    assert_eq!(node.refused(&pod).await, said("configmap references non-existent config key: k"));
    node.cluster.merge(format!("{CONFIG_MAPS}/late"), json!({"data": {"k": "v"}})).await.ok(200);
    node.until_told(uid(&pod)).await;
    assert_eq!(text(&node.mount(&pod).await.host_path, "p").as_deref(), Some("v"));

    let optional = json!([{"name": "config", "configMap": {"name": "never", "optional": true}}]);
    let other = node.pod("other", optional).await;
    assert!(node.mount(&other).await.host_path.is_dir());
    node.end(&[&pod, &other]).await;
}

#[tokio::test(start_paused = true)]
async fn a_projected_volume_holds_all_its_sources() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(13).await;
    node.config_map("app", json!({"a": "1"})).await;
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"k": "hidden"}});
    node.cluster.post(SECRETS, secret).await.ok(201);
    let sources = json!([
        {"configMap": {"name": "app", "items": [{"key": "a", "path": "conf/a", "mode": 0o400}]}},
        {"secret": {"name": "key"}},
        {"downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "memory", "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}},
        ]}},
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
    ]);
    let volumes = json!([{"name": "all", "projected": {"sources": sources, "defaultMode": 0o640}}]);
    let pod = node.pod("web", volumes).await;
    let path = node.mount(&pod).await.host_path;
    assert_eq!(mounts_below(node.path()), [path.as_path()], "a tmpfs: nothing of it reaches the disk");
    assert_eq!(text(&path, "conf/a").as_deref(), Some("1"));
    assert_eq!(text(&path, "k").as_deref(), Some("hidden"));
    assert_eq!(text(&path, "labels").as_deref(), Some("app=\"web\""));
    assert_eq!(text(&path, "memory").as_deref(), Some("1024"));
    let token = text(&path, "token").unwrap();
    let mode = |file: &str| fs::metadata(path.join(file)).unwrap().mode() & 0o7777;
    assert_eq!((mode("conf/a"), mode("k"), mode("token")), (0o400, 0o640, 0o640));

    // Labels change, and the token is due.
    let body = json!({"metadata": {"labels": {"app": "new"}}});
    node.cluster.merge("/api/v1/namespaces/default/pods/web", body).await.ok(200);
    node.cluster.env().sleep(std::time::Duration::from_secs(3000)).await;
    node.volumes.refresh(&node.read("web").await).await.unwrap();
    assert_eq!(text(&path, "labels").as_deref(), Some("app=\"new\""));
    assert_ne!(text(&path, "token").unwrap(), token);
    assert_eq!(mounts_below(node.path()).len(), 1);
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn files_belong_to_the_group_of_the_pod_and_tokens_to_its_user() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(14).await;
    let secret = json!({"metadata": {"name": "key"}, "stringData": {"k": "hidden"}});
    node.cluster.post(SECRETS, secret).await.ok(201);
    let sources = json!([{"secret": {"name": "key"}}, {"serviceAccountToken": {"path": "token"}}]);
    let volumes = json!([
        {"name": "all", "projected": {"sources": sources, "defaultMode": 0o400}},
        {"name": "scratch", "emptyDir": {}},
    ]);
    let security = json!({"securityContext": {"fsGroup": 4321, "runAsUser": 1234}});
    let pod = node.pod_with("web", volumes, security).await;
    let mounted = node.volumes.mount(&pod).await.unwrap();
    let of = |volume: &str, file: &str| {
        let data = fs::metadata(mounted[volume].host_path.join(file)).unwrap();
        (data.uid(), data.gid(), data.mode() & 0o7777)
    };
    assert_eq!(of("all", "k"), (0, 4321, 0o440));
    assert_eq!(of("all", "token"), (1234, 4321, 0o640));
    assert_eq!(of("scratch", ""), (0, 4321, 0o2777));
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn empty_dirs_are_on_disk_or_in_bounded_memory() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(15).await;
    let volumes = json!([
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Ki"}},
    ]);
    let pod = node.pod("web", volumes).await;
    let mounted = node.volumes.mount(&pod).await.unwrap();
    let (disk, memory) = (&mounted["disk"].host_path, &mounted["memory"].host_path);
    assert_eq!(fs::metadata(disk).unwrap().mode() & 0o7777, 0o777);
    fs::write(disk.join("kept"), "x").unwrap();
    fs::write(memory.join("small"), vec![0; 1 << 10]).unwrap();
    assert!(fs::write(memory.join("large"), vec![0; 1 << 20]).is_err(), "no more than its limit");
    assert_eq!(node.volumes.mount(&pod).await.unwrap(), mounted);
    assert_eq!(text(disk, "kept").as_deref(), Some("x"), "an agent that comes back changes nothing");
    assert_eq!(mounts_below(node.path()).len(), 1);

    let usage = node.volumes.usage(uid(&pod), Duration::from_secs(60)).await.unwrap();
    let of = |name: &str| usage.iter().find(|volume| volume.volume == name).unwrap();
    assert!(of("memory").memory && !of("disk").memory);
    assert_eq!(of("disk").usage.inodes, 2);
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn volumes_no_container_uses_are_not_made() {
    let node = TestNode::new(16).await;
    let volumes = json!([{"name": "idle", "configMap": {"name": "missing"}}]);
    let containers = json!({"containers": [{"name": "main", "image": "i"}]});
    let pod = node.pod_with("web", volumes, containers).await;
    assert_eq!(node.volumes.mount(&pod).await, Ok(Default::default()));
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_node_cannot_mount_is_refused_by_name() {
    let node = TestNode::new(17).await;
    let volumes = json!([{"name": "share", "nfs": {"server": "s", "path": "/"}}]);
    let pod = node.pod("web", volumes).await;
    assert_eq!(
        node.refused(&pod).await,
        [
            "MountVolume.SetUp failed for volume \"share\" : no volume plugin matched: nfs volumes are not supported by this node"
        ]
    );
    let image = node.pod("data", json!([{"name": "data", "image": {"reference": "app:1"}}])).await;
    let mounted = node.mount(&image).await;
    assert!(mounted.read_only);
    assert_eq!(mounted.image.unwrap().reference, "app:1");
    node.end(&[&pod, &image]).await;
}

#[test]
fn only_the_images_a_container_mounts_are_its_volumes() {
    let body = json!({"metadata": {"name": "web"}, "spec": {
        "volumes": [
            {"name": "data", "image": {"reference": "app:1", "pullPolicy": "Never"}},
            {"name": "other", "image": {"reference": "app:2"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "containers": [{"name": "main", "volumeMounts": [{"name": "data"}, {"name": "tmp"}]}, {"name": "bare"}],
    }});
    let pod = runtime::parse(&body.to_string()).unwrap();
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    let of = |index: usize| image_volumes(&pod, &containers[index]);
    let wanted = ImageVolume { reference: "app:1".to_owned(), pull_policy: Some("Never".to_owned()) };
    assert_eq!(of(0), [("data", wanted)]);
    assert_eq!(of(1), []);
}

#[tokio::test(start_paused = true)]
async fn host_paths_are_checked() {
    let node = TestNode::new(18).await;
    let path = node.path().join("file").to_str().unwrap().to_owned();
    fs::write(&path, "").unwrap();
    let volumes = json!([{"name": "host", "hostPath": {"path": path, "type": "Directory"}}]);
    let pod = node.pod("web", volumes).await;
    let why = format!("hostPath type check failed: {path} is not a directory");
    assert_eq!(node.refused(&pod).await, [format!("MountVolume.SetUp failed for volume \"host\" : {why}")]);
    let volumes = json!([{"name": "host", "hostPath": {"path": path, "type": "File"}}]);
    let pod = node.pod("right", volumes).await;
    let mounted = node.mount(&pod).await;
    assert_eq!((mounted.host_path.to_str(), mounted.read_only), (Some(&*path), false));
    node.end(&[&pod]).await;
}
