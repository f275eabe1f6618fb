//! Replication controllers: one replica; selector and labels are those of the template.

use object::{Map, Value};

use crate::defaults::fill::Literal::Int;
use crate::defaults::fill::{Default, at, fill, inside, is_empty, pointer};
use crate::pod;

const SPEC: &[Default] = &[pointer("replicas", Int(1))];

pub(crate) fn apply(controller: &mut Map) {
    let Some(spec) = inside(controller, "spec") else { return };
    fill(spec, SPEC);
    if let Some(template) = at(spec, "template") {
        pod::defaults::pointed_template(template);
    }
    if is_empty(spec, "selector")
        && let Some(labels) = template_labels(spec).cloned()
    {
        spec.set("selector", labels);
    }
    take_template_labels(controller);
}

/// An object without labels gets those of its pods.
pub(crate) fn take_template_labels(object: &mut Map) {
    let unlabelled = object
        .get("metadata")
        .is_none_or(|metadata| metadata.as_map().is_some_and(|metadata| is_empty(metadata, "labels")));
    if !unlabelled {
        return;
    }
    let labels = object.get("spec").and_then(Value::as_map).and_then(template_labels).cloned();
    if let Some(labels) = labels
        && let Some(metadata) = inside(object, "metadata")
    {
        metadata.set("labels", labels);
    }
}

fn template_labels(spec: &Map) -> Option<&Map> {
    let labels = spec.get("template")?.at(&["metadata", "labels"])?.as_map()?;
    (!labels.is_empty()).then_some(labels)
}
