//! A StatefulSet as its controller reads it; made once per revision.

use std::sync::Arc;

use object::{Obj, Value};

use super::retention::Retention;
use super::status::SetStatus;
use crate::claim::{self, Selector, not_everything};
use crate::history::template_patch;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatefulSet {
    pub generation: i64,
    pub replicas: usize,
    /// The first ordinal.
    pub start: i64,
    pub min_ready_seconds: i64,
    /// Pods are made and deleted all at once, not one after the other.
    pub parallel: bool,
    pub update: UpdateStrategy,
    pub history_limit: i64,
    pub selector: Selector,
    /// The names of the claim templates, each once.
    pub claim_templates: Vec<String>,
    pub retention: Retention,
    /// The data of the revision this is, encoded.
    pub data: Vec<u8>,
    pub status: SetStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpdateStrategy {
    OnDelete,
    /// `None`: nothing is said beyond the strategy's name.
    RollingUpdate {
        partition: Option<usize>,
    },
}

impl StatefulSet {
    pub fn of(obj: &Obj) -> Arc<StatefulSet> {
        obj.view(|obj| StatefulSet::read(&runtime::tree(obj)))
    }

    pub fn read(tree: &Value) -> StatefulSet {
        let int = |path: &[&str]| tree.at(path).and_then(Value::as_int);
        let size = |value: i64| usize::try_from(value).unwrap_or(0);
        let strategy = tree.at(&["spec", "updateStrategy"]);
        let rolling = strategy.and_then(|strategy| strategy.get("rollingUpdate"));
        let templates = tree.at(&["spec", "volumeClaimTemplates"]).and_then(Value::as_list);
        let mut claim_templates: Vec<String> = Vec::new();
        for template in templates.unwrap_or_default() {
            let name = template.str_at(&["metadata", "name"]).unwrap_or("");
            if !claim_templates.iter().any(|there| there == name) {
                claim_templates.push(name.to_owned());
            }
        }
        StatefulSet {
            generation: int(&["metadata", "generation"]).unwrap_or(0),
            replicas: size(int(&["spec", "replicas"]).unwrap_or(1)),
            start: int(&["spec", "ordinals", "start"]).unwrap_or(0),
            min_ready_seconds: int(&["spec", "minReadySeconds"]).unwrap_or(0),
            parallel: tree.str_at(&["spec", "podManagementPolicy"]) == Some("Parallel"),
            update: match strategy.and_then(|strategy| strategy.str_at(&["type"])) {
                Some("OnDelete") => UpdateStrategy::OnDelete,
                _ => UpdateStrategy::RollingUpdate {
                    partition: rolling
                        .map(|rolling| size(rolling.get("partition").and_then(Value::as_int).unwrap_or(0))),
                },
            },
            history_limit: int(&["spec", "revisionHistoryLimit"]).unwrap_or(10),
            selector: not_everything(claim::selector(tree.at(&["spec", "selector"]))),
            claim_templates,
            retention: Retention::read(tree.at(&["spec", "persistentVolumeClaimRetentionPolicy"])),
            data: codec::json::to_vec(&template_patch(tree)),
            status: SetStatus::read(tree.get("status")),
        }
    }

    /// Is a pod of this ordinal wanted?
    pub fn has_ordinal(&self, ordinal: i64) -> bool {
        self.index_of(ordinal).is_some()
    }

    /// The place of an ordinal among the replicas.
    pub fn index_of(&self, ordinal: i64) -> Option<usize> {
        let index = usize::try_from(ordinal.checked_sub(self.start)?).ok()?;
        (index < self.replicas).then_some(index)
    }

    pub fn ordinal_at(&self, index: usize) -> i64 {
        self.start.saturating_add(i64::try_from(index).unwrap_or(i64::MAX))
    }
}
