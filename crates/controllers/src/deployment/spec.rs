//! A Deployment as its controller reads it; made once per revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use object::{Obj, Value};

use super::status::Status;
use crate::claim::{self, Selector};
use crate::replicaset::{strings, without_hash};

/// What upstream takes for "no limit".
const UNLIMITED: i64 = i32::MAX as i64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Deployment {
    pub name: String,
    pub generation: i64,
    pub deleting: bool,
    pub annotations: BTreeMap<String, String>,
    pub replicas: i64,
    pub min_ready_seconds: i64,
    pub paused: bool,
    /// `None`: Recreate.
    pub rolling: Option<Rolling>,
    pub selector: Selector,
    /// As written, for the selector of a new ReplicaSet.
    pub selector_value: Value,
    /// As written, for a new ReplicaSet.
    pub template: Value,
    /// For comparisons.
    pub bare_template: Value,
    pub progress_deadline_seconds: Option<i64>,
    pub revision_history_limit: Option<i64>,
    pub status: Status,
}

/// How far a rolling update may go above and below the number wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rolling {
    pub surge: i64,
    pub unavailable: i64,
}

impl Deployment {
    pub fn of(obj: &Obj) -> Arc<Deployment> {
        obj.view(|obj| Deployment::read(&runtime::tree(obj)))
    }

    pub fn read(tree: &Value) -> Deployment {
        let int = |path: &[&str]| tree.at(path).and_then(Value::as_int);
        let limit = |path: &[&str]| int(path).filter(|limit| *limit != UNLIMITED);
        let selector = tree.at(&["spec", "selector"]).cloned().unwrap_or(Value::Null);
        let replicas = int(&["spec", "replicas"]).unwrap_or(1);
        let template = tree.at(&["spec", "template"]);
        Deployment {
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").to_owned(),
            generation: int(&["metadata", "generation"]).unwrap_or(0),
            deleting: tree.at(&["metadata", "deletionTimestamp"]).is_some(),
            annotations: strings(tree.at(&["metadata", "annotations"])),
            replicas,
            min_ready_seconds: int(&["spec", "minReadySeconds"]).unwrap_or(0),
            paused: tree.at(&["spec", "paused"]).and_then(Value::as_bool).unwrap_or(false),
            rolling: match tree.str_at(&["spec", "strategy", "type"]) {
                Some("Recreate") => None,
                _ => Some(Rolling::read(tree.at(&["spec", "strategy", "rollingUpdate"]), replicas)),
            },
            selector: claim::selector(Some(&selector)),
            selector_value: selector,
            template: template.cloned().unwrap_or_else(Value::map),
            bare_template: without_hash(template),
            progress_deadline_seconds: limit(&["spec", "progressDeadlineSeconds"]),
            revision_history_limit: limit(&["spec", "revisionHistoryLimit"]),
            status: Status::read(tree.get("status")),
        }
    }

    /// Its selector is there, and empty.
    pub fn selects_all(&self) -> bool {
        self.selector.as_ref().is_ok_and(|selector| selector.is_everything())
    }

    /// Pods there may be at most, above those wanted.
    pub fn max_surge(&self) -> i64 {
        self.rolling.map_or(0, |rolling| rolling.surge)
    }

    /// Pods that may be missing at most.
    pub fn max_unavailable(&self) -> i64 {
        self.rolling.map_or(0, |rolling| rolling.unavailable.min(self.replicas))
    }

    pub fn max_replicas(&self) -> i64 {
        self.replicas + self.max_surge()
    }
}

impl Rolling {
    /// Percentages of surge are rounded up, of unavailability down. If both come to nothing the rollout could never move:
    /// then one pod may be missing, since a surge may have no room.
    pub fn read(limits: Option<&Value>, replicas: i64) -> Rolling {
        let limit = |name: &str, up: bool| {
            limits.and_then(|limits| limits.get(name)).map_or(0, |limit| scaled(limit, replicas, up))
        };
        let (surge, unavailable) = (limit("maxSurge", true), limit("maxUnavailable", false));
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        Rolling { surge, unavailable }
    }
}

/// A number, or a percentage of `total`.
fn scaled(limit: &Value, total: i64, up: bool) -> i64 {
    match limit {
        Value::Int(number) => *number,
        Value::Str(text) => {
            let Some(percent) = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok()) else { return 0 };
            let hundredths = percent.saturating_mul(total);
            if up { hundredths.saturating_add(99).div_euclid(100) } else { hundredths.div_euclid(100) }
        }
        _ => 0,
    }
}
