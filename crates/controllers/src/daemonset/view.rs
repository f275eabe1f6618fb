//! A DaemonSet as its controller reads it: made once per revision from the object.

use std::sync::Arc;

use object::{Obj, Value};

use super::placement::Placement;
use super::status::Status;
use super::template;
use crate::claim::{self, Selector, not_everything};
use crate::history::template_patch;

pub struct DaemonSet {
    pub generation: i64,
    pub selector: Selector,
    /// An empty selector, which validation refuses today.
    pub selects_all: bool,
    pub min_ready_seconds: i64,
    pub rolling: Option<Rolling>,
    pub history_limit: i64,
    /// The annotation of a time before there were revisions.
    pub template_generation: Option<i64>,
    pub placement: Placement,
    /// What a revision of the template holds.
    pub data: Vec<u8>,
    pub status: Status,
}

/// How many pods may be missing, and how many too many, during a rollout; `None` of a set: pods are replaced when somebody deletes them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rolling {
    pub max_unavailable: Amount,
    pub max_surge: Amount,
}

/// A number, or a percentage of the nodes, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Number(i64),
    Percent(i64),
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::Number(0)
    }
}

impl Amount {
    fn read(value: Option<&Value>) -> Amount {
        match value {
            Some(Value::Int(number)) => Amount::Number(*number),
            Some(Value::Str(text)) => {
                Amount::Percent(text.strip_suffix('%').and_then(|number| number.parse().ok()).unwrap_or(0))
            }
            _ => Amount::default(),
        }
    }

    pub fn of(self, total: i64) -> i64 {
        match self {
            Amount::Number(number) => number,
            Amount::Percent(percent) => percent.saturating_mul(total).saturating_add(99).div_euclid(100),
        }
    }
}

/// The view of a DaemonSet's object, shared until its next revision.
pub fn daemon_set_view(obj: &Obj) -> Arc<DaemonSet> {
    obj.view(|obj| DaemonSet::read(&runtime::tree(obj)))
}

impl DaemonSet {
    pub fn read(tree: &Value) -> DaemonSet {
        let int = |path: &[&str]| tree.at(path).and_then(Value::as_int);
        let selector = tree.at(&["spec", "selector"]);
        let generation = tree.at(&["metadata", "annotations"]);
        let generation = generation.and_then(|a| a.str_at(&["deprecated.daemonset.template.generation"]));
        let rolling = tree.str_at(&["spec", "updateStrategy", "type"]) == Some("RollingUpdate");
        DaemonSet {
            generation: int(&["metadata", "generation"]).unwrap_or(0),
            selects_all: claim::selector(selector).is_ok_and(|selector| selector.is_everything()),
            selector: not_everything(claim::selector(selector)),
            min_ready_seconds: int(&["spec", "minReadySeconds"]).unwrap_or(0),
            rolling: rolling.then(|| {
                let limits = tree.at(&["spec", "updateStrategy", "rollingUpdate"]);
                let limit = |name: &str| Amount::read(limits.and_then(|limits| limits.get(name)));
                Rolling { max_unavailable: limit("maxUnavailable"), max_surge: limit("maxSurge") }
            }),
            history_limit: int(&["spec", "revisionHistoryLimit"]).unwrap_or(10),
            template_generation: generation.and_then(|text| text.parse().ok()),
            placement: Placement::read(&template::tolerant(tree.at(&["spec", "template"]))),
            data: codec::json::to_vec(&template_patch(tree)),
            status: Status::read(tree.get("status")),
        }
    }

    /// May a node have two pods for a while?
    pub fn allows_surge(&self) -> bool {
        self.rolling.as_ref().is_some_and(|rolling| rolling.max_surge.of(1) > 0)
    }
}
