//! What nodes may, with and without a pod that leads to them.
#![allow(clippy::unwrap_used)]

use codec::json;
use object::Value;

use super::*;

/// Everything called "mine" leads to every node.
struct Mine;

impl Relations for Mine {
    fn relates(&self, _: &str, _: Related, _: &str, name: &str) -> bool {
        name == "mine"
    }
}

fn ask(verb: &str, group: &str, resource: &str, namespace: &str, name: &str, selector: &str) -> Decision {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let wanted = Attributes {
        verb,
        group,
        resource,
        subresource,
        namespace,
        name,
        field_selector: selector,
        ..Attributes::default()
    };
    authorize(&UserInfo::new("system:node:n1", &[groups::NODES]), &wanted, &Mine).unwrap()
}

#[test]
fn only_nodes_get_an_opinion() {
    let wanted = Attributes { verb: "get", resource: "pods", ..Attributes::default() };
    for (name, group) in
        [("jane", groups::NODES), ("system:node:n1", "devs"), ("system:nodes", groups::NODES)]
    {
        assert_eq!(authorize(&UserInfo::new(name, &[group]), &wanted, &Mine), None, "{name}");
    }
    let nameless = authorize(&UserInfo::new("system:node:", &[groups::NODES]), &wanted, &Mine).unwrap();
    assert_eq!(nameless.reason, "unknown node for user \"system:node:\"");
}

