//! Sample objects: small, and with a bit of everything.

use catalog::{Catalog, TypeId};
use codec::json;
use object::Value;
use object::normalise::{Strict, normalise};

pub const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default","labels":{"app":"x"},"annotations":{"a/b":"c"},"finalizers":["x/y"],"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"1"}]},"spec":{"containers":[{"name":"c","image":"i","args":["1","2"],"env":[{"name":"A","value":"b"},{"name":"B"}],"ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":80,"protocol":"UDP"}],"resources":{"limits":{"cpu":"100m","memory":"1Gi"}},"volumeMounts":[{"name":"v","mountPath":"/m"}],"livenessProbe":{"httpGet":{"port":"http","path":"/"}}}],"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Mi"}},{"name":"w","secret":{"secretName":"s"}}],"tolerations":[{"key":"k","operator":"Exists","tolerationSeconds":5}],"nodeSelector":{"a":"b"},"terminationGracePeriodSeconds":30}}"#;
pub const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"x","operator":"In","values":["1","2"]}]},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"conditions":[{"type":"Available","status":"True","lastUpdateTime":"2024-05-01T10:00:00Z"}]}}"#;
pub const SERVICE: &str = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"name":"a","port":80,"targetPort":"http"},{"name":"b","port":81,"targetPort":8080}],"clusterIPs":["10.0.0.1"],"selector":{"a":"b"}}}"#;
pub const SECRET: &str = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"AAECAw==","b":""},"stringData":{"c":"d"},"immutable":true,"type":"Opaque"}"#;
pub const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"w.x.io"},"spec":{"group":"x.io","names":{"kind":"W","plural":"w"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","default":{"a":[1,1.5,null]},"additionalProperties":{"type":"string","pattern":"^a"},"x-kubernetes-preserve-unknown-fields":true}}}}}]}}"#;
pub const LEASE: &str = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l","creationTimestamp":"2024-05-01T10:00:00Z"},"spec":{"holderIdentity":"h","leaseDurationSeconds":15,"renewTime":"2024-05-01T10:00:00.123456Z"}}"#;

pub const ALL: [&str; 6] = [POD, DEPLOYMENT, SERVICE, SECRET, DEFINITION, LEASE];

/// Tokens from API objects.
pub const WORDS: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "\"\"",
    "1.5",
    "-1",
    "\"metadata\":",
    "\"spec\":",
    "\"status\":",
    "\"name\":\"a\"",
    "\"containers\":",
    "\"labels\":{\"a\":\"b\"}",
    "\"100m\"",
    "\"2024-05-01T10:00:00Z\"",
    "\"\\u0000\"",
    "\"\\ud83e\\udd80\"",
    "\"\\ud800\"",
    "1e400",
    "0.1e-300",
    "{\"a\":",
    "[[[[",
    "]]]]",
];

/// The type an object names.
pub fn type_of(catalog: &Catalog, value: &Value) -> Option<TypeId> {
    let (api_version, kind) = (value.str_at(&["apiVersion"])?, value.str_at(&["kind"])?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    catalog.find_type(group, version, kind)
}

/// A sample as the server would hold it, with its type.
pub fn canonical(catalog: &Catalog, text: &str) -> (TypeId, Value) {
    let mut value = json::parse(text.as_bytes(), None).unwrap();
    let ty = type_of(catalog, &value).unwrap();
    normalise(catalog.schema(), ty, &mut value, &mut Strict::off()).unwrap();
    (ty, value)
}

/// Maps by name, for comparing what was written in another order.
pub fn sorted(value: &Value) -> Value {
    object::deep(|| sorted_below(value))
}

fn sorted_below(value: &Value) -> Value {
    match value {
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            let mut out = object::Map::with_capacity(entries.len());
            entries.into_iter().for_each(|(name, value)| out.push(name, value));
            Value::Map(out)
        }
        Value::List(list) => Value::List(list.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
