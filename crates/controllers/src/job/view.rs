//! A Job as its controller reads it: made once per revision from the object, its status written back into a tree.

use object::{Map, Obj, Value, time};

use super::policy::{FailurePolicy, SuccessPolicy};
use crate::claim::{self, Selector, not_everything};

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub spec: Spec,
    pub status: Status,
    pub generation: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub parallelism: i64,
    /// `None`: any success is enough.
    pub completions: Option<i64>,
    pub indexed: bool,
    /// Neither `Indexed` nor `NonIndexed`: of a later version, not to be touched.
    pub unknown_mode: bool,
    pub backoff_limit: i64,
    pub backoff_limit_per_index: Option<i64>,
    pub max_failed_indexes: Option<i64>,
    pub active_deadline_seconds: Option<i64>,
    pub ttl_seconds: Option<i64>,
    pub suspend: bool,
    /// Another controller answers for the Job: this one.
    pub managed_by: Option<String>,
    /// `podReplacementPolicy` says so, which the next field follows from, among others.
    pub replaces_failed: bool,
    /// A pod is replaced only after it has failed, not when it begins to go.
    pub replace_failed_only: bool,
    pub restarts_on_failure: bool,
    pub failure_policy: Option<FailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    pub selector: Selector,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    pub conditions: Vec<Condition>,
    /// Times are Unix seconds.
    pub start_time: Option<i64>,
    pub completion_time: Option<i64>,
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub terminating: Option<i64>,
    pub ready: Option<i64>,
    pub completed_indexes: String,
    pub failed_indexes: Option<String>,
    /// Pods that finished and still have their finalizer, by uid: not in the numbers above yet.
    pub uncounted_succeeded: Vec<String>,
    pub uncounted_failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    /// Unix seconds; `None`: whoever wrote the condition did not say.
    pub probed: Option<i64>,
    pub since: Option<i64>,
}

impl Condition {
    pub fn is_true(kind: &str, reason: &str, message: &str, now: i64) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            probed: Some(now),
            since: Some(now),
        }
    }

    fn read(value: &Value) -> Condition {
        let text = |name: &str| value.str_at(&[name]).unwrap_or("").to_owned();
        Condition {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            probed: moment(value, "lastProbeTime"),
            since: moment(value, "lastTransitionTime"),
        }
    }

    fn write(&self) -> Value {
        let mut out = Map::default();
        out.set("type", self.kind.clone());
        out.set("status", self.status.clone());
        for (name, at) in [("lastProbeTime", self.probed), ("lastTransitionTime", self.since)] {
            out.set(name, at.map_or(Value::Null, |at| Value::Str(time::format_seconds(at))));
        }
        for (name, text) in [("reason", &self.reason), ("message", &self.message)] {
            if !text.is_empty() {
                out.set(name, text.clone());
            }
        }
        Value::Map(out)
    }
}

/// The view of a Job's object, shared until its next revision.
pub fn job_view(job: &Obj) -> std::sync::Arc<Job> {
    job.view(|job| Job::read(&runtime::tree(job)))
}

impl Job {
    pub fn read(job: &Value) -> Job {
        let generation = job.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
        let empty = Value::map();
        let spec = job.get("spec").unwrap_or(&empty);
        let status = job.get("status").unwrap_or(&empty);
        Job { spec: Spec::read(spec), status: Status::read(status), generation }
    }

    /// Over, one way or the other.
    pub fn is_finished(&self) -> bool {
        self.status.is_true("Complete") || self.status.is_true("Failed")
    }
}

impl Spec {
    fn read(spec: &Value) -> Spec {
        let int = |name: &str| spec.get(name).and_then(Value::as_int);
        let present = |name: &str| spec.get(name).filter(|v| !v.is_null());
        let failure_policy = present("podFailurePolicy").map(FailurePolicy::read);
        let mode = spec.str_at(&["completionMode"]).unwrap_or("NonIndexed");
        let selector = claim::selector(spec.get("selector"));
        // Who selects by hand may mean everything; a generated selector is never empty.
        let by_hand = spec.get("manualSelector").and_then(Value::as_bool) == Some(true);
        Spec {
            parallelism: int("parallelism").unwrap_or(1),
            completions: int("completions"),
            indexed: mode == "Indexed",
            unknown_mode: mode != "Indexed" && mode != "NonIndexed",
            backoff_limit: int("backoffLimit").unwrap_or(6),
            backoff_limit_per_index: int("backoffLimitPerIndex"),
            max_failed_indexes: int("maxFailedIndexes"),
            active_deadline_seconds: int("activeDeadlineSeconds"),
            ttl_seconds: int("ttlSecondsAfterFinished"),
            suspend: spec.get("suspend").and_then(Value::as_bool).unwrap_or(false),
            managed_by: spec
                .str_at(&["managedBy"])
                .filter(|by| *by != "kubernetes.io/job-controller")
                .map(str::to_owned),
            replaces_failed: spec.str_at(&["podReplacementPolicy"]) == Some("Failed"),
            replace_failed_only: failure_policy.is_some()
                || spec.str_at(&["podReplacementPolicy"]) == Some("Failed"),
            restarts_on_failure: spec.str_at(&["template", "spec", "restartPolicy"]) == Some("OnFailure"),
            failure_policy,
            success_policy: present("successPolicy").map(SuccessPolicy::read),
            selector: if by_hand { selector } else { not_everything(selector) },
        }
    }

