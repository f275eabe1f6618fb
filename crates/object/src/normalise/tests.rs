//! What the decoder of kube-apiserver v1.36 leaves of a document, and what it says about it (checked against Go).

use catalog::Catalog;

use super::*;
use crate::Value;

/// Tests read as the documents they are about: JSON by hand, in Rust.
macro_rules! json {
    (null) => { Value::Null };
    ([$($item:tt),*]) => { Value::List(vec![$(json!($item)),*]) };
    ({$($name:literal : $value:tt),*}) => {{
        #[allow(unused_mut)]
        let mut map = crate::Map::default();
        $(map.push(catalog::Name::Static($name), json!($value));)*
        Value::Map(map)
    }};
    ($other:expr) => { Value::from($other) };
}

fn run(ty: &str, mut value: Value) -> (Result<Value, String>, Vec<String>) {
    let catalog = Catalog::builtin();
    let id = catalog.schema().find(ty).unwrap_or_else(|| panic!("no type {ty}"));
    let mut strict = Strict::on();
    let done = normalise(catalog.schema(), id, &mut value, &mut strict);
    (done.map(|()| value).map_err(|e| e.to_string()), strict.into_messages())
}

fn canonical(ty: &str, value: Value) -> Value {
    run(ty, value).0.unwrap()
}

fn error(ty: &str, value: Value) -> String {
    run(ty, value).0.unwrap_err()
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_document_order() {
    let (value, messages) = run(
        "core.v1.ConfigMap",
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "nope": 1},
            "data": {"a": "b", "a": "c"}, "junk": 1
        }),
    );
    let expected =
        [r#"unknown field "metadata.nope""#, r#"duplicate field "data.a""#, r#"unknown field "junk""#];
    assert_eq!(messages, expected);
    assert_eq!(
        value,
        Ok(json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {"a": "c"}}))
    );
    let (_, messages) = run(
        "core.v1.Pod",
        json!({"spec": {"containers": [{"name": "a"}, {"foo": 1, "foo": 2, "name": "b", "name": "c"}]}}),
    );
    assert_eq!(
        messages,
        [r#"unknown field "spec.containers[1].foo""#, r#"duplicate field "spec.containers[1].name""#]
    );
}

#[test]
fn without_strict_validation_no_messages_are_built() {
    let catalog = Catalog::builtin();
    let ty = catalog.schema().find("core.v1.ConfigMap").unwrap();
    let mut strict = Strict::off();
    let mut value = json!({"junk": 1});
    normalise(catalog.schema(), ty, &mut value, &mut strict).unwrap();
    assert_eq!(strict.messages(), Vec::<String>::new());
    assert_eq!(value, json!({"metadata": {}}));
}

#[test]
fn what_go_always_writes_is_there_and_empty_optional_values_are_not() {
    let pod = json!({"metadata": {"labels": {}, "annotations": null, "creationTimestamp": null}, "spec": {
        "hostNetwork": false, "nodeName": "", "priority": 0, "volumes": [], "securityContext": {},
        "containers": [{"image": "nginx", "name": "c", "env": [{"name": "A", "value": ""}]}]
    }});
    assert_eq!(
        canonical("core.v1.Pod", pod),
        json!({"metadata": {}, "spec": {
            "containers": [{"name": "c", "image": "nginx", "env": [{"name": "A"}], "resources": {}}],
            "securityContext": {}, "priority": 0
        }, "status": {}})
    );
    assert_eq!(
        canonical("core.v1.Pod", Value::Null),
        json!({"metadata": {}, "spec": {"containers": null}, "status": {}})
    );
    assert_eq!(canonical("core.v1.ServicePort", json!({"port": 80})), json!({"port": 80, "targetPort": 0}));
    assert_eq!(
        canonical("core.v1.ResourceFieldSelector", json!({"resource": "limits.cpu"})),
        json!({"resource": "limits.cpu", "divisor": "0"})
    );
    let condition = canonical("apps.v1.DeploymentCondition", json!({"type": "Available"}));
    assert_eq!(
        condition,
        json!({"type": "Available", "status": "", "lastUpdateTime": null, "lastTransitionTime": null})
    );
    assert_eq!(
        canonical("apps.v1.ControllerRevision", json!({})),
        json!({"metadata": {}, "data": null, "revision": 0})
    );
}

