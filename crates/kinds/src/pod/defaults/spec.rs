//! The pod spec, in a pod or in the template of a workload.

use object::{Map, Value};

use super::{container, volume};
use crate::defaults::amounts;
use crate::defaults::fill::Literal::{Empty, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, inside, plain, pointer, text};

const SPEC: &[Default] = &[
    plain("dnsPolicy", Text("ClusterFirst")),
    plain("restartPolicy", Text("Always")),
    pointer("securityContext", Empty),
    pointer("terminationGracePeriodSeconds", Int(30)),
    plain("schedulerName", Text("default-scheduler")),
];

/// Annotations of init containers from before they were fields: dropped.
const OLD_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

pub(crate) fn spec(spec: &mut Map) {
    fill(spec, SPEC);
    account(spec);
    each(spec, "volumes", volume::volume);
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, containers, container::container);
    }
    amounts::round(spec, "overhead");
    amounts::round_requirements(spec, "resources");
}

/// The template held by value in this struct.
pub(crate) fn template(holder: &mut Map) {
    if let Some(template) = inside(holder, "template") {
        pointed_template(template);
    }
}

/// A template that is there.
pub(crate) fn pointed_template(template: &mut Map) {
    drop_old_annotations(template);
    if let Some(inner) = inside(template, "spec") {
        spec(inner);
    }
}

pub(crate) fn drop_old_annotations(holder: &mut Map) {
    let Some(metadata) = at(holder, "metadata") else { return };
    let Some(annotations) = at(metadata, "annotations") else { return };
    if !annotations.iter().any(|(name, _)| OLD_ANNOTATIONS.contains(&&**name)) {
        return;
    }
    annotations.retain(|name, _| !OLD_ANNOTATIONS.contains(&&**name));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The service account has two fields: the deprecated one follows the other.
fn account(spec: &mut Map) {
    const OLD: &str = "serviceAccount";
    const NAME: &str = "serviceAccountName";
    let (from, to) = if text(spec, NAME).is_empty() { (OLD, NAME) } else { (NAME, OLD) };
    let account = text(spec, from);
    if account.is_empty() || account == text(spec, to) {
        return;
    }
    let account = Value::from(account);
    spec.set(to, account);
}
