//! Every resource there is, with kubectl: created with validation on, labelled, patched, listed, deleted.

use std::collections::BTreeSet;

use crate::harness::*;
use crate::kubectl::Kubectl;

const MANIFESTS: &str = include_str!("manifests.yaml");

#[test]
fn kubectl_creates_labels_patches_lists_and_deletes_every_resource() {
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
