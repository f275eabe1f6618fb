//! What kube-controller-manager counts of Jobs, under its names.

use runtime::{Counters, Histograms};

use super::plan::{PodAction, Work};
use super::policy::Action;
use super::view::{Job, Spec, Status};

/// Of a reconcile: four milliseconds, twice as many each.
const BUCKETS: &[f64] = &[
    0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384, 32.768,
    65.536,
];

pub struct Metrics {
    seconds: Histograms,
    syncs: Counters,
    jobs_finished: Counters,
    pods_finished: Counters,
    judged: Counters,
    finalizers: Counters,
    indexes_finished: Counters,
    pods_created: Counters,
    elsewhere: Counters,
    stale: Counters,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            seconds: Histograms::new(
                "job_controller_job_sync_duration_seconds",
                "The time it took to sync a job",
                BUCKETS,
            ),
            syncs: Counters::new("job_controller_job_syncs_total", "The number of job syncs"),
            jobs_finished: Counters::new("job_controller_jobs_finished_total", "The number of finished jobs"),
            pods_finished: Counters::new(
                "job_controller_job_pods_finished_total",
                "The number of finished Pods that are fully tracked",
            ),
            judged: Counters::new(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                "Failed pods by the action of the failure policy that matched",
            ),
            finalizers: Counters::new(
                "job_controller_terminated_pods_tracking_finalizer_total",
                "Pods that ended and have the tracking finalizer, as they come to be and cease to",
            ),
            indexes_finished: Counters::new(
                "job_controller_job_finished_indexes_total",
                "The number of finished indexes",
            ),
            pods_created: Counters::new(
                "job_controller_job_pods_creation_total",
                "Pods that were created, by reason and result",
            ),
            elsewhere: Counters::new(
                "job_controller_jobs_by_external_controller_total",
                "The number of Jobs managed by an external controller",
            ),
            stale: Counters::new(
                "job_controller_stale_sync_skips_total",
                "Total number of Job syncs skipped due to a stale watch cache.",
            ),
        }
    }
}

fn mode(spec: &Spec) -> (&'static str, &'static str) {
    ("completion_mode", if spec.indexed { "Indexed" } else { "NonIndexed" })
}

impl Metrics {
    pub fn render(&self, out: &mut String) {
        self.seconds.render(out);
        let counters = [
            &self.syncs,
            &self.jobs_finished,
            &self.pods_finished,
            &self.judged,
            &self.finalizers,
            &self.indexes_finished,
            &self.pods_created,
            &self.elsewhere,
            &self.stale,
        ];
        counters.into_iter().for_each(|counter| counter.render(out));
    }

    /// A reconcile ended; without a step it did not come so far.
    pub fn synced(&self, spec: &Spec, step: Option<&PodAction>, managed: bool, well: bool, seconds: f64) {
        let action = match step {
            Some(PodAction::Create(_)) => "pods_created",
            Some(PodAction::Remove(_)) => "pods_deleted",
            Some(PodAction::Nothing) if managed && spec.suspend => "pods_deleted",
            Some(PodAction::Nothing) if managed => "tracking",
            _ => "reconciling",
        };
        let result = if well { "success" } else { "error" };
        let labels = [mode(spec), ("result", result), ("action", action)];
        self.syncs.add(&labels, 1);
        self.seconds.observe(&labels, seconds);
    }

    /// A status was stored: what it counts beyond the one before.
    pub fn stored(&self, spec: &Spec, before: &Status, after: &Status) {
        let more = |now: i64, then: i64| u64::try_from(now - then).unwrap_or(0);
        let succeeded = more(after.succeeded, before.succeeded);
        for (result, count) in [("succeeded", succeeded), ("failed", more(after.failed, before.failed))] {
            self.pods_finished.add(&[mode(spec), ("result", result)], count);
        }
        if spec.indexed {
            let per_index = spec.backoff_limit_per_index.is_some();
            let limit = ("backoffLimit", if per_index { "perIndex" } else { "global" });
            self.indexes_finished.add(&[("status", "succeeded"), limit], succeeded);
            let failed = |status: &Status| {
                let text = status.failed_indexes.as_deref().unwrap_or("");
                super::indexes::Indexes::parse(text, spec.end()).count()
            };
            let failed = if before.failed_indexes == after.failed_indexes {
                0
            } else {
                more(failed(after), failed(before))
            };
            if failed > 0 {
                self.indexes_finished.add(&[("status", "failed"), limit], failed);
            }
        }
    }

    pub fn finished(&self, work: &Work) {
        let Some(end) = &work.finished else { return };
        let result = if end.kind == "Complete" { "succeeded" } else { "failed" };
        self.jobs_finished.add(&[mode(&work.spec), ("result", result), ("reason", &end.reason)], 1);
    }

    pub fn judged(&self, action: Action) {
        let action = match action {
            Action::FailJob => "FailJob",
            Action::FailIndex => "FailIndex",
            Action::Ignore => "Ignore",
            Action::Count => "Count",
        };
        self.judged.add(&[("action", action)], 1);
    }

    pub fn created(&self, work: &Work, well: u64, failed: u64) {
        let reason = if work.spec.replaces_failed && work.failed > 0 {
            "recreate_failed"
        } else if work.failed > 0 || work.terminating > 0 {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (status, count) in [("succeeded", well), ("failed", failed)] {
            if count > 0 {
                self.pods_created.add(&[("reason", reason), ("status", status)], count);
            }
        }
    }

    /// A pod changed between having ended with the finalizer on it, and not.
    pub fn ended_with_finalizer(&self, was: bool, is: bool) {
        if was != is {
            self.finalizers.add(&[("event", if is { "add" } else { "delete" })], 1);
        }
    }

    pub fn appeared(&self, job: &Job) {
        if let Some(by) = &job.spec.managed_by {
            self.elsewhere.add(&[("controller_name", by)], 1);
        }
    }

    pub fn stale(&self, jobs: bool) {
        let (group, resource) = if jobs { ("batch", "jobs") } else { ("", "pods") };
        self.stale.add(&[("group", group), ("resource", resource)], 1);
    }
}
