//! Counting finished pods, each exactly once: the second half of a reconcile.
//!
//! A pod is written down by its uid first, then loses its finalizer, then is counted and struck off. Whoever is
//! interrupted anywhere in between finds either the finalizer or the uid, and goes on from there.

use std::collections::BTreeSet;

use runtime::Severity;

use super::indexes::Indexes;
use super::plan::{BURST, PodAction, Work};
use super::pods::Pod;
use super::policy::Verdict;
use super::view::Condition;

/// What became of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    pub deleted: i64,
    pub deleted_ready: i64,
    pub created: i64,
}

/// Something to tell people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub severity: Severity,
    pub reason: String,
    pub message: String,
}

fn told(severity: Severity, reason: &str, message: &str) -> Told {
    Told { severity, reason: reason.to_owned(), message: message.to_owned() }
}

impl Work {
    /// The step was taken: the numbers of the status follow, and the Job may be complete now.
    pub fn acted(&mut self, step: &PodAction, done: Done) -> Vec<Told> {
        let mut events = Vec::new();
        if matches!(step, PodAction::Finish(_)) && (done.deleted != self.active || !self.satisfied) {
            // There may be pods left that nobody counted: it is not over yet.
            self.finished = None;
        }
        self.active += done.created - done.deleted;
        self.terminating += done.deleted;
        self.ready -= done.deleted_ready;
        let mut suspension_changed = false;
        if !matches!(step, PodAction::Finish(_)) {
            let enough = match self.spec.completions {
                None => self.succeeded > 0,
                Some(completions) => self.succeeded >= completions,
            };
            if enough && self.active == 0 {
                let message = "Reached expected number of succeeded pods";
                self.finished =
                    Some(Condition::is_true("SuccessCriteriaMet", "CompletionsReached", message, self.now()));
            } else if self.managed {
                suspension_changed = self.tell_suspension(&mut events);
            }
        }
        let status = &mut self.status;
        let counts = (self.active, Some(self.ready), Some(self.terminating));
        self.flush = suspension_changed || (status.active, status.ready, status.terminating) != counts;
        (status.active, status.ready, status.terminating) = counts;
        events
    }

    fn tell_suspension(&mut self, events: &mut Vec<Told>) -> bool {
        let now = self.now();
        if self.spec.suspend {
            let suspended = Condition::is_true("Suspended", "JobSuspended", "Job suspended", now);
            if !self.status.ensure(suspended) {
                return false;
            }
            // The clock of the deadline stands still.
            self.status.start_time = None;
            events.push(told(Severity::Normal, "Suspended", "Job suspended"));
        } else {
            let mut resumed = Condition::is_true("Suspended", "JobResumed", "Job resumed", now);
            resumed.status = "False".to_owned();
            if !self.status.ensure(resumed) {
                return false;
            }
            // And begins anew.
            self.status.start_time = Some(now);
            events.push(told(Severity::Normal, "Resumed", "Job resumed"));
        }
        true
    }

