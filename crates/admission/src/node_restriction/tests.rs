//! Tokens and evictions, as their subresources will bring them; labels by table.

use std::sync::Arc;

use auth::{Decision, UserInfo};
use catalog::{Catalog, Verbs};
use codec::json;
use env::Env;
use object::Value;
use store::{Entry, Revision, State};
use table::Table;

use super::*;
use crate::{Effects, RequestContext};

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), None).unwrap()
}

fn table(objects: &[(&str, &str)]) -> Arc<Table> {
    let table = Table::new(Arc::new(Catalog::builtin()), Env::machine());
    let entries = objects.iter().map(|(key, value)| Entry {
        key: (*key).into(),
        value: value.as_bytes().to_vec().into(),
        revision: Revision(1),
        expires_at: None,
    });
    table.reset(Revision(1), entries.collect());
    table
}

/// What a kubelet of node "n" is told; everything but `allowed` is nobody's right.
fn told(
    table: &Table,
    plural: &str,
    subresource: &str,
    name: &str,
    body: &str,
    allowed: &'static str,
) -> String {
    let authorize: Authorize = Arc::new(move |_, wanted| Decision {
        allowed: wanted.verb == "request-serviceaccounts-token-audience" && wanted.resource == allowed,
        reason: String::new(),
    });
    let user = UserInfo::new("system:node:n", &[groups::NODES]);
    let catalog = table.catalog();
    let resource = catalog.find("", "v1", plural).unwrap();
    let env = Env::machine();
    let request = RequestContext {
        subresource: Some(subresource),
        namespace: "default",
        ..RequestContext::new(&user, &catalog, resource, Verbs::CREATE, env.monotonic())
    };
    let attempt = Attempt {
        request: &request,
        operation: Operation::Create,
        storage: resource.storage.as_ref().unwrap(),
        name,
        generate_name: "",
        old: None,
        body: crate::Body::Resource,
        delete_options: None,
        versions: &(),
        dry_run: false,
        table,
        env: &env,
    };
    match NodeRestriction(authorize).mutate(&attempt, &mut tree(body), &mut Effects::default()) {
        Ok(()) => "allowed".to_owned(),
        Err(refusal) => refusal.status.message,
    }
}

#[test]
fn tokens_are_bound_to_a_pod_of_the_node_and_its_audiences() {
    let table = table(&[
        (
            "/registry/pods/default/p",
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"u"},
                "spec":{"nodeName":"n","volumes":[
                    {"name":"a","projected":{"sources":[{"serviceAccountToken":{"audience":"vault"}}]}},
                    {"name":"b","csi":{"driver":"d.example.com"}}]}}"#,
        ),
        (
            "/registry/pods/default/far",
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"far","namespace":"default","uid":"f"},
                "spec":{"nodeName":"m"}}"#,
        ),
        (
            "/registry/csidrivers/d.example.com",
            r#"{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{"name":"d.example.com"},
                "spec":{"tokenRequests":[{"audience":"csi"}]}}"#,
        ),
    ]);
    let ask = |pod: &str, uid: &str, audiences: &str| {
        let body = format!(
            r#"{{"spec":{{"audiences":[{audiences}],"boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"{pod}","uid":"{uid}"}}}}}}"#
        );
        told(&table, "serviceaccounts", "token", "sa", &body, "special")
    };
    let no = |why: &str| format!("serviceaccounts \"sa\" is forbidden: {why}");
    for audience in ["\"vault\"", "\"csi\"", "\"special\""] {
        assert_eq!(ask("p", "u", audience), "allowed", "{audience}");
    }
    let unbound = told(&table, "serviceaccounts", "token", "sa", r#"{"spec":{}}"#, "");
    assert_eq!(unbound, no("node requested token not bound to a pod"));
    assert_eq!(ask("p", "", ""), no("node requested token with a pod binding without a uid"));
    assert_eq!(ask("gone", "u", ""), "pod \"gone\" not found");
    assert!(ask("p", "other", "").contains("the UID in the bound object reference (other) does not match"));
    assert_eq!(ask("far", "f", ""), no("node requested token bound to a pod scheduled on a different node"));
    assert_eq!(ask("p", "u", "\"a\",\"b\""), no("node may only request 0 or 1 audiences"));
    assert_eq!(
        ask("p", "u", "\"bank\""),
        no(
            "audience \"bank\" not found in pod spec volume, system:node:n is not authorized to request tokens for \
            this audience"
        )
    );
}

#[test]
fn evictions_are_of_pods_on_the_node() {
    let pod = |name: &str, node: &str| {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"default","uid":"u"}},"spec":{{"nodeName":"{node}"}}}}"#
        )
    };
    let table =
        table(&[("/registry/pods/default/p", &pod("p", "n")), ("/registry/pods/default/q", &pod("q", "m"))]);
    let evict = |name: &str| told(&table, "pods", "eviction", name, "{}", "");
    assert_eq!(evict("p"), "allowed");
    assert!(evict("q").ends_with("node n can only evict pods with spec.nodeName set to itself"));
    assert_eq!(evict("gone"), "pod \"gone\" not found");
    assert!(evict("").ends_with("could not determine pod from request data"));
    let exec = told(&table, "pods", "binding", "p", "{}", "");
    assert!(
        exec.ends_with("unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"),
        "{exec}"
    );
}

#[test]
fn labels_of_the_system_are_a_closed_list() {
    for label in [
        "plain",
        "example.com/x",
        "kubernetes.io/hostname",
        "x.kubelet.kubernetes.io/y",
        "node.kubernetes.io/z",
    ] {
        assert!(may_label(label), "{label}");
    }
    for label in [
        "kubernetes.io/x",
        "a.kubernetes.io/x",
        "k8s.io/x",
        "node-restriction.kubernetes.io/x",
        "a.node-restriction.kubernetes.io/x",
    ] {
        assert!(!may_label(label), "{label}");
    }
    assert!(may_label("notkubernetes.io/x"));
}
