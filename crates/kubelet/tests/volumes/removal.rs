//! What is left of pods that are gone, and parts of volumes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::json;

use crate::node::{SECRETS, TestNode, is_root, mount_disk, mounts_below, on_shared_mounts, uid, unmount};

#[tokio::test(start_paused = true)]
async fn what_an_agent_left_that_was_killed_is_found_and_removed() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(31).await;
    let volumes = json!([
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "disk", "emptyDir": {}},
    ]);
    let (gone, kept) = (node.pod("gone", volumes.clone()).await, node.pod("kept", volumes).await);
    let mounted = node.volumes.mount(&gone).await.unwrap();
    node.volumes.mount(&kept).await.unwrap();
    fs::create_dir_all(mounted["disk"].host_path.join("a/b")).unwrap();
    fs::write(mounted["memory"].host_path.join("f"), "x").unwrap();
    assert_eq!(mounts_below(node.path()).len(), 2);

    let known = BTreeSet::from([uid(&kept).to_owned()]);
    let orphans = node.volumes.orphans(&known).await.unwrap();
    assert_eq!(orphans, [uid(&gone)]);
    node.volumes.remove(&orphans[0]).await.unwrap();
    assert!(!node.volumes.pod_directory(uid(&gone)).exists());
    assert_eq!(mounts_below(node.path()).len(), 1);
    assert_eq!(node.volumes.orphans(&known).await.unwrap(), Vec::<String>::new());
    for uid in ["", "..", "../..", "a/b"] {
        node.volumes.remove(uid).await.unwrap();
    }
    assert!(node.volumes.pod_directory(uid(&kept)).exists());
    node.end(&[&kept]).await;
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_a_mount_that_nobody_waits_for_any_more() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(33).await;
    let pod = node.pod("gone", json!([{"name": "memory", "emptyDir": {"medium": "Memory"}}])).await;
    *node.held.lock() = Some(Vec::new());
    let moment = std::time::Duration::from_millis(1);
    assert!(node.cluster.env().timeout(moment, node.volumes.mount(&pod)).await.is_err());
    let count = || node.held.lock().as_ref().unwrap().len();
    assert_eq!(count(), 1);
    {
        let mut removal = std::pin::pin!(node.volumes.remove(uid(&pod)));
        assert!(node.cluster.env().timeout(moment, removal.as_mut()).await.is_err());
        assert_eq!(count(), 1, "the removal would meet the mount half done");
        for job in node.held.lock().take().unwrap() {
            job();
        }
        removal.await.unwrap();
    }
    assert_eq!(mounts_below(node.path()).len(), 0);
    node.end(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_sub_path_is_made_once_and_never_leads_out_of_its_volume() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(32).await;
    let pod = node.pod("web", json!([{"name": "data", "emptyDir": {}}])).await;
    let volume = node.mount(&pod).await;
    let prepare = async |sub_path: &str, index| {
        node.volumes.prepare_sub_path(uid(&pod), ("data", &volume), sub_path, "main", index).await
    };
    let place = prepare("a/b", 0).await.unwrap();
    assert!(place.ends_with("volume-subpaths/data/main/0"));
    fs::write(place.join("f"), "x").unwrap();
    assert!(volume.host_path.join("a/b/f").exists());
    // The pod puts a link there afterwards: the container keeps what was found.
    fs::rename(volume.host_path.join("a/b"), volume.host_path.join("moved")).unwrap();
    symlink("/etc", volume.host_path.join("a/b")).unwrap();
    assert!(place.join("f").exists());
    assert_eq!(
        prepare("a/b", 0).await.unwrap_err(),
        "failed to create subPath directory for volumeMount \"data\" of container \"main\""
    );
    assert_eq!(prepare("moved", 0).await.unwrap(), place);
    assert!(place.join("f").exists());
    // Started again, the container gets what is there then.
    assert_eq!(prepare("a", 0).await.unwrap(), place);
    assert!(!place.join("f").exists());
    assert_eq!(mounts_below(&place).len(), 1);
    fs::write(volume.host_path.join("file"), "y").unwrap();
    let file = prepare("file", 2).await.unwrap();
    assert_eq!(fs::read_to_string(file).unwrap(), "y");
    assert_eq!(prepare("/a", 3).await.unwrap_err(), "error SubPath `/a` must not be an absolute path");
    node.volumes.unmount(uid(&pod)).await.unwrap();
    assert!(!volume.host_path.exists());
    node.end(&[&pod]).await;
}

