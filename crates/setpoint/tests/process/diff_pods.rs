//! `setpoint diff-pods`: a node beside upstream's kubelet, or beside what kubelet did when it was recorded. Needs root.

use std::process::Command;
use std::time::Duration;

use crate::harness::*;
use crate::kubectl::Kubectl;
use crate::node_cluster::Cluster;

/// Those that wait for nothing; with `SETPOINT_LONG=1` all are run.
const QUICK: &[&str] = &[
    "exits",
    "fails",
    "no-working-directory",
    "out-of-memory",
    "ends-on-term",
    "deadline",
    "init-in-order",
    "init-fails",
    "sidecar",
    "container-rules",
    "restart-all",
    "post-start*",
    "pre-stop-fails",
    "pre-stop-too-long",
    "liveness-exec",
    "readiness-gate",
    "message-*",
    "never-pulled",
    "missing-key",
    "too-much-*",
    "environment",
    "hosts-and-names",
    "identity*",
    "capabilities",
    "masked-paths",
    "volumes-with-group",
    "resize",
    "ephemeral",
];

#[test]
fn pods_do_as_kubelet_recorded() {
    let Some(cluster) = Cluster::start(40) else { return };
    let long = rounds(0, 1) == 1;
    let details = std::path::Path::new("/tmp").join(format!("diff-pods-{}.txt", std::process::id()));
    let mut diff = Command::new(SETPOINT);
    diff.args(["diff-pods", "--node", "one", "--parallel", "6", "--kubeconfig"])
        .arg(&cluster.server.as_ref().unwrap().kubeconfig)
        .args(QUICK.iter().filter(|_| !long).flat_map(|name| ["--only", name]));
    // Longer than any other program of these tests takes.
    let limit = Duration::from_secs(if long { 3600 } else { 900 });
    let done = run_within(diff.arg("--details").arg(&details), limit);
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\neverything: {}", details.display());
    std::fs::remove_file(details).unwrap();
}

#[test]
fn no_namespace_is_left_behind_when_the_other_node_is_not_there() {
    let folder = folder();
    let server = Proc::start_cluster(&folder.path().join("data"), &[]);
    let Some(kubectl) = Kubectl::new(&server, folder.path()) else { return };
    kubectl.file("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: here}\n");
    kubectl.run("create -f node.yaml");
    let mut diff = Command::new(SETPOINT);
    diff.args(["diff-pods", "--node", "here", "--against", "nowhere", "--kubeconfig"])
        .arg(&server.kubeconfig);
    let done = run(&mut diff);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("nowhere"), "{said}");
    wait_until("the namespace is gone", || {
        kubectl.run("get namespaces -l setpoint-diff=true -o name").trim().is_empty()
    });
    server.stop();
}
