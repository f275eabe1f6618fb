//! The definition of a scenario's resource: widgets of a group that no other scenario has.

use object::Value;

use crate::case::{MERGE, Step, parse, text_of};
use crate::kinds::Target;

pub const GROUP: &str = "$NS.example.com";
pub const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const ONE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.$NS.example.com";

const ESTABLISHED: &str = r#""status":"True","type":"Established""#;

/// With these members of `spec` instead of the usual ones.
pub fn with_spec(members: &Value) -> Value {
    let mut definition = parse(
        r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"widgets.$NS.example.com"},
        "spec":{"group":"$NS.example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
        "versions":[{"name":"v1","served":true,"storage":true,
        "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#,
    )
    .expect("it is JSON");
    let spec = definition.map_at(&["spec"]);
    for (name, value) in members.as_map().into_iter().flat_map(|members| members.iter()) {
        match value {
            Value::Null => {
                spec.remove(name);
            }
            value => spec.set(name.clone(), value.clone()),
        }
    }
    definition
}

/// With one version that has this schema.
pub fn with_schema(schema: &Value) -> Value {
    let mut members = Value::map();
    members.make_map().set("versions", versions(schema));
    with_spec(&members)
}

fn versions(schema: &Value) -> Value {
    let mut version = parse(r#"{"name":"v1","served":true,"storage":true}"#).expect("it is JSON");
    version.map_at(&["schema"]).set("openAPIV3Schema", schema.clone());
    vec![version].into()
}

/// An object schema whose member `value` has this one.
pub fn of_value(schema: &Value) -> Value {
    let mut root = parse(r#"{"type":"object"}"#).expect("it is JSON");
    root.map_at(&["properties"]).set("value", schema.clone());
    root
}

/// Creates a definition and waits until its resource is served.
pub fn open(definition: &Value, target: &Target) -> [Step; 3] {
    let one = format!("{COLLECTION}/{}", definition.str_at(&["metadata", "name"]).unwrap_or_default());
    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    // Such groups have one condition more, by another controller: it may come before and after the resource is served.
    let protected = group.ends_with("k8s.io") || group.ends_with("kubernetes.io");
    let last = if protected { "KubernetesAPIApprovalPolicyConformant" } else { ESTABLISHED };
    [
        Step::with("definition", "POST", COLLECTION, definition),
        Step::new("resource is served", "GET", target.collection()).until(200, ""),
        Step::new("definition is established", "GET", one).until(200, last),
    ]
}

/// Gives the definition another schema.
pub fn change(schema: &Value) -> Step {
    let mut patch = Value::map();
    patch.map_at(&["spec"]).set("versions", versions(schema));
    Step::text("definition changes", "PATCH", ONE, MERGE, text_of(&patch))
}

pub fn close() -> Step {
    Step::new("definition goes", "DELETE", ONE)
}

/// Widgets as most definitions here have them.
pub fn widgets(version: &str, namespaced: bool) -> Target {
    Target {
        api_version: format!("{GROUP}/{version}"),
        plural: "widgets".to_owned(),
        kind: "Widget".to_owned(),
        namespaced,
        status: false,
        scale: false,
        delete_collection: true,
        custom: true,
    }
}
