//! A Job's pods, with as much of each as counting them takes.

use std::cmp::Ordering;
use std::sync::Arc;

use kinds::pod::view::{Phase, PodView};
use object::{Obj, Value};

use super::backoff;
use super::policy::Verdict;
use super::view::Spec;
use crate::pods::{mentions, pod_view};

/// While a pod has this finalizer it was not counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

pub struct Pod {
    pub obj: Arc<Obj>,
    pub view: Arc<PodView>,
    /// It still has the finalizer.
    pub tracked: bool,
    /// Of an indexed Job, if it is one the Job can have.
    pub index: Option<u32>,
    /// Failed, or given up.
    pub failed: bool,
    /// Of pods that finished and were not counted: the rest of what is known of them.
    pub end: Option<End>,
    /// What the failure policy says of a failed pod.
    pub verdict: Option<Verdict>,
}

pub struct End {
    /// Unix seconds.
    pub at: i64,
    /// Of the index before this pod.
    pub failures: i64,
    pub ignored_failures: i64,
}

impl Pod {
    pub fn read(obj: Arc<Obj>, spec: &Spec) -> Pod {
        let view = pod_view(&obj);
        let tracked = is_tracked(&obj);
        let succeeded = view.phase == Phase::Succeeded;
        // A pod that goes without an end is a failure too: of a lost node, it may never come to one.
        let given_up = !spec.replace_failed_only && view.deletion != 0 && !succeeded;
        let failed = view.phase == Phase::Failed || given_up;
        let index = view.completion_index.filter(|i| !spec.indexed || i64::from(*i) < spec.end());
        let judged = failed && spec.failure_policy.is_some();
        let (mut end, mut verdict) = (None, None);
        // Most pods of a large Job run, or were counted: their trees are never made.
        if judged || (tracked && (failed || succeeded)) {
            let tree = runtime::tree(&obj);
            end = Some(End::read(&tree));
            verdict = spec.failure_policy.as_ref().filter(|_| failed).map(|policy| policy.judge(&tree));
        }
        Pod { obj, view, tracked, index, failed, end, verdict }
    }

    pub fn succeeded(&self) -> bool {
        self.view.phase == Phase::Succeeded
    }
    pub fn active(&self) -> bool {
        self.view.is_active()
    }
    /// The failure counts against the limits.
    pub fn counts(&self) -> bool {
        self.verdict.as_ref().is_none_or(|verdict| verdict.counts)
    }
    pub fn finished_at(&self) -> i64 {
        self.end.as_ref().map_or(self.view.created, |end| end.at)
    }
    pub fn failures(&self) -> i64 {
        self.end.as_ref().map_or(0, |end| end.failures)
    }
    pub fn all_failures(&self) -> i64 {
        self.end.as_ref().map_or(0, |end| end.failures + end.ignored_failures)
    }
}

impl End {
    fn read(pod: &Value) -> End {
        let count = |name: &str| {
            let text = pod.at(&["metadata", "annotations"]).and_then(|a| a.str_at(&[name]));
            text.and_then(|text| text.parse::<i32>().ok()).filter(|n| *n >= 0).map_or(0, i64::from)
        };
        End {
            at: backoff::finished_at(pod),
            failures: count(FAILURES),
            ignored_failures: count(IGNORED_FAILURES),
        }
    }
}

/// Has the pod the finalizer that keeps it until it is counted?
pub fn is_tracked(pod: &Obj) -> bool {
    mentions(pod.metadata(), FINALIZER) && pod_view(pod).finalizers.iter().any(|f| &**f == FINALIZER)
}

/// Which of two active pods is the smaller loss.
pub fn cheaper(a: &PodView, b: &PodView) -> Ordering {
    // Times that are not known come first, then the latest.
    let later = |a: i64, b: i64| (a != 0).cmp(&(b != 0)).then(b.cmp(&a));
    (!a.node.is_empty())
        .cmp(&!b.node.is_empty())
        .then(a.phase.cmp(&b.phase))
        .then(a.ready.cmp(&b.ready))
        .then_with(|| if a.ready && b.ready { later(a.ready_since, b.ready_since) } else { Ordering::Equal })
        .then(b.max_restarts.cmp(&a.max_restarts))
        .then_with(|| later(a.created, b.created))
}
