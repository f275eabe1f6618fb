//! Every resource there is, with kubectl: created with validation on, labelled, patched, listed, described, deleted.

use std::collections::BTreeSet;

use crate::harness::*;
use crate::kubectl::Kubectl;

const MANIFESTS: &str = include_str!("manifests.yaml");

#[test]
fn kubectl_creates_labels_patches_lists_describes_and_deletes_every_resource() {
    let folder = folder();
    // Nobody here takes the protection of volumes away again.
    let off = ["--disable-admission-plugins", "StorageObjectInUseProtection"];
    let server = Proc::start_with(&folder.path().join("data"), &off);
    let Some(k) = Kubectl::new(&server, folder.path()) else { return };
    k.file("ns.json", r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"sweep"}}"#);
    k.run("create -f ns.json");
    k.file("all.yaml", MANIFESTS);

    let resources = lines(&k.run("api-resources --verbs=create,list,watch,get,update,patch,delete -o name"));
    assert!(resources.len() >= 59, "{resources:?}");
    let count = MANIFESTS.split("\n---\n").count();

    let created = k.run("create -n sweep -f all.yaml --validate=strict");
    assert_eq!(created.lines().filter(|l| l.ends_with(" created")).count(), count, "{created}");
    // "RESOURCE/NAME" of every manifest; a resource without one is a gap of this test.
    let names = lines(&k.run("get -n sweep -f all.yaml -o name"));
    let swept: BTreeSet<String> =
        names.iter().filter_map(|n| Some(n.split_once('/')?.0.to_owned())).collect();
    for resource in &resources {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let found = swept.iter().any(|s| {
            let (singular, of) = s.split_once('.').unwrap_or((s, ""));
            of == group && (plural == singular || is_plural(singular, plural))
        });
        assert!(found, "no manifest for {resource}");
    }

    for (words, done) in [
        (vec!["label", "-n", "sweep", "-f", "all.yaml", "swept=yes"], "labeled"),
        (vec!["annotate", "-n", "sweep", "-f", "all.yaml", "how=well"], "annotated"),
        (patch("merge", r#"{"metadata":{"labels":{"merged":"yes"}}}"#), "patched"),
        (patch("strategic", r#"{"metadata":{"annotations":{"strategic":"yes"}}}"#), "patched"),
        (patch("json", r#"[{"op":"replace","path":"/metadata/labels/swept","value":"twice"}]"#), "patched"),
        (vec!["apply", "-n", "sweep", "-f", "all.yaml"], "configured"),
    ] {
        let text = k.words(&words);
        assert_eq!(text.lines().filter(|l| l.ends_with(done)).count(), count, "{words:?}: {text}");
    }
    for resource in &resources {
        let listed = k.run(&format!("get {resource} -A -l swept=twice,merged=yes -o name"));
        assert!(!listed.trim().is_empty(), "{resource} is not listed by its label");
    }
    holds_columns(&k);
    for name in &names {
        describes(&k, name);
    }

    // A namespace stays until somebody says that its contents are gone; here that is us, last.
    let rest: Vec<&str> = MANIFESTS.split("\n---\n").filter(|m| !m.contains("kind: Namespace\n")).collect();
    k.file("rest.yaml", &rest.join("\n---\n"));
    k.run("delete -n sweep -f rest.yaml --timeout=30s");
    k.run("delete namespace swept --wait=false");
    assert_eq!(k.run("get namespace swept -o jsonpath={.status.phase}"), "Terminating");
    k.file(
        "done.json",
        r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"swept"},"spec":{"finalizers":[]}}"#,
    );
    k.run("replace --raw /api/v1/namespaces/swept/finalize -f done.json");
    k.run("wait --for=delete namespace/swept --timeout=30s");
    let all = resources.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    assert_eq!(k.run(&format!("get {all} -A -l swept -o name")), "", "all are gone");
}

/// The table view works for every kind, with names and ages.
fn holds_columns(k: &Kubectl) {
    let text = k.run("get -n sweep -f all.yaml");
    assert_eq!(text.matches("NAME").count(), text.matches("NAME ").count(), "{text}");
    assert!(text.lines().filter(|l| l.contains("swept") || l.contains("10.0.0.99")).count() >= 59, "{text}");
}

/// Older kubectls describe these through a beta version that v1.36 does not serve.
const BETA_IN_KUBECTL: [&str; 3] =
    ["ipaddress.networking.k8s.io", "servicecidr.networking.k8s.io", "volumeattributesclass.storage.k8s.io"];

/// Lines that `describe` shows of the kinds people look at most. Its columns are as wide as it likes.
const DESCRIBED: &[(&str, &[&str])] = &[
    ("pod", &["Status: Pending", "Image: busybox", "QoS Class: Burstable"]),
    (
        "deployment.apps",
        &["Replicas: 1 desired | 0 updated", "StrategyType: RollingUpdate", "Image: busybox"],
    ),
    ("service", &["Type: ClusterIP", "TargetPort: 80/TCP", "Session Affinity: None"]),
    (
        "node",
        &[
            "Taints: node.kubernetes.io/not-ready:NoSchedule",
            "Unschedulable: false",
            "Non-terminated Pods: (0 in total)",
        ],
    ),
    ("persistentvolumeclaim", &["Status: Pending", "VolumeMode: Filesystem", "Used By: <none>"]),
    ("job.batch", &["Completions: 1", "Backoff Limit: 6", "Pods Statuses: 0 Active"]),
    ("ingress.networking.k8s.io", &["Default backend: swept:80", "Ingress Class: <none>"]),
    ("resourcequota", &["Resource Used Hard"]),
    ("namespace", &["Status: Active", "No resource quota."]),
    ("horizontalpodautoscaler.autoscaling", &["Reference: Deployment/swept", "Max replicas: 3"]),
];

/// `kubectl describe` and the wide table of one object, "RESOURCE/NAME".
fn describes(k: &Kubectl, object: &str) {
    let (resource, name) = object.split_once('/').unwrap();
    let wide = k.words(&["get", "-n", "sweep", object, "-o", "wide"]);
    assert_eq!(wide.lines().count(), 2, "a head and a row: {wide}");
    let words = ["describe", "-n", "sweep", object];
    let output = k.try_words(&words);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() && BETA_IN_KUBECTL.contains(&resource) {
        return assert!(err.contains("the server could not find the requested resource"), "{object}: {err}");
    }
    assert!(output.status.success(), "kubectl {words:?}: {out}{err}");
    // Spaces are layout.
    let squeezed: Vec<String> =
        out.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(squeezed.first(), Some(&format!("Name: {name}")), "{object}: {out}");
    assert!(squeezed.len() >= 4, "{object} is described: {out}");
    for (_, wanted) in DESCRIBED.iter().filter(|(of, _)| *of == resource) {
        for line in *wanted {
            assert!(squeezed.iter().any(|l| l.contains(line)), "{line:?} of {object} is not in:\n{out}");
        }
    }
}

fn patch(kind: &'static str, patch: &'static str) -> Vec<&'static str> {
    vec!["patch", "-n", "sweep", "-f", "all.yaml", "--type", kind, "-p", patch]
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}

/// Whether one word is the plural of the other, as Kubernetes makes plurals.
fn is_plural(singular: &str, plural: &str) -> bool {
    plural == format!("{singular}s")
        || plural == format!("{singular}es")
        || singular.strip_suffix('y').is_some_and(|stem| plural == format!("{stem}ies"))
}
