//! Files as pods.

use std::fs;
use std::path::Path;

use catalog::Catalog;
use object::Value;

use super::directory::Directory;
use super::{DecodeError, decode};

const NOW: u128 = 1_800_000_000_123_456_789;
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\nspec:\n  containers: [{name: c, image: busybox}]\n";

fn read(text: &str) -> Result<Value, DecodeError> {
    decode(&Catalog::builtin(), text.as_bytes(), "node-1", Path::new("/etc/pods/web.yaml"), NOW)
}

#[test]
fn a_file_is_a_pod_of_the_node_with_defaults_annotations_and_a_toleration() {
    let pod = read(POD).unwrap();
    let text = |path: &[&str]| pod.str_at(path).unwrap_or_default().to_owned();
    assert_eq!(text(&["metadata", "name"]), "web-node-1");
    assert_eq!(text(&["metadata", "namespace"]), "default");
    assert_eq!(text(&["spec", "nodeName"]), "node-1");
    assert_eq!(text(&["spec", "restartPolicy"]), "Always");
    assert_eq!(text(&["status", "phase"]), "Pending");
    assert_eq!(text(&["status", "qosClass"]), "BestEffort");
    let uid = text(&["metadata", "uid"]);
    assert_eq!(uid.len(), 32);
    let annotation = |name: &str| text(&["metadata", "annotations", name]);
    assert_eq!(annotation("kubernetes.io/config.hash"), uid);
    assert_eq!(annotation("kubernetes.io/config.source"), "file");
    assert_eq!(annotation("kubernetes.io/config.seen"), "2027-01-15T08:00:00.123456789Z");
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap();
    assert_eq!(tolerations.len(), 1);
    assert_eq!(tolerations[0].str_at(&["effect"]), Some("NoExecute"));
    assert_eq!(tolerations[0].str_at(&["operator"]), Some("Exists"));
}

#[test]
fn the_uid_is_that_of_the_content_the_node_and_the_file() {
    let uid = |text: &str, node: &str, file: &str| {
        let pod = decode(&Catalog::builtin(), text.as_bytes(), node, Path::new(file), NOW).unwrap();
        pod.str_at(&["metadata", "uid"]).unwrap().to_owned()
    };
    let first = uid(POD, "n", "/a");
    assert_eq!(
        uid(&POD.replace("{name: c,", "{  name: 'c',"), "n", "/a"),
        first,
        "how it is written does not matter"
    );
    for (text, node, file) in [
        (POD.replace("busybox", "other"), "n", "/a"),
        (POD.to_owned(), "m", "/a"),
        (POD.to_owned(), "n", "/b"),
    ] {
        assert_ne!(uid(&text, node, file), first, "{text} {node} {file}");
    }
    let named = uid(&POD.replace("name: web,", "name: web, uid: mine,"), "n", "/a");
    assert_eq!(named, "mine");
}

#[test]
fn what_is_refused_says_why() {
    let told = |text: &str| read(text).unwrap_err().to_string();
    let with = |spec: &str| POD.replace("spec:\n", &format!("spec:\n  {spec}\n"));
    assert_eq!(told(&POD.replace("name: web,", "")), "invalid pod: name is needed for the pod");
    assert!(
        told("kind: Deployment\napiVersion: apps/v1\n")
            .starts_with("couldn't parse as pod(no kind \"Deployment\"")
    );
    assert!(told("{").starts_with("couldn't parse as pod("));
    assert!(
        told(&POD.replace("image: busybox", "image: ''"))
            .starts_with("invalid pod: [spec.containers[0].image: Required value")
    );
    for (spec, what) in [
        ("serviceAccountName: x", "serviceaccounts"),
        ("volumes: [{name: v, secret: {secretName: s}}]", "secrets"),
        ("volumes: [{name: v, configMap: {name: s}}]", "configmaps"),
        ("volumes: [{name: v, persistentVolumeClaim: {claimName: s}}]", "persistentvolumeclaims"),
    ] {
        assert_eq!(told(&with(spec)), format!("static pods may not reference {what}"));
    }
}

#[test]
fn a_broken_file_keeps_its_pod_until_the_next_regular_look() {
    let folder = tempfile::tempdir().unwrap();
    let mut directory = Directory::new(folder.path().to_owned(), "n");
    let names = |directory: &mut Directory, regular| {
        let pods = directory.read(regular, NOW).unwrap();
        pods.iter().map(|pod| pod.str_at(&["metadata", "name"]).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names(&mut directory, true).is_empty());
    let file = |name: &str| folder.path().join(name);
    fs::write(file("b.yaml"), POD).unwrap();
    fs::write(file("a.json"), POD.replace("name: web", "name: first")).unwrap();
    fs::write(file(".hidden.yaml"), POD.replace("name: web", "name: hidden")).unwrap();
    fs::create_dir(file("more")).unwrap();
    assert_eq!(names(&mut directory, false), ["first-n", "web-n"]);
    fs::write(file("b.yaml"), &POD[..POD.len() / 2]).unwrap();
    assert_eq!(names(&mut directory, false), ["first-n", "web-n"], "it may be half written");
    assert_eq!(names(&mut directory, true), ["first-n"]);
    fs::remove_file(file("a.json")).unwrap();
    assert!(names(&mut directory, false).is_empty());
    drop(folder);
    assert!(names(&mut directory, true).is_empty(), "the directory itself is gone");
}
