//! What a writer should know though nothing is wrong: deprecated fields, values that surprise, names that will hurt.
//!
//! ```text
//! write ─ prepared ─ validated ─ of(storage, new, old) ─> texts ─ deduplicated, cut and sent as `Warning` headers
//! ```
//!
//! One row a kind that has any; the rules themselves stand in the kind's folder. Texts, paths and order are upstream's
//! (v1.36, feature gates at their defaults), its slips included: clients compare them.

mod said;

#[path = "admissionpolicy/warnings.rs"]
mod admission;
#[path = "cronjob/warnings.rs"]
mod cronjob;
#[path = "csidriver/warnings.rs"]
mod csidriver;
#[path = "csistoragecapacity/warnings.rs"]
mod csistoragecapacity;
#[path = "customresourcedefinition/warnings.rs"]
mod customresourcedefinition;
#[path = "daemonset/warnings.rs"]
mod daemonset;
#[path = "deployment/warnings.rs"]
mod deployment;
#[path = "endpoints/warnings.rs"]
mod endpoints;
#[path = "endpointslice/warnings.rs"]
mod endpointslice;
#[path = "ingress/warnings.rs"]
mod ingress;
#[path = "job/warnings.rs"]
mod job;
#[path = "networkpolicy/warnings.rs"]
mod networkpolicy;
#[path = "node/warnings.rs"]
mod node;
#[path = "node/labels.rs"]
mod node_labels;
#[path = "persistentvolume/warnings.rs"]
mod persistentvolume;
#[path = "persistentvolumeclaim/warnings.rs"]
mod persistentvolumeclaim;
#[path = "pod/warnings.rs"]
mod pod;
#[path = "pod/warnings_containers.rs"]
mod pod_containers;
#[path = "pod/warnings_paths.rs"]
mod pod_paths;
#[path = "podtemplate/warnings.rs"]
mod podtemplate;
#[path = "replicaset/warnings.rs"]
mod replicaset;
#[path = "replicationcontroller/warnings.rs"]
mod replicationcontroller;
#[path = "resourcequota/warnings.rs"]
mod resourcequota;
#[path = "resourceslice/warnings.rs"]
mod resourceslice;
#[path = "runtimeclass/warnings.rs"]
mod runtimeclass;
#[path = "secret/warnings.rs"]
mod secret;
#[path = "secret/pair.rs"]
mod secret_pair;
#[path = "service/warnings.rs"]
mod service;
#[path = "serviceaccount/warnings.rs"]
mod serviceaccount;
#[path = "statefulset/warnings.rs"]
mod statefulset;
#[path = "storageclass/warnings.rs"]
mod storageclass;

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::{DeleteOptions, Value};

use crate::kind::Context;
use crate::pod::apparmor;
use crate::{list, metadata};
use said::Said;

/// A write that broke no rule.
pub(crate) struct Accepted<'a> {
    pub new: &'a Value,
    /// What is stored; `None` for a create.
    pub old: Option<&'a Value>,
}

static NULL: Value = Value::Null;

impl<'a> Accepted<'a> {
    pub(crate) fn is_create(&self) -> bool {
        self.old.is_none()
    }
    /// A create, or an update that counts as a new generation: others are not judged again.
    pub(crate) fn is_new_generation(&self) -> bool {
        let generation = |v: &Value| v.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
        self.old.is_none_or(|old| generation(old) != generation(self.new))
    }
    pub(crate) fn spec(&self) -> &'a Value {
        self.new.get("spec").unwrap_or(&NULL)
    }
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.new.str_at(&["metadata", "annotations", key])
    }
}

/// The warnings a write that passed validation deserves, in order.
pub fn of(storage: &Storage, new: &Value, old: Option<&Value>, ctx: &Context<'_>) -> Vec<String> {
    let accepted = Accepted { new, old };
    let mut said = Said::default();
    match find(storage) {
        Some(Row { object, status, .. }) => match ctx.subresource {
            None | Some("scale") => object(&accepted, &mut said),
            Some("status") => status(&accepted, &mut said),
            _ => {}
        },
        // What no row of the list of kinds names is a custom resource.
        None if ctx.is_object() && !list::is_listed(storage) => {
            said.extend(metadata::finalizer_warnings(new, old));
        }
        None => {}
    }
    said.into_list()
}

