//! The template of a pod, as workloads embed it.

use object::Value;

use super::{Options, annotations, spec};
use crate::check::{Errors, Path, items};

/// Labels, annotations and spec. Upstream's paths leave out `metadata` for the first two.
pub(crate) fn template(template: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let labels = template.at(&["metadata", "labels"]);
    let own_annotations = template.at(&["metadata", "annotations"]);
    let pod_spec = template.get("spec").unwrap_or(&Value::Null);
    errors.labels(&at.child("labels"), labels);
    errors.annotations(&at.child("annotations"), own_annotations);
    annotations::check(own_annotations, pod_spec, &at.child("annotations"), options, errors);
    spec::check(pod_spec, None, &at.child("spec"), options, errors);
    annotations::check_profiles_match(own_annotations, pod_spec, &at.child("spec"), errors);
    if !items(pod_spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&at.child("spec").child("ephemeralContainers"), detail);
    }
}
