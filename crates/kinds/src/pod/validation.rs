//! The rules of a pod, and of the template that workloads make pods from.
//!
//! ```text
//! validate ── create, update, status, ephemeralcontainers, resize   (update.rs, status.rs, resize.rs)
//!     └ spec ── volumes ── containers ── security ── scheduling      the order upstream checks and reports in
//! template ── labels, annotations, spec                              what Deployment, Job and the others embed
//! ```
//!
//! Messages, paths and their quirks are upstream's (v1.36, feature gates at their defaults).
//! Differs from kube-apiserver: a struct in a message is shown as the JSON a client would send, not as Go's
//! internal type, and the dump of a difference that follows "may not change fields other than" is left out.

mod affinity;
mod annotations;
mod container;
mod env;
mod handlers;
mod mounts;
mod options;
mod os;
mod projected;
mod resize;
mod resources;
mod scheduling;
mod security;
mod spec;
mod status;
mod template;
mod update;
pub(crate) mod volume_sources;
mod volumes;

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::{FieldError, Value};

use crate::check::{Errors, Path, items, member, text};
use crate::kind::Context;
use crate::metadata;
use crate::rules::Rules;

pub(crate) use affinity::{has_bad_values, node_selector};
pub(crate) use annotations::check as pod_annotations;
pub(crate) use options::Options;
pub(crate) use projected::signer_name;
pub(crate) use resources::{
    STANDARD, container_resource_name, is_extended, is_huge_page, is_native, may_overcommit, overhead,
    quantity_value, resource_name,
};
pub(crate) use scheduling::{taint_effect, tolerations};
pub(crate) use template::template;
pub(crate) use volume_sources as source;
pub(crate) use volume_sources::{csi_driver_name, iscsi_name_too_long, no_backsteps};

const SPEC: Path<'static> = Path::Root("spec");
const METADATA: Path<'static> = Path::Root("metadata");

/// All broken rules of a pod.
pub(super) fn validate(
    rules: &Rules,
    storage: &Storage,
    new: &Value,
    old: Option<&Value>,
    ctx: &Context<'_>,
) -> Vec<FieldError> {
    // A binding was validated as a binding.
    if ctx.subresource == Some("binding") {
        return Vec::new();
    }
    let options = Options::for_pod(old);
    let Some(old) = old else { return create(rules, storage, new, &options) };
    let mut errors = Errors::new(metadata::check_update(rules, new, old));
    match ctx.subresource {
        Some("status") => {
            annotations::check_update(new, old, &options, &mut errors);
            status::check(new, old, &mut errors);
        }
        Some("ephemeralcontainers") => {
            metadata_and_spec(rules, storage, new, &options, &mut errors);
            annotations::check_update(new, old, &options, &mut errors);
            update::check_ephemeral_containers(storage, new, old, &mut errors);
        }
        Some("resize") => {
            metadata_and_spec(rules, storage, new, &options, &mut errors);
            resize::check(storage, new, old, &mut errors);
        }
        _ => {
            metadata_and_spec(rules, storage, new, &options, &mut errors);
            annotations::check_update(new, old, &options, &mut errors);
            update::check(storage, new, old, &options, &mut errors);
        }
    }
    errors.list
}

fn create(rules: &Rules, storage: &Storage, new: &Value, options: &Options) -> Vec<FieldError> {
    let mut errors = Errors::default();
    metadata_and_spec(rules, storage, new, options, &mut errors);
    let spec = new.get("spec").unwrap_or(&Value::Null);
    if !items(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !items(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&SPEC.child("nodeName"), detail);
    }
    let annotations = new.at(&["metadata", "annotations"]);
    annotations::check_profiles_match(annotations, spec, &SPEC, &mut errors);
    errors.list
}

fn metadata_and_spec(rules: &Rules, storage: &Storage, new: &Value, options: &Options, errors: &mut Errors) {
    errors.list.extend(metadata::check(rules, storage, new));
    let spec = new.get("spec").unwrap_or(&Value::Null);
    let annotations = new.at(&["metadata", "annotations"]);
    annotations::check(annotations, spec, &METADATA.child("annotations"), options, errors);
    spec::check(spec, new.get("metadata"), &SPEC, options, errors);
    if text(spec, "serviceAccountName").is_empty() {
        check_no_tokens(spec, errors);
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            container::check_image_spaces(container, &SPEC.child(list).index(i), errors);
        }
    }
}

/// A token is of a service account, so there must be one.
fn check_no_tokens(spec: &Value, errors: &mut Errors) {
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let Some(projected) = member(volume, "projected") else { continue };
        for (j, source) in items(projected, "sources").iter().enumerate() {
            if member(source, "serviceAccountToken").is_some() {
                let volumes = SPEC.child("volumes");
                let volume = volumes.index(i);
                let sources = volume.child("projected");
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&sources.child("sources").index(j).child("serviceAccountToken"), detail);
            }
        }
    }
}

/// Init, ordinary and ephemeral containers, with the list each stands in.
pub(crate) fn containers_of(spec: &Value) -> impl Iterator<Item = (&'static str, usize, &Value)> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(move |list| items(spec, list).iter().enumerate().map(move |(i, c)| (list, i, c)))
}
