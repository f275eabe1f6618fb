//! The smallest valid object of every kind that needs more than a name, for tests.

use catalog::Storage;
use object::Value;
use object::normalise::{Strict, normalise};

use crate::tests::{NOW, NOW_TEXT, json, lines};
use crate::{Context, defaults, kind_of, prepare_create, prepare_update, validate_create, validate_update};

const TEMPLATE: &str =
    r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const JOB_TEMPLATE: &str = r#"{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}"#;
const ROLE_REF: &str =
    r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}"#;

/// Name and members beside `metadata` of an object of this plural.
pub(crate) fn content(plural: &str) -> (&'static str, String) {
    let selector = r#""selector":{"matchLabels":{"app":"web"}}"#;
    let members = match plural {
        "apiservices" => return ("v1.example.com", r#""spec":{"group":"example.com","version":"v1"}"#.to_owned()),
        "customresourcedefinitions" => {
            let spec = r#""spec":{"group":"example.com","names":{"plural":"things"}}"#;
            return ("things.example.com", spec.to_owned());
        }
        "ipaddresses" => return ("10.0.0.1", String::new()),
        "pods" => r#""spec":{"containers":[{"name":"c","image":"i"}]}"#.to_owned(),
        "podtemplates" => format!(r#""template":{TEMPLATE}"#),
        "replicationcontrollers" => format!(r#""spec":{{"selector":{{"app":"web"}},"template":{TEMPLATE}}}"#),
        "deployments" | "replicasets" | "daemonsets" | "statefulsets" => {
            format!(r#""spec":{{{selector},"template":{TEMPLATE}}}"#)
        }
        "jobs" => format!(r#""spec":{{"template":{JOB_TEMPLATE}}}"#),
        "cronjobs" => {
            format!(r#""spec":{{"schedule":"*/5 * * * *","jobTemplate":{{"spec":{{"template":{JOB_TEMPLATE}}}}}}}"#)
        }
        "controllerrevisions" => r#""revision":1,"data":{"a":"b"}"#.to_owned(),
        "services" => r#""spec":{"ports":[{"port":80}]}"#.to_owned(),
        "persistentvolumeclaims" => {
            r#""spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#.to_owned()
        }
        "persistentvolumes" => {
            r#""spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/data"}}"#.to_owned()
        }
        "ingresses" => {
            r#""spec":{"defaultBackend":{"service":{"name":"web","port":{"number":80}}}}"#.to_owned()
        }
        "horizontalpodautoscalers" => {
            r#""spec":{"maxReplicas":3,"scaleTargetRef":{"kind":"Deployment","name":"web","apiVersion":"apps/v1"}}"#.to_owned()
        }
        "endpointslices" => r#""addressType":"IPv4","endpoints":[]"#.to_owned(),
        "storageclasses" => r#""provisioner":"example.com/p""#.to_owned(),
        "clusterrolebindings" | "rolebindings" => ROLE_REF.to_owned(),
        "certificatesigningrequests" => {
            r#""spec":{"signerName":"example.com/signer","usages":["client auth"],"request":"eA=="}"#.to_owned()
        }
        _ => String::new(),
    };
    ("x", members)
}

pub(crate) fn minimal(storage: &Storage) -> Value {
    let (name, members) = content(&storage.plural);
    object(storage, name, &members)
}

pub(crate) fn object(storage: &Storage, name: &str, members: &str) -> Value {
    let namespace = if storage.namespaced { r#""namespace":"default","# } else { "" };
    let comma = if members.is_empty() { "" } else { "," };
    json(&format!(
        r#"{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{name}",{namespace}"uid":"u","creationTimestamp":"{NOW_TEXT}"}}{comma}{members}}}"#,
        storage.api_version(),
        storage.kind
    ))
}

/// As the server has it when it is judged: normalised, defaulted, prepared.
pub(crate) fn ready(catalog: &catalog::Catalog, storage: &Storage, mut value: Value) -> Value {
    let ctx = Context::plain(storage, NOW);
    tidy(catalog, storage, &mut value);
    defaults::apply_kind(&storage.group, &storage.version, &storage.kind, &mut value);
    prepare_create(kind_of(storage), &mut value, &ctx);
    tidy(catalog, storage, &mut value);
    value
}

fn tidy(catalog: &catalog::Catalog, storage: &Storage, value: &mut Value) {
    normalise(catalog.schema(), storage.ty, value, &mut Strict::default())
        .unwrap_or_else(|e| panic!("{}: {e:?}", storage.kind));
}

/// What a create of an object with these members is told.
pub(crate) fn created(catalog: &catalog::Catalog, plural: &str, name: &str, members: &str) -> Vec<String> {
    let storage = crate::tests::storage(catalog, plural);
    let value = ready(catalog, storage, object(storage, name, members));
    lines(&validate_create(kind_of(storage), storage, &value, &Context::plain(storage, NOW)))
}

/// What an update of one object with these members to another is told by the kind, each once.
pub(crate) fn updated(
    catalog: &catalog::Catalog,
    plural: &str,
    subresource: Option<&str>,
    old: &str,
    new: &str,
) -> Vec<String> {
    let storage = crate::tests::storage(catalog, plural);
    let (name, _) = content(plural);
    let mut before = ready(catalog, storage, object(storage, name, old));
    let mut after = ready(catalog, storage, object(storage, name, new));
    // A status is set by its own writes only.
    if subresource == Some("status") {
        for (value, members) in [(&mut before, old), (&mut after, new)] {
            let own = object(storage, name, members);
            if let Some(status) = own.get("status") {
                value.make_map().set("status", status.clone());
            }
            tidy(catalog, storage, value);
        }
    }
    let ctx = Context { subresource, ..Context::plain(storage, NOW) };
    prepare_update(kind_of(storage), &mut after, &before, &ctx);
    tidy(catalog, storage, &mut after);
    let mut found: Vec<String> = Vec::new();
    for line in lines(&validate_update(kind_of(storage), storage, &after, &before, &ctx)) {
        if !found.contains(&line) {
            found.push(line);
        }
    }
    found
}
