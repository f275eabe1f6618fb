//! What a Job wants of its pods: the first half of a reconcile, before anything is done.
//!
//! ```text
//! Work::begin(job, pods, now) ── step() ── [pods created, deleted] ── acted() ── record() ── [status, finalizers] ── ...
//!        counts, is it over?      what to do                           (track.rs: what to tell, whom to let go)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::backoff::Record;
use super::indexes::Indexes;
use super::pods::{Pod, cheaper};
use super::policy::Action;
use super::tally::Counts;
use super::view::{Condition, Job, Spec, Status};

/// Pods made or deleted in one reconcile; also finished pods written down in one reconcile.
pub const BURST: usize = 500;

/// A reconcile on one Job.
pub struct Work {
    pub spec: Spec,
    pub status: Status,
    /// What all pods of the Job count, as they were found.
    pub(super) counts: Counts,
    /// All of them; or, where the counts are enough, those that have to be looked at.
    pub pods: Vec<Pod>,
    /// Everything this controller did earlier was seen: pods may be counted.
    pub satisfied: bool,
    pub deleting: bool,
    pub now_ms: i64,
    pub active: i64,
    pub ready: i64,
    pub terminating: i64,
    /// Pods (of an indexed Job: indexes) that succeeded, counted or not; and pods that failed.
    pub succeeded: i64,
    pub failed: i64,
    pub backoff: Record,
    /// Why the Job is over, if it is.
    pub finished: Option<Condition>,
    pub(super) before: Indexes,
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// Failed pods kept until their replacement carries their count of failures.
    pub(super) delayed: BTreeMap<u32, usize>,
    pub(super) known_succeeded: BTreeSet<String>,
    pub(super) known_failed: BTreeSet<String>,
    pub(super) flush: bool,
    pub(super) full: bool,
    pub(super) managed: bool,
    /// What the failure policy said of pods that were written down now.
    pub(super) judged: Vec<Action>,
    /// The next moment at which time alone changes something.
    pub wait_ms: Option<i64>,
}

/// What to do with pods. Numbers are places in `Work::pods`.
#[derive(Debug, PartialEq, Eq)]
pub enum PodAction {
    Nothing,
    /// The Job is over: these go, but keep their finalizers until they are counted.
    Finish(Vec<usize>),
    /// These are too many: finalizer and all.
    Remove(Vec<usize>),
    /// So many are missing.
    Create(Vec<New>),
}

/// A pod to be made; an indexed Job says for which index, and how often that failed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct New {
    pub index: Option<u32>,
    /// Failures that count, and those that do not.
    pub failures: Option<(i64, i64)>,
}

impl Work {
    /// With all pods of the Job: counts, and decides whether the Job is over.
    pub fn begin(
        job: &Job,
        pods: Vec<Pod>,
        backoff: Record,
        satisfied: bool,
        deleting: bool,
        now_ms: i64,
    ) -> Work {
        let mut counts = Counts::default();
        for pod in &pods {
            counts.count(&pod.obj, &pod.view, 1);
        }
        Work::counted(job, counts, pods, backoff, satisfied, deleting, now_ms)
    }

    /// The same with pods that were counted already, and those the counts ask to look at. Only good as long as
    /// [`Work::needs_every_pod`] does not say otherwise.
    pub fn counted(
        job: &Job,
        counts: Counts,
        pods: Vec<Pod>,
        backoff: Record,
        satisfied: bool,
        deleting: bool,
        now_ms: i64,
    ) -> Work {
        let (spec, status) = (job.spec.clone(), job.status.clone());
        let mut work = Work {
            satisfied,
            deleting,
            now_ms,
            active: counts.active,
            ready: counts.ready,
            terminating: counts.terminating,
            succeeded: 0,
            failed: 0,
            backoff,
            finished: None,
            before: Indexes::default(),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            delayed: BTreeMap::new(),
            known_succeeded: status.uncounted_succeeded.iter().cloned().collect(),
            known_failed: status.uncounted_failed.iter().cloned().collect(),
            flush: false,
            full: false,
            managed: false,
            judged: Vec::new(),
            wait_ms: None,
            spec,
            status,
            counts,
            pods,
        };
        work.count_finished();
        if work.status.start_time.is_none() && !work.spec.suspend {
            work.status.start_time = Some(work.now());
        }
        work.judge();
        work
    }

