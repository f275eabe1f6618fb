//! `setpoint bench` against the real server: scenarios whose objects its schemas must accept.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::*;
use crate::images::archive_of;
use crate::node_cluster::Cluster;

#[test]
fn scenarios_of_patches_and_applies_measure_without_failures() {
    measure(&["apply", "apply-unchanged", "patch-status"]);
}

#[test]
fn scenarios_of_custom_resources_measure_without_failures() {
    measure(&[
        "create-custom",
        "cel",
        "get-custom",
        "list-configmaps",
        "list-custom",
        "watch-custom",
        "crd-install",
    ]);
}

#[test]
fn scenarios_of_admission_measure_without_failures() {
    measure(&[
        "create-webhook",
        "create-policies",
        "create-unconcerned",
        "patch-unconcerned",
        "apply-unconcerned",
    ]);
}

#[test]
fn scenarios_of_containers_measure_without_failures() {
    let Some(cluster) = Cluster::start(68) else { return };
    let ends = "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.1; done";
    let folder = cluster.folder.path().join("runs");
    std::fs::create_dir(&folder).unwrap();
    cluster.import(&archive_of(&folder, "docker.io/test/runs:1", &["/bin/busybox", "sh", "-c", ends]));
    let kubeconfig = cluster.data().join("admin.kubeconfig");
    for (name, measured) in [("pod-start", 3), ("pod-churn", 5), ("exec", 200)] {
        let flags = ["--image", "test/runs:1", "--pods", if name == "pod-churn" { "5" } else { "3" }];
        let row = row(name, &kubeconfig, &cluster.folder.path().join("figures.json"), &flags);
        assert_eq!(row["requests"], measured, "{row}");
        let notes = row["notes"].to_string();
        match name {
            "pod-churn" => {
                assert!(notes.contains("5 pods Running after ") && notes.contains(", gone "), "{row}")
            }
            _ => assert_eq!(notes, "[]", "{row}"),
        }
    }
    cluster.wait("nothing is left of the pods", |cluster| cluster.sandboxes() == 0);
}

/// One after the other: each has its own time, however busy the machine is.
fn measure(scenarios: &[&str]) {
    let folder = folder();
    let server = Proc::start_cluster(&folder.path().join("data"), &[]);
    let (kubeconfig, figures) =
        (folder.path().join("data/admin.kubeconfig"), folder.path().join("figures.json"));
    for name in scenarios {
        let flags = ["--seconds", "1", "--warmup", "0", "--connections", "8"];
        assert!(row(name, &kubeconfig, &figures, &flags)["requests"].as_u64().unwrap() > 0);
    }
    server.stop();
}

/// What one scenario measured, without failures.
fn row(name: &str, kubeconfig: &Path, figures: &Path, flags: &[&str]) -> Value {
    let mut bench = Command::new(SETPOINT);
    bench.arg("bench").args(flags);
    bench.arg("--kubeconfig").arg(kubeconfig).arg("--json").arg(figures).arg(name);
    let output = run(&mut bench);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let figures = std::fs::read_to_string(figures).unwrap();
    let row = figures.lines().find(|line| line.contains(&format!("\"scenario\":\"{name}\""))).unwrap();
    let row: Value = serde_json::from_str(row.trim_end_matches(',')).unwrap();
    assert_eq!(row["failures"], serde_json::json!({}), "{row}");
    row
}
