//! The smallest valid object of every kind that needs more than a name, for tests.

use catalog::Storage;
use object::Value;
use object::normalise::{Strict, normalise_decoded};

use crate::tests::{NOW, NOW_TEXT, json, lines};
use crate::{Context, defaults, kind_of, prepare_create, prepare_update, validate_create, validate_update};

const TEMPLATE: &str =
    r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const JOB_TEMPLATE: &str = r#"{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}"#;
const ROLE_REF: &str =
    r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}"#;

const MATCHED: &str = r#""matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}"#;
/// A request for a certificate that was signed with its own key.
pub(crate) const CSR: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWU1IOENBUUF3SFRFTk1Bc0dBMVVFQXd3RWFtRnVaVEVNTUFvR0ExVUVDZ3dEWkdWMk1Ga3dFd1lIS29aSQp6ajBDQVFZSUtvWkl6ajBEQVFjRFFnQUVHcVMzYzVxMlRsRDk1TUNnWG55VjBHRkkwUkllNnBOMndJejFyNkNNClcwSmNvckhHRVcvbFh3L0dxYmd4SmExU0RiY1RQUXZYdUpCUnNEL1ZjQ3pMTEtBQU1Bb0dDQ3FHU000OUJBTUMKQTBrQU1FWUNJUUNCWHpNQ1dZRFUxeGlaWUtNWlVPNktKNUMydUxRR0RqM0w0WGk3clB1NDl3SWhBTGhpU053RwpYRHBWVFViNEsya0xZOU1jL1N5NUljZTJGRWd0TUc2bHZidGkKLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

/// Name and members beside `metadata` of an object of this plural.
pub(crate) fn content(plural: &str) -> (&'static str, String) {
    let selector = r#""selector":{"matchLabels":{"app":"web"}}"#;
    let members = match plural {
        "apiservices" => {
            let spec = r#""spec":{"group":"example.com","version":"v1","groupPriorityMinimum":100,"versionPriority":10}"#;
            return ("v1.example.com", spec.to_owned());
        }
        "customresourcedefinitions" => {
            let spec = r#""spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}"#;
            return ("things.example.com", spec.to_owned());
        }
        "ipaddresses" => {
            let spec = r#""spec":{"parentRef":{"resource":"services","namespace":"default","name":"web"}}"#;
            return ("10.0.0.1", spec.to_owned());
        }
        "servicecidrs" => r#""spec":{"cidrs":["10.0.0.0/16"]}"#.to_owned(),
        "ingressclasses" => r#""spec":{"controller":"example.com/ingress"}"#.to_owned(),
        "runtimeclasses" => r#""handler":"runc""#.to_owned(),
        "csistoragecapacities" => r#""storageClassName":"fast""#.to_owned(),
        "volumeattachments" => {
            r#""spec":{"attacher":"csi.example.com","nodeName":"n","source":{"persistentVolumeName":"pv"}}"#.to_owned()
        }
        "volumeattributesclasses" => r#""driverName":"csi.example.com","parameters":{"iops":"100"}"#.to_owned(),
        "certificatesigningrequests" => format!(
            r#""spec":{{"request":"{CSR}","signerName":"example.com/signer","usages":["client auth"]}}"#
        ),
        "flowschemas" => {
            r#""spec":{"priorityLevelConfiguration":{"name":"workload-low"},"matchingPrecedence":100}"#.to_owned()
        }
        "prioritylevelconfigurations" => {
            r#""spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}"#.to_owned()
        }
        "resourceslices" => {
            r#""spec":{"driver":"gpu.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1},"nodeName":"n"}"#.to_owned()
        }
        "validatingadmissionpolicies" => format!(
            r#""spec":{{{MATCHED},"validations":[{{"expression":"true"}}]}}"#
        ),
        "mutatingadmissionpolicies" => format!(
            r#""spec":{{{MATCHED},"reinvocationPolicy":"Never","mutations":[{{"patchType":"JSONPatch","jsonPatch":{{"expression":"[JSONPatch{{}}]"}}}}]}}"#
        ),
        "validatingadmissionpolicybindings" => {
            r#""spec":{"policyName":"p","validationActions":["Deny"]}"#.to_owned()
        }
        "mutatingadmissionpolicybindings" => r#""spec":{"policyName":"p"}"#.to_owned(),
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            r#""webhooks":[{"name":"a.b.com","clientConfig":{"url":"https://example.com/x"},"sideEffects":"None","admissionReviewVersions":["v1"],"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}]"#.to_owned()
        }
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

/// As the server has it when it is validated: normalised with what was sent empty, defaulted, prepared.
pub(crate) fn ready(catalog: &catalog::Catalog, storage: &Storage, mut value: Value) -> Value {
    let ctx = Context::plain(storage, NOW);
    tidy(catalog, storage, &mut value);
    defaults::apply(kind_of(storage), &storage.version, &mut value);
    prepare_create(kind_of(storage), &mut value, &ctx);
    tidy(catalog, storage, &mut value);
    value
}

fn tidy(catalog: &catalog::Catalog, storage: &Storage, value: &mut Value) {
    normalise_decoded(catalog.schema(), storage.ty, value, &mut Strict::default())
        .unwrap_or_else(|e| panic!("{}: {e:?}", storage.kind));
}

/// The errors of a create of an object with these members.
pub(crate) fn created(catalog: &catalog::Catalog, plural: &str, name: &str, members: &str) -> Vec<String> {
    let storage = crate::tests::storage(catalog, plural);
    let value = ready(catalog, storage, object(storage, name, members));
    lines(&validate_create(kind_of(storage), storage, &value, &Context::plain(storage, NOW)))
}

/// The kind's errors of an update from one object to another, each once.
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

/// An object as it is stored and a write to it as it is validated. The stored one has the status it is given.
pub(crate) fn changed(
    catalog: &catalog::Catalog,
    storage: &Storage,
    old: Value,
    new: Value,
    ctx: &Context<'_>,
) -> (Value, Value) {
    let status = old.get("status").filter(|status| !status.is_null()).cloned();
    let mut before = ready(catalog, storage, old);
    for (member, value) in [("uid", "u"), ("creationTimestamp", NOW_TEXT)] {
        before.map_at(&["metadata"]).set(member, value);
    }
    if let Some(status) = status {
        before.make_map().set("status", status);
    }
    tidy(catalog, storage, &mut before);
    let mut after = new;
    tidy(catalog, storage, &mut after);
    defaults::apply(kind_of(storage), &storage.version, &mut after);
    prepare_update(kind_of(storage), &mut after, &before, ctx);
    tidy(catalog, storage, &mut after);
    (before, after)
}
