//! `setpoint bench` against the real server: scenarios whose objects its schemas must accept.

use std::process::Command;

use crate::harness::*;

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
    measure(&["create-webhook", "create-policies", "create-unconcerned"]);
}

/// One after the other: each has its own time, however busy the machine is.
fn measure(scenarios: &[&str]) {
    let folder = folder();
    let server = Proc::start_cluster(&folder.path().join("data"), &[]);
    let (kubeconfig, figures) =
        (folder.path().join("data/admin.kubeconfig"), folder.path().join("figures.json"));
    for name in scenarios {
        let mut bench = Command::new(SETPOINT);
        bench.args(["bench", "--seconds", "1", "--warmup", "0", "--connections", "8"]);
        bench.arg("--kubeconfig").arg(&kubeconfig).arg("--json").arg(&figures).arg(name);
        let output = run(&mut bench);
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let figures = std::fs::read_to_string(&figures).unwrap();
        let row = figures.lines().find(|line| line.contains(&format!("\"scenario\":\"{name}\""))).unwrap();
        let row: serde_json::Value = serde_json::from_str(row.trim_end_matches(',')).unwrap();
        assert_eq!(row["failures"], serde_json::json!({}), "{row}");
        assert!(row["requests"].as_u64().unwrap() > 0, "{row}");
    }
    server.stop();
}