#[test]
fn maps_are_sorted_and_scalars_have_one_form() {
    let value = canonical(
        "core.v1.ResourceQuotaSpec",
        json!({"hard": {"memory": "1.5Gi", "cpu": 1, "pods": "1000m", "x": null}}),
    );
    assert_eq!(value, json!({"hard": {"cpu": "1", "memory": "1536Mi", "pods": "1", "x": "0"}}));
    let meta = json!({"creationTimestamp": "2024-05-01T12:00:00.9+02:00", "generation": 0});
    assert_eq!(canonical("meta.v1.ObjectMeta", meta), json!({"creationTimestamp": "2024-05-01T10:00:00Z"}));
    let secret =
        canonical("core.v1.Secret", json!({"data": {"a": "YR==", "b": [97, 98], "c": null, "d": "YW\nJj"}}));
    assert_eq!(secret.get("data"), Some(&json!({"a": "YQ==", "b": "YWI=", "c": "", "d": "YWJj"})));
    let lease =
        canonical("coordination.v1.LeaseSpec", json!({"renewTime": "2024-05-01T10:00:00.000001+00:00"}));
    assert_eq!(lease, json!({"renewTime": "2024-05-01T10:00:00.000001Z"}));
    let mut float = Value::Float(3.0);
    scalar::shorten_float(&mut float);
    assert_eq!(float, Value::Int(3));
}