#[test]
fn access_follows_the_pods() {
    let unrelated = "no relationship found between node 'n1' and this object";
    let storage = "storage.k8s.io";
    let resource = "resource.k8s.io";
    for (verb, group, what, namespace, name, selector, expected) in [
        ("get", "", "secrets", "ns", "mine", "", Ok(())),
        ("watch", "", "secrets", "ns", "mine", "", Ok(())),
        ("get", "", "secrets", "ns", "other", "", Err(unrelated)),
        ("list", "", "secrets", "ns", "", "", Err("No Object name found")),
        ("list", "", "secrets", "", "", "", Err("can only read namespaced object of this type")),
        ("update", "", "secrets", "ns", "mine", "", Err("can only read resources of this type")),
        ("get", "", "configmaps", "ns", "mine", "", Ok(())),
        (
            "list",
            "",
            "persistentvolumeclaims",
            "ns",
            "mine",
            "",
            Err("can only get individual resources of this type"),
        ),
        ("get", "", "persistentvolumes", "", "mine", "", Ok(())),
        ("patch", "", "persistentvolumeclaims/status", "ns", "mine", "", Ok(())),
        (
            "get",
            "",
            "persistentvolumeclaims/status",
            "ns",
            "mine",
            "",
            Err("can only get/update/patch this type"),
        ),
        ("get", storage, "volumeattachments", "", "mine", "", Ok(())),
        ("get", resource, "resourceclaims", "ns", "other", "", Err(unrelated)),
        ("create", "", "serviceaccounts/token", "ns", "mine", "", Ok(())),
        ("create", "", "serviceaccounts/token", "ns", "other", "", Err(unrelated)),
        (
            "create",
            "",
            "serviceaccounts",
            "ns",
            "",
            "",
            Err("can only create tokens for individual service accounts"),
        ),
        ("get", "", "serviceaccounts", "ns", "mine", "", Ok(())),
        ("update", "coordination.k8s.io", "leases", "kube-node-lease", "n1", "", Ok(())),
        ("create", "coordination.k8s.io", "leases", "kube-node-lease", "", "", Ok(())),
        (
            "update",
            "coordination.k8s.io",
            "leases",
            "kube-node-lease",
            "n2",
            "",
            Err("can only access node lease with the same name as the requesting node"),
        ),
        (
            "get",
            "coordination.k8s.io",
            "leases",
            "default",
            "n1",
            "",
            Err("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        ("delete", storage, "csinodes", "", "n1", "", Ok(())),
        (
            "delete",
            storage,
            "csinodes",
            "",
            "n2",
            "",
            Err("can only access CSINode with the same name as the requesting node"),
        ),
        ("list", resource, "resourceslices", "", "", "spec.nodeName=n1", Ok(())),
        (
            "list",
            resource,
            "resourceslices",
            "",
            "",
            "spec.nodeName=n2",
            Err("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        ),
        ("get", "", "nodes", "", "n1", "", Ok(())),
        ("get", "", "nodes", "", "n2", "", Err("node 'n1' cannot read 'n2', only its own Node object")),
        ("list", "", "nodes", "", "", "", Err("node 'n1' cannot read all nodes, only its own Node object")),
        ("patch", "", "nodes/status", "", "n1", "", Ok(())),
        ("delete", "", "nodes", "", "n1", "", Err("")),
        ("list", "", "pods", "", "", "spec.nodeName=n1", Ok(())),
        ("watch", "", "pods", "", "", "status.phase!=x,spec.nodeName=n1", Ok(())),
        (
            "list",
            "",
            "pods",
            "",
            "",
            "spec.nodeName!=n1",
            Err("can only list/watch pods with spec.nodeName field selector"),
        ),
        ("get", "", "pods", "ns", "mine", "", Ok(())),
        ("patch", "", "pods/status", "ns", "other", "", Ok(())),
        ("update", "", "pods", "ns", "mine", "", Err("")),
        ("list", "", "services", "", "", "", Ok(())),
        ("delete", "", "services", "ns", "x", "", Err("")),
        ("create", "events.k8s.io", "events", "ns", "", "", Ok(())),
        ("list", storage, "csidrivers", "", "", "", Ok(())),
    ] {
        let decision = ask(verb, group, what, namespace, name, selector);
        let got = if decision.allowed { Ok(()) } else { Err(decision.reason.as_str()) };
        assert_eq!(got, expected, "{verb} {what} {namespace}/{name} {selector}");
    }
}

#[test]
fn pods_refer_to_what_they_use() {
    let pod = r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],
      "initContainers":[{"envFrom":[{"secretRef":{"name":"s1"}},{"configMapRef":{"name":"c1"}}]}],
      "containers":[{"env":[{"valueFrom":{"secretKeyRef":{"name":"s2"}}},{"valueFrom":{"configMapKeyRef":{"name":"c2"}}}]}],
      "volumes":[{"secret":{"secretName":"s3"}},{"configMap":{"name":"c3"}},
        {"projected":{"sources":[{"secret":{"name":"s4"}},{"configMap":{"name":"c4"}}]}},
        {"csi":{"nodePublishSecretRef":{"name":"s5"}}},
        {"name":"v","persistentVolumeClaim":{"claimName":"pvc"}},{"name":"e","ephemeral":{}}],
      "resourceClaims":[{"name":"a","resourceClaimName":"rc"},{"name":"b","resourceClaimTemplateName":"t"}]},
      "status":{"resourceClaimStatuses":[{"name":"b","resourceClaimName":"made"}],
        "extendedResourceClaimStatus":{"resourceClaimName":"ext"}}}"#;
    let parse = |text: &str| -> Value { json::parse(text.as_bytes(), None).unwrap() };
    let value = parse(pod);
    for (what, names) in [
        (Related::Secret, &["pull", "s1", "s2", "s3", "s4", "s5"][..]),
        (Related::ConfigMap, &["c1", "c2", "c3", "c4"]),
        (Related::ServiceAccount, &["sa"]),
        (Related::PersistentVolumeClaim, &["pvc", "p-e"]),
        (Related::ResourceClaim, &["rc", "made", "ext"]),
    ] {
        for name in names {
            assert!(refers(&value, what, name), "{what:?} {name}");
        }
        for name in ["", "t", "x", "v"] {
            assert!(!refers(&value, what, name), "{what:?} {name}");
        }
    }
    let mirror = pod.replacen(
        "\"name\":\"p\"",
        "\"name\":\"p\",\"annotations\":{\"kubernetes.io/config.mirror\":\"x\"}",
        1,
    );
    assert!(!refers(&parse(&mirror), Related::Secret, "s1"), "a node's own pod opens nothing");
    let volume = parse(
        r#"{"spec":{"claimRef":{"namespace":"ns"},"rbd":{"secretRef":{"name":"a"}},"csi":{"nodeStageSecretRef":{"namespace":"x","name":"b"},"controllerExpandSecretRef":{"namespace":"x","name":"c"}}}}"#,
    );
    let pair = |n: &str, s: &str| (n.to_owned(), s.to_owned());
    assert_eq!(volume_secrets(&volume), [pair("ns", "a"), pair("x", "b")]);
}
