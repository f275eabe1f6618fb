//! A ReplicaSet or a ReplicationController as controllers read it; made once per revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::selector::LabelSelector;
use object::{Obj, Value, time};

use super::status::SetStatus;
use crate::claim::{self, Selector, not_everything};

/// The label a Deployment tells its ReplicaSets apart by.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    pub name: String,
    pub uid: String,
    /// Unix seconds.
    pub created: i64,
    pub generation: i64,
    pub deleting: bool,
    pub annotations: BTreeMap<String, String>,
    pub replicas: i64,
    pub min_ready_seconds: i64,
    pub selector: Selector,
    /// Equality with the template's labels.
    pub template_labels: LabelSelector,
    /// Without the label that tells templates apart.
    pub template: Value,
    pub status: SetStatus,
}

impl Set {
    /// The view all controllers share.
    pub fn of(obj: &Obj) -> Arc<Set> {
        obj.view(|obj| Set::read(&runtime::tree(obj)))
    }

    pub fn read(tree: &Value) -> Set {
        let text = |path: &[&str]| tree.str_at(path).unwrap_or("").to_owned();
        let int = |path: &[&str]| tree.at(path).and_then(Value::as_int);
        let labels = tree.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        Set {
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            created: tree
                .str_at(&["metadata", "creationTimestamp"])
                .and_then(time::parse)
                .map_or(0, |(seconds, _)| seconds),
            generation: int(&["metadata", "generation"]).unwrap_or(0),
            deleting: tree.at(&["metadata", "deletionTimestamp"]).is_some(),
            annotations: strings(tree.at(&["metadata", "annotations"])),
            replicas: int(&["spec", "replicas"]).unwrap_or(1),
            min_ready_seconds: int(&["spec", "minReadySeconds"]).unwrap_or(0),
            selector: not_everything(selector(tree.at(&["spec", "selector"]))),
            template_labels: LabelSelector::from_labels(
                labels.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))),
            ),
            template: without_hash(tree.at(&["spec", "template"])),
            status: SetStatus::read(tree.get("status")),
        }
    }
}

/// A map of strings, sorted.
pub(crate) fn strings(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned()))).collect()
}

/// A template as it was before its ReplicaSet was named after it.
pub(crate) fn without_hash(template: Option<&Value>) -> Value {
    let mut template = template.cloned().unwrap_or_else(Value::map);
    if let Some(metadata) = template.as_map_mut().and_then(|t| t.get_mut("metadata"))
        && let Some(metadata) = metadata.as_map_mut()
        && let Some(labels) = metadata.get_mut("labels").and_then(Value::as_map_mut)
    {
        labels.remove(TEMPLATE_HASH);
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
    template
}

/// `spec.selector`: a label selector, or the plain map of a ReplicationController.
fn selector(value: Option<&Value>) -> Selector {
    let field = |name: &str| value.and_then(|value| value.get(name));
    let is_structured = field("matchLabels").is_some_and(|v| v.as_map().is_some())
        || field("matchExpressions").is_some_and(|v| v.as_list().is_some());
    if is_structured || value.and_then(Value::as_map).is_none() {
        return claim::selector(value);
    }
    let labels = strings(value);
    Ok(LabelSelector::from_labels(labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}
