//! `/scale`: the replicas of an object as a small view, and writes through it.

pub(crate) mod columns;

use std::borrow::Cow;

use catalog::{Name, Storage};
use object::selector::LabelSelector;
use object::{About, FieldError, Status, Value, quote};

use crate::generic::GenericKind;
use crate::metadata;
use crate::rules::Rules;

/// The kind `Scale`, which no resource serves.
pub(crate) static KIND: GenericKind = GenericKind::plain(Rules::PLAIN).with_printer(&columns::PRINTER);

/// Where a kind has what `Scale` shows.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    pub spec_replicas: FieldPath,
    pub status_replicas: FieldPath,
    pub selector: FieldPath,
    pub selector_form: ScaleSelector,
    /// Of custom resources: `spec_replicas` as their definition writes it. It must be there.
    pub required: Option<String>,
}

/// What the selector of a kind looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleSelector {
    LabelSelector,
    /// A plain map of labels, as replication controllers have it.
    Labels,
    /// Its text form, as custom resources have it.
    Text,
}

/// Names of members, outermost first: known to the compiler or read from a definition.
pub type FieldPath = Cow<'static, [Name]>;

pub(crate) static WORKLOAD: ScalePaths = ScalePaths::workload(ScaleSelector::LabelSelector);
pub(crate) static REPLICATION_CONTROLLER: ScalePaths = ScalePaths::workload(ScaleSelector::Labels);

const SPEC_REPLICAS: &[Name] = &[Name::Static("spec"), Name::Static("replicas")];
const STATUS_REPLICAS: &[Name] = &[Name::Static("status"), Name::Static("replicas")];
const SELECTOR: &[Name] = &[Name::Static("spec"), Name::Static("selector")];

impl ScalePaths {
    const fn workload(selector_form: ScaleSelector) -> ScalePaths {
        ScalePaths {
            spec_replicas: Cow::Borrowed(SPEC_REPLICAS),
            status_replicas: Cow::Borrowed(STATUS_REPLICAS),
            selector: Cow::Borrowed(SELECTOR),
            selector_form,
            required: None,
        }
    }
}

/// The replicas of a custom resource that has none, in the Scale that a patch is applied to.
const MISSING: i64 = i32::MIN as i64;

/// A Scale that shows an object which has no number of replicas.
pub fn without_missing_replicas(mut scale: Value) -> Value {
    if scale.at(&["spec", "replicas"]).and_then(Value::as_int) == Some(MISSING) {
        scale.map_at(&["spec"]).remove("replicas");
    }
    scale
}

/// The `autoscaling/v1` Scale of an object, to be normalised as one.
pub fn to_scale(paths: &ScalePaths, object: &Value) -> Result<Value, Status> {
    let selector = match (at(object, &paths.selector), paths.selector_form) {
        (text, ScaleSelector::Text) => text.and_then(Value::as_str).unwrap_or_default().to_owned(),
        (Some(map), ScaleSelector::Labels) => {
            let labels = map.as_map().into_iter().flat_map(|m| m.iter());
            LabelSelector::from_labels(labels.map(|(k, v)| (&**k, v.as_str().unwrap_or_default())))
                .to_string()
        }
        (Some(selector), ScaleSelector::LabelSelector) => {
            LabelSelector::from_label_selector(selector).map_err(Status::bad_request)?.to_string()
        }
        (None, _) => LabelSelector::nothing().to_string(),
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
    // Absent is what defaulting makes of it: one; of a custom resource, a number that must not stay. A Scale of none has no
    // number at all.
    let absent = if paths.required.is_some() { MISSING } else { 1 };
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_int).unwrap_or(absent);
    let spec = scale.map_at(&["spec"]);
    if replicas != 0 {
        spec.set("replicas", replicas);
    }
    let status = scale.map_at(&["status"]);
    status.set("replicas", at(object, &paths.status_replicas).and_then(Value::as_int).unwrap_or(0));
    if !(selector.is_empty() && paths.selector_form == ScaleSelector::Text) {
        status.set("selector", selector);
    }
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
    if let Some(path) = paths.required.as_ref().filter(|_| replicas == MISSING) {
        return Err(Status::bad_request(format!("the spec replicas field {} cannot be empty", quote(path))));
    }
    let mut errors = metadata::check(&Rules::PLAIN, storage, scale);
    if replicas < 0 && paths.required.is_none() {
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
    if let [parents @ .., last] = &*paths.spec_replicas {
        let parent = parents.iter().fold(&mut *object, |here, name| here.make_map().entry(name.clone()));
        parent.make_map().set(last.clone(), replicas);
    }
    match metadata::meta(scale, "resourceVersion") {
        Some(version) => object.map_at(&["metadata"]).set("resourceVersion", version.clone()),
        None => {
            object.map_at(&["metadata"]).remove("resourceVersion");
        }
    }
    Ok(())
}

/// Why the object has no scale to show.
pub fn check_scale(paths: &ScalePaths, object: &Value) -> Result<(), Status> {
    match paths.required.as_ref().filter(|_| at(object, &paths.spec_replicas).is_none()) {
        Some(path) => {
            Err(Status::internal(format!("the spec replicas field {} does not exist", quote(path))))
        }
        None => Ok(()),
    }
}

fn at<'v>(object: &'v Value, path: &[Name]) -> Option<&'v Value> {
    path.iter().try_fold(object, |here, name| here.get(name))
}
