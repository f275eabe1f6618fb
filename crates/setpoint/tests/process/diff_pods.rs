//! `setpoint diff-pods`: a node beside upstream's kubelet, or beside what kubelet did when it was recorded. Needs root.

use std::process::{Command, Stdio};

use crate::harness::*;
use crate::node_cluster::{Cluster, Runtime};

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

/// One or two of each kind.
const QUICK_ON_CONTAINERD: &[&str] = &[
    "exits",
    "no-such-command",
    "out-of-memory",
    "ends-on-term",
    "init-in-order",
    "sidecar",
    "restart-all",
    "pre-stop-fails",
    "liveness-exec",
    "message-*",
    "never-pulled",
    "hosts-and-names",
    "identity*",
    "masked-paths",
    "volumes-with-group",
    "resize",
    "ephemeral",
];

#[test]
fn pods_do_as_kubelet_recorded() {
    compare_with_recorded(40, Runtime::Embedded, QUICK);
}

/// kubelet's own runtime: what is left is the agent's.
#[test]
fn pods_on_containerd_do_as_kubelet_recorded() {
    compare_with_recorded(41, Runtime::Containerd, QUICK_ON_CONTAINERD);
}

fn compare_with_recorded(number: u8, runtime: Runtime, quick: &[&str]) {
    let Some(cluster) = Cluster::with(number, runtime, "") else { return };
    let long = rounds(0, 1) == 1;
    let details = std::path::Path::new("/tmp").join(format!("diff-pods-{}-{number}.txt", std::process::id()));
    let mut diff = Command::new(SETPOINT);
    diff.args(["diff-pods", "--node", "one", "--parallel", "6", "--kubeconfig"])
        .arg(&cluster.server.as_ref().unwrap().kubeconfig)
        .args(quick.iter().filter(|_| !long).flat_map(|name| ["--only", name]));
    // Longer than any other program of these tests takes.
    let done = diff.arg("--details").arg(&details).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}\neverything: {}", details.display());
    std::fs::remove_file(details).unwrap();
}
