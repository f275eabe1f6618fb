//! `/scale`: a small view of what has replicas, and the way back.

pub(crate) mod columns;

use catalog::Storage;
use object::selector::LabelSelector;
use object::{About, FieldError, Status, Value};

use crate::generic::GenericKind;
use crate::metadata;
use crate::rules::Rules;

/// The kind `Scale`, which no resource serves.
pub(crate) static KIND: GenericKind = GenericKind::plain(Rules::PLAIN).with_printer(&columns::PRINTER);

/// Where a kind keeps what `Scale` shows.
#[derive(Debug)]
pub struct ScalePaths {
    pub spec_replicas: &'static [&'static str],
    pub status_replicas: &'static [&'static str],
    pub selector: &'static [&'static str],
    /// The selector is a plain map of labels, as replication controllers have it.
    pub selector_is_map: bool,
}

pub(crate) const WORKLOAD: ScalePaths = ScalePaths {
    spec_replicas: &["spec", "replicas"],
    status_replicas: &["status", "replicas"],
    selector: &["spec", "selector"],
    selector_is_map: false,
};
pub(crate) const REPLICATION_CONTROLLER: ScalePaths = ScalePaths { selector_is_map: true, ..WORKLOAD };

/// The `autoscaling/v1` Scale of an object, to be normalised as one.
pub fn to_scale(paths: &ScalePaths, object: &Value) -> Result<Value, Status> {
    let selector = match object.at(paths.selector) {
        Some(map) if paths.selector_is_map => {
            let labels = map.as_map().into_iter().flat_map(|m| m.iter());
            LabelSelector::from_labels(labels.map(|(k, v)| (&**k, v.as_str().unwrap_or_default())))
        }
        Some(selector) => LabelSelector::from_label_selector(selector).map_err(Status::bad_request)?,
        None => LabelSelector::nothing(),
    };
    let mut scale = Value::map();
    let top = scale.make_map();
    top.set("kind", "Scale");
    top.set("apiVersion", "autoscaling/v1");
    let metadata = scale.map_at(&["metadata"]);
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata::meta(object, member) {
            metadata.set(member, value.clone());
        }
    }
    // Absent is what defaulting makes of it: one. A Scale of none has no number at all.
    let replicas = object.at(paths.spec_replicas).and_then(Value::as_int).unwrap_or(1);
    let spec = scale.map_at(&["spec"]);
    if replicas != 0 {
        spec.set("replicas", replicas);
    }
    let status = scale.map_at(&["status"]);
    status.set("replicas", object.at(paths.status_replicas).and_then(Value::as_int).unwrap_or(0));
    status.set("selector", selector.to_string());
    Ok(scale)
}

/// Moves the number of a written Scale into the object, with the resourceVersion the client named.
pub fn apply_scale(
    paths: &ScalePaths,
    storage: &Storage,
    object: &mut Value,
    scale: &Value,
) -> Result<(), Status> {
    let name = object.str_at(&["metadata", "name"]).unwrap_or_default();
    let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_int).unwrap_or(0);
    let mut errors = metadata::check(&Rules::PLAIN, storage, scale);
    if replicas < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", replicas.to_string(), detail));
    }
    if !errors.is_empty() {
        return Err(Status::invalid("autoscaling", "Scale", name, errors));
    }
    let wanted = metadata::meta(scale, "uid").and_then(Value::as_str);
    let uid = object.str_at(&["metadata", "uid"]).unwrap_or_default();
    if let Some(wanted) = wanted.filter(|w| *w != uid) {
        let resource = format!("{}/scale", storage.plural);
        let about = About { group: &storage.group, resource: &resource };
        let reason = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
        return Err(Status::conflict(about, name, reason));
    }
    if let [parents @ .., last] = paths.spec_replicas {
        object.map_at(parents).set(*last, replicas);
    }
    match metadata::meta(scale, "resourceVersion") {
        Some(version) => object.map_at(&["metadata"]).set("resourceVersion", version.clone()),
        None => {
            object.map_at(&["metadata"]).remove("resourceVersion");
        }
    }
    Ok(())
}