    /// Writes finished pods down in the status; tells which may lose their finalizers once that is stored.
    pub fn record(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pods.len()).collect();
        if self.spec.indexed {
            // So that indexes come to the status in their order.
            order.sort_by_key(|&at| self.pods[at].index);
        }
        self.flush |= self.strike_off();
        let failing = self.finished.as_ref().is_some_and(|c| c.kind != "SuccessCriteriaMet");
        let (mut release, mut new_indexes) = (Vec::new(), BTreeSet::new());
        for at in order {
            let pod = &self.pods[at];
            if !pod.tracked || !self.may_go(at) {
                continue;
            }
            release.push(at);
            let uid = pod.obj.uid();
            let in_range = !self.spec.indexed || pod.index.is_some();
            if pod.succeeded() && !self.known_failed.contains(uid) {
                if self.spec.indexed {
                    // The index says it was counted.
                    let new = pod.index.filter(|index| !self.before.contains(*index));
                    self.flush |= new.is_some();
                    new_indexes.extend(new);
                } else if !self.known_succeeded.contains(uid) {
                    self.status.uncounted_succeeded.push(uid.to_owned());
                    self.flush = true;
                }
            } else if (pod.failed || failing) && in_range && !self.known_failed.contains(uid) {
                let verdict = self.verdict(pod);
                self.judged.extend(verdict.as_ref().and_then(|verdict| verdict.action));
                if verdict.is_none_or(|verdict| verdict.counts) {
                    self.status.uncounted_failed.push(uid.to_owned());
                    self.flush = true;
                }
            }
            let written = new_indexes.len()
                + self.status.uncounted_succeeded.len()
                + self.status.uncounted_failed.len();
            if written >= BURST {
                // The rest comes in the next reconcile: other Jobs wait, and a status has its bounds.
                self.full = true;
                break;
            }
        }
        if self.spec.indexed {
            self.record_indexes(new_indexes);
        }
        self.record_interim();
        release
    }

    /// Of a Job that fails, the policy also judges pods that were still running.
    fn verdict(&self, pod: &Pod) -> Option<Verdict> {
        let judge = || Some(self.spec.failure_policy.as_ref()?.judge(&runtime::tree(&pod.obj)));
        pod.verdict.clone().or_else(judge)
    }

    fn record_indexes(&mut self, new: BTreeSet<u32>) {
        self.succeeded_indexes = self.succeeded_indexes.merge(&Indexes::of(new));
        let completed = self.succeeded_indexes.to_string();
        let failed = self.failed_indexes.as_ref().map(Indexes::to_string);
        self.flush |= completed != self.status.completed_indexes || failed != self.status.failed_indexes;
        self.status.succeeded = self.succeeded_indexes.count();
        self.status.completed_indexes = completed;
        self.status.failed_indexes = failed;
    }

    /// Why the Job ends is stored before the pods that show it can vanish; that it has ended, after they were counted.
    fn record_interim(&mut self) {
        let now = self.now();
        let Some(condition) = self.finished.take() else { return };
        let last = match condition.kind.as_str() {
            "FailureTarget" => "Failed",
            "SuccessCriteriaMet" => "Complete",
            _ => {
                self.finished = Some(condition);
                return;
            }
        };
        self.finished = Some(Condition::is_true(last, &condition.reason, &condition.message, now));
        if !self.status.is_true(&condition.kind) {
            self.status.conditions.push(condition);
            self.flush = true;
        }
    }

    /// May the pod's finalizer go? When the Job is over or going, when the pod did its work, and when it failed, unless
    /// its replacement has to learn from it first.
    fn may_go(&self, at: usize) -> bool {
        let pod = &self.pods[at];
        if self.deleting || self.finished.is_some() || pod.succeeded() {
            return true;
        }
        let kept = || pod.index.and_then(|index| self.delayed.get(&index)) == Some(&at);
        pod.failed && !kept()
    }

    /// These finalizers are gone: their pods count. Tells whether the status changed.
    pub fn released(&mut self, gone: &[usize]) -> bool {
        for &at in gone {
            self.pods[at].tracked = false;
        }
        self.strike_off()
    }

    /// Counts pods that were written down and have no finalizer any more.
    fn strike_off(&mut self) -> bool {
        let status = &mut self.status;
        let written: BTreeSet<&str> =
            status.uncounted_succeeded.iter().chain(&status.uncounted_failed).map(String::as_str).collect();
        if written.is_empty() {
            return false;
        }
        let tracked = self.pods.iter().filter(|p| p.tracked).map(|p| p.obj.uid());
        let still: BTreeSet<String> =
            tracked.filter(|uid| written.contains(uid)).map(str::to_owned).collect();
        let mut changed = false;
        for (uids, counter) in [
            (&mut status.uncounted_succeeded, &mut status.succeeded),
            (&mut status.uncounted_failed, &mut status.failed),
        ] {
            let before = uids.len();
            uids.retain(|uid| still.contains(uid));
            *counter += (before - uids.len()) as i64;
            changed |= before != uids.len();
        }
        changed
    }

    /// Says that the Job is over, once every pod was counted and none is still going. What to tell people then.
    pub fn finish(&mut self) -> Option<Vec<Told>> {
        let status = &mut self.status;
        let uncounted = !status.uncounted_succeeded.is_empty() || !status.uncounted_failed.is_empty();
        if self.full || uncounted || self.terminating > 0 {
            return None;
        }
        let condition = self.finished.clone()?;
        let complete = condition.kind == "Complete";
        if complete {
            status.completion_time = condition.since;
        }
        status.ensure(condition.clone());
        let mut events = Vec::new();
        if complete {
            if self.spec.completions.is_some_and(|completions| status.succeeded > completions) {
                let message = "Too many succeeded pods running after completion count reached";
                events.push(told(Severity::Warning, "TooManySucceededPods", message));
            }
            events.push(told(Severity::Normal, "Completed", "Job completed"));
        } else {
            events.push(told(Severity::Warning, &condition.reason, &condition.message));
        }
        Some(events)
    }

    /// Does the status have to be stored?
    pub fn needs_flush(&self) -> bool {
        self.flush
    }
}
