//! `setpoint diff-pods`: a node beside upstream's kubelet, or beside what kubelet did when it was recorded. Needs root.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use crate::harness::*;
use crate::kubectl::Kubectl;
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
    "static-*",
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
    "static-changes",
];

/// What the recorded kubelet's runtime cannot do, on one node twice: the tool can drive it, and the node does the same each time.
#[test]
fn scenarios_without_a_recording_can_be_compared_live() {
    let manifests = tempfile::tempdir().unwrap();
    let config = format!("staticPodPath: {}", manifests.path().display());
    let Some(cluster) = Cluster::with(41, Runtime::Embedded, &config) else { return };
    let only = ["static-runs", "user-namespace*"].into_iter();
    let mut diff = Command::new(SETPOINT);
    diff.args(["diff-pods", "--node", "one", "--against", "one", "--parallel", "4", "--kubeconfig"])
        .arg(&cluster.server.as_ref().unwrap().kubeconfig)
        .args(only.flat_map(|name| ["--only", name]))
        .arg("--static-pods")
        .arg(manifests.path())
        .arg("--static-pods-against")
        .arg(manifests.path());
    let details = manifests.path().join(".details");
    let done = run_within(diff.arg("--details").arg(&details), Duration::from_secs(900));
    let said = String::from_utf8_lossy(&done.stdout);
    let seen = std::fs::read_to_string(details).unwrap_or_default();
    assert!(done.status.success(), "{said}\n{}\n{seen}", String::from_utf8_lossy(&done.stderr));
    assert!(!said.contains("left out"), "{said}");
    let lines: Vec<&str> = seen.lines().map(str::trim).collect();
    assert!(!lines.iter().any(|line| line.starts_with("trouble ")), "{seen}");
    for line in [
        "container c: waiting ContainerCreating > running started ready",
        "log c 000: 0 65536",
        "log c 002: /m 0 2000 3777",
    ] {
        assert!(lines.iter().any(|seen| seen.starts_with(line)), "{line}\n{seen}");
    }
    // With nothing to compare with one is left out.
    let scenario = |name: &str| {
        format!(
            "- name: {name}\n  spec: {{restartPolicy: Never, containers: [{{name: c, image: $IMAGE, command: [/bin/busybox, echo, done]}}]}}\n  \
             steps: [{{until: phase Succeeded}}]\n"
        )
    };
    let file = manifests.path().join(".scenarios");
    std::fs::write(&file, scenario("exits") + &scenario("never-recorded")).unwrap();
    let mut replay = Command::new(SETPOINT);
    replay
        .args(["diff-pods", "--node", "one", "--kubeconfig"])
        .arg(&cluster.server.as_ref().unwrap().kubeconfig);
    let done = run(replay.arg("--scenarios").arg(file));
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("left out: never-recorded was not recorded\n1 scenarios, "), "{said}");
}

#[test]
fn pods_do_as_kubelet_recorded() {
    compare_with_recorded(40, Runtime::Embedded, QUICK);
}

/// kubelet's own runtime: what is left is the agent's.
#[test]
fn pods_on_containerd_do_as_kubelet_recorded() {
    compare_with_recorded(48, Runtime::Containerd, QUICK_ON_CONTAINERD);
}

/// Which of two states is seen is a matter of chance on a busy machine: what differs is run once more, one after the other.
fn compare_with_recorded(number: u8, runtime: Runtime, quick: &[&str]) {
    let manifests = tempfile::tempdir().unwrap();
    let config = format!("staticPodPath: {}", manifests.path().display());
    let Some(cluster) = Cluster::with(number, runtime, &config) else { return };
    let details = std::path::Path::new("/tmp").join(format!("diff-pods-{}-{number}.txt", std::process::id()));
    let compare = |at_once: &str, only: &[&str]| {
        let mut diff = Command::new(SETPOINT);
        diff.args(["diff-pods", "--node", "one", "--parallel", at_once, "--kubeconfig"])
            .arg(&cluster.server.as_ref().unwrap().kubeconfig)
            .arg("--static-pods")
            .arg(manifests.path())
            .args(only.iter().flat_map(|name| ["--only", name]));
        // Longer than any other program of these tests takes.
        let limit = Duration::from_secs(if only.is_empty() { 3600 } else { 900 });
        let done = run_within(diff.arg("--details").arg(&details), limit);
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let long = rounds(0, 1) == 1;
    let (mut same, mut said) = compare("6", if long { &[] } else { quick });
    if !same && !said.contains("unused explanation") {
        let first = said.clone();
        let differ: BTreeSet<&str> =
            first.lines().filter(|line| !line.is_empty() && !line.contains(' ')).collect();
        assert!(!differ.is_empty(), "{first}");
        println!("once more: {differ:?}\n{first}");
        (same, said) = compare("1", &differ.into_iter().collect::<Vec<_>>());
    }
    assert!(same, "{said}\neverything: {}", details.display());
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
