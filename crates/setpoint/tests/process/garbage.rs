//! What a node removes from time to time, with real containers of both runtimes: dead containers, their logs, images, directories. Needs root.

use std::fs;

use crate::images::archive_of;
use crate::node_cluster::{Cluster, Runtime};

/// The disk is always too full for images nobody uses.
const CONFIG: &str =
    "imageGCHighThresholdPercent: 1\nimageGCLowThresholdPercent: 0\nimageMinimumGCAge: 1ms\n";
const OFTEN: &[&str] = &["--garbage-period=1"];

#[test]
fn garbage_is_collected_from_time_to_time() {
    collect(Cluster::with_flags(22, Runtime::Embedded, "", OFTEN));
}

#[test]
fn garbage_is_collected_from_time_to_time_on_containerd() {
    collect(Cluster::with_flags(23, Runtime::Containerd, "", OFTEN));
}

fn collect(cluster: Option<Cluster>) {
    let Some(mut cluster) = cluster else { return };
    cluster.run_pod("stays", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sleep, '1000']}]");
    // Ends twice, then goes on.
    cluster.run_pod("ends", "containers: [{name: c, image: IMAGE, command: [/bin/busybox, sh, -c, 'n=$(busybox cat /data/n); echo x$n > /data/n; [ x$n = xxx ] || exit 1; exec busybox sleep 1000'], volumeMounts: [{name: data, mountPath: /data}]}], volumes: [{name: data, emptyDir: {}}]");
    cluster.wait_for("Running", &["stays", "ends"]);
    let unused = cluster.folder.path().join("unused");
    fs::create_dir(&unused).unwrap();
    cluster.import(&archive_of(&unused, "docker.io/test/unused:1", &["/bin/x"]));
    // Only now that the pods have theirs: an image is nobody's until a container was made of it.
    cluster.restart_with(CONFIG);

    // Images that nobody uses, however they came.
    cluster.wait("the unused image is gone", |cluster| !cluster.images().contains("test/unused"));
    assert!(cluster.images().contains("test/busybox"), "{}", cluster.images());

    // Of a container that ended the last is kept, with its log.
    cluster.wait("it ended twice", |cluster| {
        let status = cluster.container("ends", "c");
        status["restartCount"] == 2 && status["state"]["running"].is_object()
    });
    let logs = cluster.log_folder("ends").join("c");
    cluster.wait("what ended first is gone", |cluster| {
        let mut left: Vec<_> = fs::read_dir(&logs).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        // What runs in both pods, and what ended last.
        left == ["1.log", "2.log"] && cluster.container_count() == 3
    });
    assert_eq!(cluster.container("ends", "c")["lastState"]["terminated"]["exitCode"], 1);

    // Directories of pods that nobody knows.
    let uid = "6f1f5b2c-0000-4000-8000-00000000dead";
    let volumes = cluster.data().join("node/pods").join(uid).join("volumes/kubernetes.io~empty-dir/x");
    fs::create_dir_all(&volumes).unwrap();
    fs::write(volumes.join("file"), "left").unwrap();
    let log = cluster.data().join("node/logs").join(format!("default_ghost_{uid}/c"));
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("0.log"), "left").unwrap();
    cluster.wait("the directories are gone", |cluster| {
        let pods = cluster.data().join("node/pods").join(uid);
        !pods.exists() && !log.parent().unwrap().exists()
    });
    // Its port is another one since it was restarted.
    cluster.wait("the node is asked where it is", |cluster| {
        cluster.kubectl.try_run("get --raw /api/v1/nodes/one/proxy/healthz").status.success()
    });
    for pod in ["stays", "ends"] {
        assert_eq!(cluster.said(pod, "echo here"), "here");
    }
    cluster.kubectl.run("delete pod --all --wait=true");
    cluster.wait("nothing is left", |cluster| cluster.sandboxes() == 0);
}