/// What is said of a new object before it is prepared, because preparing hides the reason.
pub fn before_create(storage: &Storage, new: &Value) -> Vec<String> {
    match find(storage) {
        Some(Row { before: Some(before), .. }) => before(new),
        _ => Vec::new(),
    }
}

/// What a DELETE deserves.
pub fn on_delete(storage: &Storage, options: &DeleteOptions) -> Option<&'static str> {
    find(storage)?.delete?(options)
}

type Warn = fn(&Accepted<'_>, &mut Said);

struct Row {
    group: &'static str,
    plural: &'static str,
    /// Create and update of the object itself.
    object: Warn,
    status: Warn,
    before: Option<fn(&Value) -> Vec<String>>,
    delete: Option<fn(&DeleteOptions) -> Option<&'static str>>,
}

fn nothing(_: &Accepted<'_>, _: &mut Said) {}

const fn row(group: &'static str, plural: &'static str, object: Warn) -> Row {
    Row { group, plural, object, status: nothing, before: None, delete: None }
}

impl Row {
    const fn with_status(mut self, status: Warn) -> Row {
        self.status = status;
        self
    }
    const fn with_before(mut self, before: fn(&Value) -> Vec<String>) -> Row {
        self.before = Some(before);
        self
    }
    const fn with_delete(mut self, delete: fn(&DeleteOptions) -> Option<&'static str>) -> Row {
        self.delete = Some(delete);
        self
    }
}

fn find(storage: &Storage) -> Option<&'static Row> {
    ROWS.iter().find(|row| storage.plural == *row.plural && storage.group == *row.group)
}

const ADMISSION: &str = "admissionregistration.k8s.io";

static ROWS: &[Row] = &[
    row("", "endpoints", endpoints::warn),
    row("", "nodes", node::warn),
    row("", "persistentvolumeclaims", persistentvolumeclaim::warn),
    row("", "persistentvolumes", persistentvolume::warn),
    row("", "pods", pod::warn).with_status(pod::warn_status).with_before(apparmor::warnings),
    row("", "podtemplates", podtemplate::warn),
    row("", "replicationcontrollers", replicationcontroller::warn),
    row("", "resourcequotas", resourcequota::warn),
    row("", "secrets", secret::warn),
    row("", "serviceaccounts", serviceaccount::warn),
    row("", "services", service::warn).with_status(service::warn_status),
    row(ADMISSION, "mutatingadmissionpolicies", admission::warn),
    row(ADMISSION, "mutatingadmissionpolicybindings", admission::warn),
    row(ADMISSION, "mutatingwebhookconfigurations", admission::warn),
    row(ADMISSION, "validatingadmissionpolicies", admission::warn).with_status(admission::warn),
    row(ADMISSION, "validatingadmissionpolicybindings", admission::warn),
    row(ADMISSION, "validatingwebhookconfigurations", admission::warn),
    row("apiextensions.k8s.io", "customresourcedefinitions", customresourcedefinition::warn),
    row("apps", "daemonsets", daemonset::warn),
    row("apps", "deployments", deployment::warn),
    row("apps", "replicasets", replicaset::warn),
    row("apps", "statefulsets", statefulset::warn),
    row("batch", "cronjobs", cronjob::warn),
    row("batch", "jobs", job::warn).with_delete(job::delete_warning),
    row("discovery.k8s.io", "endpointslices", endpointslice::warn),
    row("networking.k8s.io", "ingresses", ingress::warn).with_status(ingress::warn_status),
    row("networking.k8s.io", "networkpolicies", networkpolicy::warn),
    row("node.k8s.io", "runtimeclasses", runtimeclass::warn),
    row("resource.k8s.io", "resourceslices", resourceslice::warn),
    row("storage.k8s.io", "csidrivers", csidriver::warn),
    row("storage.k8s.io", "csistoragecapacities", csistoragecapacity::warn),
    row("storage.k8s.io", "storageclasses", storageclass::warn),
];