#[test]
fn wrong_types_get_gos_error() {
    for (ty, value, words) in [
        (
            "core.v1.ConfigMap",
            json!({"data": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "core.v1.ConfigMap",
            json!({"data": "x"}),
            "json: cannot unmarshal string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "core.v1.ConfigMap",
            json!({"metadata": []}),
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta",
        ),
        ("core.v1.ConfigMap", json!([]), "json: cannot unmarshal array into Go value of type v1.ConfigMap"),
        (
            "core.v1.ConfigMap",
            json!({"kind": true}),
            "json: cannot unmarshal bool into Go struct field ConfigMap.TypeMeta.kind of type string",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"containers": [{"name": 1}]}}),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"ephemeralContainers": [{"terminationMessagePolicy": 1}]}}),
            "json: cannot unmarshal number into Go struct field EphemeralContainer.spec.ephemeralContainers.EphemeralContainerCommon.terminationMessagePolicy of type v1.TerminationMessagePolicy",
        ),
        (
            "admissionregistration.v1.NamedRuleWithOperations",
            json!({"apiVersions": "x"}),
            "json: cannot unmarshal string into Go struct field NamedRuleWithOperations.RuleWithOperations.Rule.apiVersions of type []string",
        ),
        (
            "rbac.v1.Subject",
            json!({"kind": []}),
            "json: cannot unmarshal array into Go struct field Subject.kind of type string",
        ),
        (
            "flowcontrol.v1.Subject",
            json!({"kind": []}),
            "json: cannot unmarshal array into Go struct field Subject.kind of type v1.SubjectKind",
        ),
        (
            "apiregistration.v1.APIServiceCondition",
            json!({"status": []}),
            "json: cannot unmarshal array into Go struct field APIServiceCondition.status of type v1.ConditionStatus",
        ),
        (
            "resource.v1.Device",
            json!({"attributes": 1}),
            "json: cannot unmarshal number into Go struct field Device.attributes of type map[v1.QualifiedName]v1.DeviceAttribute",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"containers": {}}}),
            "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"restartPolicy": 1}}),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        ),
        (
            "core.v1.Pod",
            json!({"spec": {"volumes": [{"emptyDir": 1}]}}),
            "json: cannot unmarshal number into Go struct field Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource",
        ),
        (
            "apps.v1.Deployment",
            json!({"spec": {"replicas": 5_000_000_000i64}}),
            "json: cannot unmarshal number 5000000000 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            "core.v1.Service",
            json!({"spec": {"ports": [{"targetPort": true}]}}),
            "json: cannot unmarshal bool into Go struct field ServicePort.spec.ports.targetPort of type int32",
        ),
        (
            "core.v1.Pod",
            json!({"metadata": {"creationTimestamp": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        ("core.v1.Secret", json!({"data": {"a": "YQ"}}), "illegal base64 data at input byte 0"),
        ("core.v1.Secret", json!({"data": {"a": "YWJj!!"}}), "illegal base64 data at input byte 4"),
    ] {
        assert_eq!(error(ty, value), words);
    }
}

#[test]
fn an_unparsable_string_is_reported_before_an_earlier_wrong_type() {
    let value = json!({"metadata": 1, "spec": {"hard": {"cpu": "many"}}});
    assert_eq!(
        error("core.v1.ResourceQuota", value),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
}

#[test]
fn the_last_duplicate_stays() {
    let spec = canonical("core.v1.PodSpec", json!({"nodeName": "a", "containers": [], "nodeName": "b"}));
    assert_eq!(spec, json!({"containers": null, "nodeName": "b"}));
    let spec = canonical("core.v1.PodSpec", json!({"nodeName": "a", "containers": [], "nodeName": ""}));
    assert_eq!(spec, json!({"containers": null}));
    let spec = canonical("core.v1.PodSpec", json!({"nodeName": "a", "containers": [], "nodeName": null}));
    assert_eq!(spec, json!({"containers": null, "nodeName": "a"}));
}

#[test]
fn an_empty_list_that_must_be_written_is_null() {
    let role = canonical("rbac.v1.Role", json!({"rules": []}));
    assert_eq!(role.get("rules"), Some(&Value::Null));
}

#[test]
fn a_name_repeated_very_often_costs_linear_time() {
    let mut map = crate::Map::default();
    for i in 0..200_000 {
        map.push(catalog::Name::Static("nodeName"), Value::from(format!("n{i}")));
    }
    let (value, messages) = run("core.v1.PodSpec", Value::Map(map));
    assert_eq!(value, Ok(json!({"containers": null, "nodeName": "n199999"})));
    assert_eq!(messages, [r#"duplicate field "nodeName""#]);
}

#[test]
fn too_deep_is_an_error() {
    let mut value = Value::map();
    for _ in 0..MAX_DEPTH {
        value = Value::List(vec![value]);
    }
    let revision = Value::Map([(catalog::Name::Static("data"), value)].into_iter().collect());
    assert_eq!(error("apps.v1.ControllerRevision", revision), "exceeded max depth");
}

#[test]
fn trees_of_a_strategic_patch_get_errors_of_their_own() {
    let catalog = Catalog::builtin();
    for (ty, value, words) in [
        ("core.v1.Pod", json!({"metadata": {"labels": "x"}}), Some("cannot restore map from string")),
        ("core.v1.Pod", json!({"spec": {"containers": "x"}}), Some("cannot restore slice from string")),
        ("core.v1.Pod", json!({"spec": {"securityContext": [1]}}), Some("cannot restore struct from: slice")),
        ("core.v1.Pod", json!({"spec": {"nodeName": 1}}), Some("cannot convert int64 to string")),
        (
            "core.v1.Pod",
            json!({"spec": {"restartPolicy": 1}}),
            Some("cannot convert int64 to v1.RestartPolicy"),
        ),
        ("core.v1.Pod", json!({"spec": {"nodeName": true}}), Some("unrecognized type: string")),
        (
            "apps.v1.Deployment",
            json!({"spec": {"replicas": (Value::Float(1.5))}}),
            Some("cannot convert float64 to int32"),
        ),
        ("apps.v1.Deployment", json!({"spec": {"replicas": "1"}}), Some("unrecognized type: int32")),
        (
            "core.v1.Secret",
            json!({"data": {"a": "YQ"}}),
            Some("error decoding from json: illegal base64 data at input byte 0"),
        ),
        (
            "core.v1.Pod",
            json!({"metadata": {"creationTimestamp": 1}}),
            Some("json: cannot unmarshal number into Go value of type string"),
        ),
        // Fields count in the order they are declared, whatever the patch's order was.
        ("core.v1.Pod", json!({"spec": 1, "metadata": "x"}), Some("cannot restore struct from: string")),
        ("core.v1.Pod", json!({"metadata": {"labels": null}, "spec": {"nodeName": "n"}}), None),
    ] {
        let id = catalog.schema().find(ty).unwrap();
        assert_eq!(restore_error(catalog.schema(), id, &value).as_deref(), words, "{value:?}");
    }
}