    pub fn now(&self) -> i64 {
        self.now_ms.div_euclid(1000)
    }

    /// Finished pods nobody wrote down yet.
    fn fresh(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|p| p.tracked && (!self.spec.indexed || p.index.is_some()))
    }

    fn count_finished(&mut self) {
        let known = |set: &BTreeSet<String>, p: &Pod| set.contains(p.obj.uid());
        let succeeded: Vec<&Pod> =
            self.fresh().filter(|p| p.succeeded() && !known(&self.known_succeeded, p)).collect();
        let failed: Vec<&Pod> = self.fresh().filter(|p| p.failed && !known(&self.known_failed, p)).collect();
        let counting = failed.iter().filter(|p| p.counts()).count();
        let times = |pods: &[&Pod]| pods.iter().map(|p| p.finished_at()).collect::<Vec<i64>>();
        let backoff = self.backoff.after(&times(&succeeded), &times(&failed));
        let uncounted = (self.status.uncounted_succeeded.len(), self.status.uncounted_failed.len());
        (self.succeeded, self.failed) = (
            self.status.succeeded + (succeeded.len() + uncounted.0) as i64,
            self.status.failed + (counting + uncounted.1) as i64,
        );
        self.backoff = backoff;
    }

    /// Is the Job over? What was said before stands; then failures in their order, then successes.
    fn judge(&mut self) {
        let now = self.now();
        let failing =
            |reason: &str, message: &str| Some(Condition::is_true("FailureTarget", reason, message, now));
        let said = |kind: &str| self.status.find(kind).filter(|c| c.status == "True").cloned();
        self.finished = said("SuccessCriteriaMet")
            .or_else(|| {
                said("FailureTarget").map(|c| Condition::is_true("Failed", &c.reason, &c.message, now))
            })
            .or_else(|| {
                let message = self.pods.iter().find_map(|p| p.verdict.as_ref()?.fail_job.as_deref())?;
                failing("PodFailurePolicy", message)
            });
        if self.finished.is_none() {
            if self.failed > self.spec.backoff_limit || self.restarted_too_often() {
                self.finished =
                    failing("BackoffLimitExceeded", "Job has reached the specified backoff limit");
            } else if let Some(left_ms) = self.deadline_ms() {
                if left_ms <= 0 {
                    self.finished =
                        failing("DeadlineExceeded", "Job was active longer than specified deadline");
                } else {
                    self.wake_in(left_ms);
                }
            }
        }
        if self.spec.indexed {
            self.judge_indexes();
        }
    }

    fn judge_indexes(&mut self) {
        let (now, end) = (self.now(), self.spec.end());
        let new = self.pods.iter().filter(|p| p.succeeded() && p.tracked).filter_map(|p| p.index);
        let new: BTreeSet<u32> = new.collect();
        self.before = Indexes::parse(&self.status.completed_indexes, end);
        self.succeeded_indexes = self.before.merge(&Indexes::of(new));
        self.succeeded = self.succeeded_indexes.count();
        if let Some(limit) = self.spec.backoff_limit_per_index {
            let failed = self.pods.iter().filter(|p| p.tracked && p.failed && index_failed(p, limit));
            let new: BTreeSet<u32> = failed.filter_map(|p| p.index).collect();
            let before = Indexes::parse(self.status.failed_indexes.as_deref().unwrap_or(""), end);
            let failed = before.merge(&Indexes::of(new));
            let failing =
                |reason: &str, message: &str| Some(Condition::is_true("FailureTarget", reason, message, now));
            if self.finished.is_none() {
                if self.spec.max_failed_indexes.is_some_and(|most| failed.count() > most) {
                    let message = "Job has exceeded the specified maximal number of failed indexes";
                    self.finished = failing("MaxFailedIndexesExceeded", message);
                } else if !failed.is_empty() && failed.count() + self.succeeded >= end {
                    self.finished = failing("FailedIndexes", "Job has failed indexes");
                }
            }
            self.delayed = self.kept_for_replacement(&failed);
            self.failed_indexes = Some(failed);
        }
        if self.finished.is_none()
            && let Some(policy) = &self.spec.success_policy
            && let Some(message) = policy.met(&self.succeeded_indexes, end)
        {
            self.finished = Some(Condition::is_true("SuccessCriteriaMet", "SuccessPolicy", &message, now));
        }
    }

    /// The last failed pod of each index that is to be tried again.
    fn kept_for_replacement(&self, failed: &Indexes) -> BTreeMap<u32, usize> {
        let active = &self.counts.active_indexes;
        let mut kept: BTreeMap<u32, usize> = BTreeMap::new();
        for (at, pod) in self.pods.iter().enumerate() {
            let Some(index) = pod.index.filter(|_| pod.tracked && pod.failed) else { continue };
            if self.succeeded_indexes.contains(index) || failed.contains(index) || active.contains(index) {
                continue;
            }
            let later = kept.get(&index).is_none_or(|&last| {
                let last = &self.pods[last];
                last.all_failures() <= pod.all_failures() && last.finished_at() <= pod.finished_at()
            });
            if later {
                kept.insert(index, at);
            }
        }
        kept
    }

    /// Containers that are restarted in place fail too, as often as they were.
    fn restarted_too_often(&self) -> bool {
        if !self.spec.restarts_on_failure {
            return false;
        }
        self.counts.restarts >= self.spec.backoff_limit.max(1)
    }

    /// What is left until the deadline; `None`: there is none, or the clock does not run.
    fn deadline_ms(&self) -> Option<i64> {
        let seconds = self.spec.active_deadline_seconds.filter(|_| !self.spec.suspend)?;
        let end = self.status.start_time?.saturating_add(seconds);
        Some(end.saturating_mul(1000).saturating_sub(self.now_ms))
    }

    fn wake_in(&mut self, ms: i64) {
        self.wait_ms = Some(self.wait_ms.map_or(ms, |wait| wait.min(ms)));
    }

    /// How many pods are to be active.
    fn wanted(&self) -> i64 {
        match self.spec.completions {
            // After the first success the others are left to finish.
            None if self.succeeded > 0 => self.counts.active,
            None => self.spec.parallelism,
            Some(completions) => (completions - self.succeeded).min(self.spec.parallelism).max(0),
        }
    }

    /// Are the counts not enough? Where active pods are to go, or to be let go, each of them has to be known.
    pub fn needs_every_pod(&self) -> bool {
        let all_go = self.finished.is_some() || self.deleting || self.spec.suspend;
        let one_goes = self.counts.active > self.wanted();
        let indexes = &self.counts.active_indexes;
        let improper =
            self.spec.indexed && (self.counts.without_index > 0 || !indexes.is_proper(self.spec.end()));
        (self.counts.active > 0 && all_go) || one_goes || improper
    }

    /// What to do with pods now.
    pub fn step(&mut self) -> PodAction {
        let active: Vec<usize> = (0..self.pods.len()).filter(|&at| self.pods[at].active()).collect();
        if self.finished.is_some() {
            return PodAction::Finish(active);
        }
        if !self.satisfied || self.deleting {
            return PodAction::Nothing;
        }
        self.managed = true;
        if self.spec.suspend {
            let all = active.len();
            let remove = self.too_many(active, all);
            return if remove.is_empty() { PodAction::Nothing } else { PodAction::Remove(remove) };
        }
        let wanted = self.wanted();
        let surplus = usize::try_from(self.active - wanted).unwrap_or(0);
        let mut remove = self.too_many(active, surplus);
        remove.truncate(BURST);
        if !remove.is_empty() {
            return PodAction::Remove(remove);
        }
        let going = if self.spec.replace_failed_only { self.terminating } else { 0 };
        let missing = usize::try_from(wanted - going - self.active).unwrap_or(0);
        if missing == 0 {
            return PodAction::Nothing;
        }
        let new = self.missing(missing.min(BURST));
        if new.is_empty() { PodAction::Nothing } else { PodAction::Create(new) }
    }

    /// At least so many of the active pods: of an indexed Job first those that should not be at all.
    fn too_many(&self, active: Vec<usize>, surplus: usize) -> Vec<usize> {
        let by_loss = |a: &usize, b: &usize| cheaper(&self.pods[*a].view, &self.pods[*b].view);
        let (mut remove, mut left) = (Vec::new(), active);
        if self.spec.indexed {
            let mut by_index: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for at in left.drain(..) {
                match self.pods[at].index {
                    Some(index) => by_index.entry(index).or_default().push(at),
                    None => remove.push(at),
                }
            }
            for mut same in by_index.into_values() {
                same.sort_by(by_loss);
                left.extend(same.pop());
                remove.append(&mut same);
            }
        }
        if remove.len() < surplus {
            left.sort_by(by_loss);
            let more = surplus - remove.len();
            remove.extend(left.into_iter().take(more));
        }
        remove
    }

    /// Pods to be made now; none, and a time to wake, while failures are waited out.
    fn missing(&mut self, count: usize) -> Vec<New> {
        if self.spec.backoff_limit_per_index.is_none() {
            let remaining = self.backoff.remaining_ms(self.now_ms);
            if remaining > 0 {
                self.wake_in(remaining.max(super::BATCH_MS));
                return Vec::new();
            }
        }
        if !self.spec.indexed {
            return vec![New { index: None, failures: None }; count];
        }
        let mut taken = self.succeeded_indexes.merge(&self.counts.active_indexes.indexes());
        if self.spec.replace_failed_only {
            taken = taken.merge(&self.counts.terminating_indexes.indexes());
        }
        if let Some(failed) = &self.failed_indexes {
            taken = taken.merge(failed);
        }
        let indexes = taken.first_missing(count, self.spec.end());
        if self.spec.backoff_limit_per_index.is_none() {
            return indexes.into_iter().map(|index| New { index: Some(index), failures: None }).collect();
        }
        let (mut now, mut soonest) = (Vec::new(), None);
        for index in indexes {
            let replaced = self.delayed.get(&index).map(|&at| &self.pods[at]);
            let remaining = replaced.map_or(0, |pod| {
                let failures = u32::try_from(pod.all_failures() + 1).unwrap_or(u32::MAX);
                Record { failures, last_failure: pod.finished_at() }.remaining_ms(self.now_ms)
            });
            if remaining == 0 {
                now.push(New { index: Some(index), failures: Some(replaced.map_or((0, 0), next_failures)) });
            } else {
                soonest = Some(soonest.map_or(remaining, |s: i64| s.min(remaining)));
            }
        }
        if now.is_empty()
            && let Some(soonest) = soonest
        {
            self.wake_in(soonest.max(super::BATCH_MS));
        }
        now
    }
}

/// Did this pod's failure use up its index?
fn index_failed(pod: &Pod, limit: i64) -> bool {
    if pod.verdict.as_ref().is_some_and(|v| v.action == Some(Action::FailIndex)) {
        return true;
    }
    pod.counts() && pod.failures() >= limit
}

/// What the replacement of a failed pod carries on.
fn next_failures(replaced: &Pod) -> (i64, i64) {
    let ignored = replaced.all_failures() - replaced.failures();
    if replaced.counts() { (replaced.failures() + 1, ignored) } else { (replaced.failures(), ignored + 1) }
}
