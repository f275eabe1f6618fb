//! How long a pod may stay on a node with NoExecute taints, and what follows for it now.

use std::time::Duration;

use object::{Map, Value};
use tokio::time::Instant;

use crate::nodelifecycle::node::{NO_EXECUTE, NodeFacts, Taint};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
    pub seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    Forever,
    Seconds(i64),
    /// Not at all: some taint is not tolerated.
    No,
}

/// What was decided about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    pub uid: String,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    At(Instant),
    /// People were told; the deletion may have to be tried again.
    Told,
    Done,
}

/// What is decided about a pod now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// A deletion people may have been waiting for does not come as decided before: they are told.
    pub cancelled: bool,
    /// What is remembered from now on.
    pub sentence: Option<Sentence>,
    pub then: Then,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    Wait(Duration),
    Evict,
}

/// How long a pod may stay: by the taints of its node, `None` if it has none. A node that is gone pardons nobody.
pub fn allowed(
    taints: Option<&[Taint]>,
    tolerations: impl FnOnce() -> Vec<Toleration>,
    sentenced: bool,
    node_is_there: bool,
) -> Stay {
    match taints {
        Some(taints) => stay(taints, &tolerations()),
        None if sentenced && !node_is_there => Stay::Seconds(0),
        None => Stay::Forever,
    }
}

/// `uid`: the pod's; `None`: it is gone.
pub fn judge(before: Option<&Sentence>, pod: Option<(&str, Stay)>, now: Instant) -> Judgement {
    let waiting = |sentence: &Sentence| matches!(sentence.phase, Phase::At(_));
    let Some((uid, stay)) = pod else {
        return Judgement { cancelled: before.is_some_and(waiting), sentence: None, then: Then::Nothing };
    };
    // Another pod of the same name starts clean.
    let same = before.filter(|sentence| sentence.uid == uid);
    let mut cancelled = same.is_none() && before.is_some_and(waiting);
    let at = match (stay, same.map(|sentence| sentence.phase)) {
        (Stay::Forever, _) => {
            let cancelled = cancelled || same.is_some_and(waiting);
            return Judgement { cancelled, sentence: None, then: Then::Nothing };
        }
        (_, Some(Phase::Done)) => {
            return Judgement { cancelled, sentence: same.cloned(), then: Then::Nothing };
        }
        (_, Some(Phase::Told)) => return Judgement { cancelled, sentence: same.cloned(), then: Then::Evict },
        // What was decided first stands, even if another taint would now allow less or more.
        (Stay::Seconds(_), Some(Phase::At(at))) => at,
        // A pod may say any number: clocks cannot count for ever.
        (Stay::Seconds(seconds), None) => {
            now + Duration::from_secs(seconds.clamp(0, i64::from(u32::MAX)).unsigned_abs())
        }
        (Stay::No, Some(Phase::At(at))) => {
            cancelled |= at > now;
            now
        }
        (Stay::No, None) => now,
    };
    let sentence = Some(Sentence { uid: uid.to_owned(), phase: Phase::At(at) });
    Judgement { cancelled, sentence, then: if at > now { Then::Wait(at - now) } else { Then::Evict } }
}

/// Status that says why the pod goes, for those who count failures; `None`: it says so already.
pub fn mark(pod: &Value, now: &str) -> Option<Value> {
    const REASON: &str = "DeletionByTaintManager";
    let there = kinds::conditions::find(pod, "DisruptionTarget");
    let said = |c: &Value| c.str_at(&["status"]) == Some("True");
    if there.is_some_and(|c| said(c) && c.str_at(&["reason"]) == Some(REASON)) {
        return None;
    }
    let mut condition = Map::default();
    condition.set("type", "DisruptionTarget");
    condition.set("status", "True");
    condition.set("reason", REASON);
    condition.set("message", "Taint manager: deleting due to NoExecute taint");
    if !there.is_some_and(said) {
        condition.set("lastTransitionTime", now.to_owned());
    }
    if let Some(generation) = pod.at(&["metadata", "generation"]).and_then(Value::as_int) {
        condition.set("observedGeneration", generation);
    }
    let mut patch = Value::map();
    patch.map_at(&["metadata"]).set("uid", pod.str_at(&["metadata", "uid"]).unwrap_or("").to_owned());
    let status = patch.map_at(&["status"]);
    status.set(runtime::CONDITIONS_ORDER, runtime::conditions_with(pod, "DisruptionTarget"));
    status.set("conditions", Value::List(vec![Value::Map(condition)]));
    Some(patch)
}

/// The taints that send pods away.
pub fn no_execute(node: &NodeFacts) -> Vec<Taint> {
    node.taints.iter().filter(|taint| taint.effect == NO_EXECUTE).cloned().collect()
}

pub fn tolerations(pod: &Value) -> Vec<Toleration> {
    let list = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap_or_default();
    list.iter().map(toleration).collect()
}

/// Of pods and of devices: they look the same.
pub fn toleration(toleration: &Value) -> Toleration {
    let text = |name: &str| toleration.str_at(&[name]).unwrap_or("").to_owned();
    Toleration {
        key: text("key"),
        operator: text("operator"),
        value: text("value"),
        effect: text("effect"),
        seconds: toleration.get("tolerationSeconds").and_then(Value::as_int),
    }
}

/// The shortest of the tolerations used; the first that tolerates a taint is the one used.
pub fn stay(taints: &[Taint], tolerations: &[Toleration]) -> Stay {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return Stay::No;
        };
        if let Some(seconds) = used.seconds {
            let seconds = seconds.max(0);
            least = Some(least.map_or(seconds, |least| least.min(seconds)));
        }
    }
    least.map_or(Stay::Forever, Stay::Seconds)
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            // Lt and Gt are behind a gate that is off.
            _ => false,
        }
    }
}
