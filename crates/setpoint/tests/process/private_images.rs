//! Pods with images of a registry that asks for a password. Needs root.

use crate::harness::*;
use crate::images::{Registry, can_run, lay};
use crate::node_cluster::Cluster;

/// `me` with the password `secret`.
const USERS: &str = "me:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";

#[test]
fn an_image_that_was_pulled_with_a_secret_is_nothing_for_pods_without_it() {
    if !can_run() || !available("docker-registry") {
        return;
    }
    let Some(cluster) = Cluster::start(64) else { return };
    let shelf = cluster.folder.path().join("shelf");
    std::fs::create_dir(&shelf).unwrap();
    lay(&shelf, "private/busybox", "1");
    let registry = Registry::start_for(&shelf, USERS);
    let image = format!("{}/private/busybox:1", registry.address);
    let server = format!("--docker-server={}", registry.address);
    let user = ["--docker-username=me", "--docker-password=secret"];
    cluster.kubectl.words(&["create", "secret", "docker-registry", "login", &server, user[0], user[1]]);

    let run = |name: &str, policy: &str, secret: &str| {
        let container = format!(
            "containers: [{{name: c, image: '{image}', imagePullPolicy: {policy}, command: [/bin/busybox, sleep, '1000']}}]"
        );
        cluster.run_pod(name, &format!("imagePullSecrets: [{secret}], {container}"));
    };
    let waits = |name: &str, reasons: &[&str]| {
        cluster.wait(&format!("{name}: {reasons:?}"), |cluster| {
            let container = cluster.container(name, "c");
            reasons.iter().any(|reason| container["state"]["waiting"]["reason"] == *reason)
        });
    };
    let refused = ["ErrImagePull", "ImagePullBackOff"];
    run("stranger", "IfNotPresent", "");
    waits("stranger", &refused);
    run("owner", "IfNotPresent", "{name: login}");
    cluster.wait_for("Running", &["owner"]);
    // It is there now, and still not theirs.
    run("guest", "IfNotPresent", "");
    waits("guest", &refused);
    run("never", "Never", "");
    waits("never", &["ErrImageNeverPull"]);
    run("again", "Never", "{name: login}");
    cluster.wait_for("Running", &["again"]);
    assert_eq!(cluster.phase("stranger"), "Pending");
    cluster.kubectl.run("delete pods --all --wait=true");
}
