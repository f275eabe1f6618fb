//! Pods and their AppArmor profiles, on a machine whose kernel enforces them. Needs root and such a machine; `scripts/test-cgroup2`
//! emulates one.

use std::path::Path;
use std::process::Command;

use crate::harness::skipped;
use crate::node_cluster::{Cluster, Runtime};

const PARSER: &str = "/sbin/apparmor_parser";
const SLEEP: &str = "image: IMAGE, command: [/bin/busybox, sleep, '100000']";
const CURRENT: &str = "/bin/busybox cat /proc/self/attr/current";
const DEFAULT: &str = "setpoint-default (enforce)";
/// As upstream's tests of nodes have one.
const PROFILE: &str = "profile setpoint-test-pods flags=(attach_disconnected) {
  file,
  signal,
  deny /** w,
}
";

fn start(number: u8) -> Option<Cluster> {
    if !Path::new("/sys/kernel/security/apparmor/profiles").exists() || !Path::new(PARSER).exists() {
        skipped("no kernel with AppArmor and apparmor_parser: see scripts/test-cgroup2");
        return None;
    }
    Cluster::with(number, Runtime::Embedded, "")
}

fn parse(option: &str, text: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let done = Command::new(PARSER).args(["--skip-cache", option]).arg(file.path()).output().unwrap();
    assert!(done.status.success(), "{option}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_pod_runs_under_the_profile_it_asks_for() {
    let Some(mut cluster) = start(48) else { return };
    let of = |context: &str| format!("containers: [{{name: c, {SLEEP}, securityContext: {context}}}]");
    let whole = format!(
        "securityContext: {{appArmorProfile: {{type: RuntimeDefault}}}}, containers: [{{name: c, {SLEEP}}}]"
    );
    let local = "{appArmorProfile: {type: Localhost, localhostProfile: setpoint-test-pods}}";
    cluster.run_pod("none", &of("{}"));
    cluster.run_pod("default", &whole);
    cluster.run_pod("unconfined", &of("{appArmorProfile: {type: Unconfined}}"));
    cluster.run_pod("privileged", &of("{privileged: true}"));
    cluster.run_pod("local", &of(local));
    cluster.wait_for("Running", &["none", "default", "unconfined", "privileged"]);
    for (pod, expected) in
        [("none", DEFAULT), ("default", DEFAULT), ("unconfined", "unconfined"), ("privileged", "unconfined")]
    {
        assert_eq!(cluster.said(pod, CURRENT), expected, "{pod}");
    }

    // A profile that is not loaded is waited for.
    cluster.wait("it is refused", |cluster| {
        cluster.container("local", "c")["state"]["waiting"]["reason"] == "CreateContainerError"
    });
    let told = cluster.container("local", "c")["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(
        told.ends_with(
            "failed to generate apparmor spec opts: apparmor profile not found setpoint-test-pods"
        ),
        "{told}"
    );
    cluster.wait_for_event("local", "Failed: Error: ");
    parse("--replace", PROFILE);
    cluster.wait_for("Running", &["local"]);
    assert_eq!(cluster.said("local", CURRENT), "setpoint-test-pods (enforce)");
    let denied = cluster.exec("local", "echo x > /x");
    assert!(String::from_utf8_lossy(&denied.stderr).contains("Permission denied"), "{denied:?}");

    // As kubelet's, the node's condition does not tell of it.
    let ready = "get node one -o jsonpath={.status.conditions[?(@.type=='Ready')].message}";
    assert_eq!(cluster.kubectl.run(ready), "kubelet is posting ready status");

    // The agent comes back: who runs is held as before, and so is who comes.
    if let Some(server) = cluster.server.take() {
        server.stop();
    }
    cluster.restart();
    cluster.run_pod("later", &of("{}"));
    cluster.wait_for("Running", &["later", "none", "local"]);
    for (pod, expected) in [("none", DEFAULT), ("later", DEFAULT), ("local", "setpoint-test-pods (enforce)")]
    {
        cluster.wait("it can be entered", |cluster| cluster.exec(pod, CURRENT).status.success());
        assert_eq!(cluster.said(pod, CURRENT), expected, "{pod}");
        assert_eq!(cluster.container(pod, "c")["restartCount"], 0);
    }
    let log = cluster.server.as_ref().unwrap().log();
    assert!(!log.contains("AppArmor"), "nothing to complain about: {log}");
    cluster.kubectl.run("delete pod --all --wait=true");
    parse("--remove", PROFILE);
}