#[tokio::test(start_paused = true)]
async fn a_mount_somebody_left_in_a_volume_is_not_emptied() {
    if !is_root() {
        return;
    }
    let node = TestNode::new(33).await;
    let pod = node.pod("web", json!([{"name": "data", "emptyDir": {}}])).await;
    let volume = node.mount(&pod).await;
    let outside = node.path().join("outside");
    fs::create_dir_all(outside.join("d")).unwrap();
    fs::write(outside.join("d/precious"), "x").unwrap();
    let inner = volume.host_path.join("inner");
    fs::create_dir(&inner).unwrap();
    rustix::mount::mount_bind(&outside, &inner).unwrap();
    node.volumes.unmount(uid(&pod)).await.unwrap();
    assert!(outside.join("d/precious").exists());
    assert!(!volume.host_path.exists());
    node.end(&[&pod]).await;
}

#[test]
fn what_the_host_has_mounted_below_a_sub_path_stays() {
    on_shared_mounts(|| async {
        let node = TestNode::new(34).await;
        let host = node.path().join("host");
        let disk = host.join("d/disk");
        mount_disk(&disk);
        let source = json!({"path": host.to_str().unwrap()});
        let pod = node.pod("web", json!([{"name": "data", "hostPath": source}])).await;
        let volume = node.mount(&pod).await;
        let prepare = node.volumes.prepare_sub_path(uid(&pod), ("data", &volume), "d", "main", 0);
        let place = prepare.await.unwrap();
        assert!(!place.join("disk/precious").exists(), "kubelet's bind is of one mount");
        let late = host.join("d/late");
        mount_disk(&late);
        assert!(place.join("late/precious").exists());
        // Also while somebody uses it.
        let used = fs::File::open(late.join("precious")).unwrap();
        node.volumes.unmount(uid(&pod)).await.unwrap();
        assert!(!place.exists());
        assert_eq!(mounts_below(&host), [disk.clone(), late.clone()]);
        drop(used);
        for mounted in [disk, late] {
            assert!(mounted.join("precious").exists());
            unmount(&mounted);
        }
        node.end(&[&pod]).await;
    });
}

#[tokio::test(start_paused = true)]
async fn no_other_user_of_the_machine_reads_what_a_pod_was_given() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    let node = TestNode::new(36).await;
    fs::set_permissions(node.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "x"}});
    node.cluster.post(SECRETS, secret).await.ok(201);
    let volumes = json!([{"name": "s", "secret": {"secretName": "s"}}, {"name": "data", "emptyDir": {}}]);
    let pod = node.pod("web", volumes).await;
    let volumes = node.volumes.mount(&pod).await.unwrap();
    let prepare = node.volumes.prepare_sub_path(uid(&pod), ("data", &volumes["data"]), "d", "main", 0);
    fs::write(prepare.await.unwrap().join("file"), "x").unwrap();
    let is_read = |path: &Path, user: u32| {
        let mut cat = std::process::Command::new("cat");
        cat.arg(path).uid(user).gid(user).stderr(std::process::Stdio::null());
        cat.output().unwrap().status.success()
    };
    let files = ["volumes/kubernetes.io~secret/s/password", "volume-subpaths/data/main/0/file"];
    for path in files.map(|file| node.volumes.pod_directory(uid(&pod)).join(file)) {
        assert!(is_read(&path, 0), "{}", path.display());
        assert!(!is_read(&path, 65534), "{}", path.display());
    }
    let open = node.path().join("open");
    fs::write(&open, "x").unwrap();
    assert!(is_read(&open, 65534), "others read nothing at all here");
    // Each by itself, should one of them be opened to others.
    let root = node.volumes.pods_directory();
    for path in [root.clone(), node.volumes.pod_directory(uid(&pod)), root.join(uid(&pod)).join("volumes")] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o027, 0, "{}", path.display());
    }
    node.end(&[&pod]).await;
}