    /// Indexes of an indexed Job lie below this.
    pub fn end(&self) -> i64 {
        self.completions.unwrap_or(0)
    }
}

impl Status {
    fn read(status: &Value) -> Status {
        let int = |name: &str| status.get(name).and_then(Value::as_int);
        let list = |path: &[&str]| status.at(path).and_then(Value::as_list).unwrap_or_default();
        let uids = |name: &str| {
            let uids = list(&["uncountedTerminatedPods", name]);
            uids.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Status {
            conditions: list(&["conditions"]).iter().map(Condition::read).collect(),
            start_time: moment(status, "startTime"),
            completion_time: moment(status, "completionTime"),
            active: int("active").unwrap_or(0),
            succeeded: int("succeeded").unwrap_or(0),
            failed: int("failed").unwrap_or(0),
            terminating: int("terminating"),
            ready: int("ready"),
            completed_indexes: status.str_at(&["completedIndexes"]).unwrap_or("").to_owned(),
            failed_indexes: status.str_at(&["failedIndexes"]).map(str::to_owned),
            uncounted_succeeded: uids("succeeded"),
            uncounted_failed: uids("failed"),
        }
    }

    /// Puts the status into the Job's tree.
    pub fn write(&self, job: &mut Value) {
        let status = job.map_at(&["status"]);
        let mut put = |name: &'static str, value: Option<Value>| match value {
            Some(value) => status.set(name, value),
            None => {
                status.remove(name);
            }
        };
        let conditions: Vec<Value> = self.conditions.iter().map(Condition::write).collect();
        put("conditions", (!conditions.is_empty()).then_some(Value::List(conditions)));
        let moment = |at: Option<i64>| at.map(|at| Value::Str(time::format_seconds(at)));
        put("startTime", moment(self.start_time));
        put("completionTime", moment(self.completion_time));
        let counted = |count: i64| (count != 0).then_some(Value::Int(count));
        put("active", counted(self.active));
        put("succeeded", counted(self.succeeded));
        put("failed", counted(self.failed));
        put("terminating", self.terminating.map(Value::Int));
        put(
            "completedIndexes",
            Some(self.completed_indexes.clone()).filter(|s| !s.is_empty()).map(Value::Str),
        );
        put("failedIndexes", self.failed_indexes.clone().map(Value::Str));
        let mut uncounted = Map::default();
        for (name, uids) in [("succeeded", &self.uncounted_succeeded), ("failed", &self.uncounted_failed)] {
            if !uids.is_empty() {
                uncounted.set(name, Value::List(uids.iter().cloned().map(Value::Str).collect()));
            }
        }
        put("uncountedTerminatedPods", Some(Value::Map(uncounted)));
        put("ready", self.ready.map(Value::Int));
    }

    pub fn find(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.kind == kind)
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.find(kind).is_some_and(|c| c.status == "True")
    }

    /// Sets a condition; tells whether anything changed. What was never there need not be said to be false.
    pub fn ensure(&mut self, condition: Condition) -> bool {
        let Some(here) = self.conditions.iter_mut().find(|c| c.kind == condition.kind) else {
            let said = condition.status != "False";
            self.conditions.extend(said.then_some(condition));
            return said;
        };
        let same = (&here.status, &here.reason, &here.message)
            == (&condition.status, &condition.reason, &condition.message);
        if !same {
            *here = condition;
        }
        !same
    }
}

fn moment(value: &Value, name: &str) -> Option<i64> {
    value.str_at(&[name]).and_then(time::parse).map(|(seconds, _)| seconds)
}
