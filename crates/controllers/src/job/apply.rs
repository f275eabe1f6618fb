//! A reconcile on a Job: the plan of `plan.rs` and `track.rs`, carried out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use client::resources::{JOBS, PODS};
use client::{DeleteOptions, Patch, WriteOptions};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use runtime::{Action, Failure, Key, ReconcileRequest, Severity, batch};

use super::backoff::Record;
use super::plan::{New, PodAction, Work};
use super::pods::{FINALIZER, Pod};
use super::track::{Done, Told};
use super::view::{Job, Spec, job_view};
use super::{Jobs, template};

/// So many calls are under way at once.
const AT_ONCE: usize = 64;

impl Jobs {
    pub(super) async fn sync(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let key = request.key;
        self.caught_up(key).await?;
        let Some(job) = self.jobs.store().get_key(key) else {
            self.forget(key);
            return Ok(Action::AwaitChange);
        };
        let view = job_view(&job);
        if view.spec.managed_by.is_some() {
            return Ok(Action::AwaitChange);
        }
        if view.is_finished() {
            self.forget(key);
            return Ok(Action::AwaitChange);
        }
        if view.spec.unknown_mode {
            let message = "Skipped Job sync because completion mode is unknown";
            self.recorder.event(&JOBS, &job, Severity::Warning, "UnknownCompletionMode", message);
            return Ok(Action::AwaitChange);
        }
        let begun = self.env.monotonic();
        let (mut step, mut managed) = (None, false);
        let result = self.reconcile_pods(&request, &job, &view, &mut step, &mut managed).await;
        let seconds = self.env.monotonic().saturating_duration_since(begun).as_secs_f64();
        self.metrics.synced(&view.spec, step.as_ref(), managed, result.is_ok(), seconds);
        result
    }

    /// The reconcile itself; for the metrics, what it decided to do with pods.
    async fn reconcile_pods(
        &self,
        request: &ReconcileRequest<'_>,
        job: &Arc<Obj>,
        view: &Job,
        decided: &mut Option<PodAction>,
        managed: &mut bool,
    ) -> Result<Action, Failure> {
        let key = request.key;
        // Before pods are listed: one that comes in between is only seen too early, never twice.
        let satisfied = self.expectations.satisfied(key);
        let (deleting, now_ms) = (job.deleting(), (self.env.now_nanos() / 1_000_000) as i64);
        let quick = self.counted(job, &view.spec).map(|(counts, pods)| {
            let (pods, backoff, shown) = self.known(key, &view.spec, pods);
            (Work::counted(view, counts, pods, backoff, satisfied, deleting, now_ms), shown)
        });
        let (mut work, shown) = match quick.filter(|(work, _)| !work.needs_every_pod()) {
            Some(quick) => quick,
            None => {
                let pods = self.claimed(job, &view.spec).await?;
                let (pods, backoff, shown) = self.known(key, &view.spec, pods);
                (Work::begin(view, pods, backoff, satisfied, deleting, now_ms), shown)
            }
        };
        if let Some(memory) = self.memory.lock().get_mut(key) {
            memory.released.shown(shown);
        }

        let step: &PodAction = decided.insert(work.step());
        *managed = work.managed;
        request.plan(|| describe(&work, step));
        let (done, failed) = self.act(job, &work, step).await;
        self.tell(job, work.acted(step, done));
        let over = self.store(job, view, &mut work).await?;
        if let Some(failure) = failed {
            return Err(failure.into());
        }
        if over {
            // Once more, when the end is seen: what is remembered of the Job goes.
            return Ok(Action::Requeue(super::BATCH));
        }
        Ok(work
            .wait_ms
            .map_or(Action::AwaitChange, |ms| Action::Requeue(Duration::from_millis(ms.max(1) as u64))))
    }

    /// Pods as they are by what this controller did, and what else it remembers of the Job.
    fn known(&self, key: &Key, spec: &Spec, pods: Vec<Arc<Obj>>) -> (Vec<Pod>, Record, BTreeSet<String>) {
        let mut pods: Vec<Pod> = pods.into_iter().map(|obj| Pod::read(obj, spec)).collect();
        let memory = self.memory.lock();
        let Some(memory) = memory.get(key) else { return (pods, Record::default(), BTreeSet::new()) };
        let shown = memory.released.correct(&mut pods);
        (pods, memory.backoff, shown)
    }

    async fn act(&self, job: &Arc<Obj>, work: &Work, step: &PodAction) -> (Done, Option<Status>) {
        match step {
            PodAction::Nothing => (Done::default(), None),
            PodAction::Finish(pods) => self.delete_pods(job, work, pods, false).await,
            PodAction::Remove(pods) => {
                let keys = pods.iter().map(|&at| Key::of(&work.pods[at].obj));
                self.expectations.expect_deletions(&Key::of(job), keys);
                self.delete_pods(job, work, pods, true).await
            }
            PodAction::Create(new) => self.create_pods(job, work, new).await,
        }
    }

    async fn delete_pods(
        &self,
        job: &Arc<Obj>,
        work: &Work,
        pods: &[usize],
        counted: bool,
    ) -> (Done, Option<Status>) {
        let (deleted, ready) = (AtomicI64::new(0), AtomicI64::new(0));
        let delete = |at: usize| -> futures_util::future::BoxFuture<'_, Result<(), Status>> {
            let pod = &work.pods[pods[at]];
            let (deleted, ready) = (&deleted, &ready);
            Box::pin(async move {
                let result = self.delete_pod(job, pod, counted).await;
                if result.is_err() && counted {
                    self.expectations.deletion_seen(&Key::of(job), &Key::of(&pod.obj));
                }
                match result {
                    Err(status) if status.code != 404 => return Err(status),
                    _ => deleted.fetch_add(1, Relaxed),
                };
                ready.fetch_add(i64::from(pod.view.ready), Relaxed);
                Ok(())
            })
        };
        let failed = batch::all(pods.len(), AT_ONCE, &delete).await;
        (Done { deleted: deleted.into_inner(), deleted_ready: ready.into_inner(), created: 0 }, failed)
    }

    async fn delete_pod(&self, job: &Arc<Obj>, pod: &Pod, counted: bool) -> Result<(), Status> {
        if counted && pod.tracked {
            self.take_finalizer(&Key::of(job), &pod.obj).await?;
        }
        let options = DeleteOptions::exactly(&pod.obj);
        let result = self.client.delete(PODS.of(&pod.obj), options).await;
        match &result {
            Ok(()) => {
                let message = format!("Deleted pod: {}", pod.obj.name());
                self.recorder.event(&JOBS, job, Severity::Normal, "SuccessfulDelete", message);
            }
            Err(status) if status.code == 404 => {}
            Err(status) => {
                let message = format!("Error deleting: {}", status.message);
                self.recorder.event(&JOBS, job, Severity::Warning, "FailedDelete", message);
            }
        }
        result
    }

    async fn create_pods(&self, job: &Arc<Obj>, work: &Work, new: &[New]) -> (Done, Option<Status>) {
        let key = Key::of(job);
        self.expectations.expect_creations(&key, new.len());
        let template = template::Template::of(job);
        let (failed, ignored) = (AtomicI64::new(0), AtomicI64::new(0));
        let create = |at: usize| -> futures_util::future::BoxFuture<'_, Result<(), Status>> {
            let (key, template, failed, ignored) = (&key, &template, &failed, &ignored);
            Box::pin(async move {
                let pod = template.pod(&new[at]);
                let Err(status) = self.create_pod(job, key, pod).await else { return Ok(()) };
                self.expectations.creation_seen(key);
                if crate::namespace_is_going(&status) {
                    // No pod will come of it, now or later; the Job goes with its namespace.
                    ignored.fetch_add(1, Relaxed);
                    return Ok(());
                }
                let message = format!("Error creating: {}", status.message);
                self.recorder.event(&JOBS, job, Severity::Warning, "FailedCreate", message);
                failed.fetch_add(1, Relaxed);
                Err(status)
            })
        };
        let (well, failure) = batch::slow_start(new.len(), &create).await;
        let (failed, ignored) = (failed.into_inner(), ignored.into_inner());
        self.metrics.created(work, well as u64, failed.unsigned_abs());
        let skipped = new.len() as i64 - well as i64 - failed;
        for _ in 0..skipped {
            self.expectations.creation_seen(&key);
        }
        (Done { created: well as i64 - ignored, ..Done::default() }, failure)
    }

    async fn create_pod(&self, job: &Arc<Obj>, key: &Key, pod: Value) -> Result<(), Status> {
        let pod = self.client.create(PODS.within(job.namespace()), pod, WriteOptions::default()).await?;
        self.remember(key, |memory| memory.wrote_pod(&pod));
        let message = format!("Created pod: {}", pod.name());
        self.recorder.event(&JOBS, job, Severity::Normal, "SuccessfulCreate", message);
        Ok(())
    }

    /// Writes finished pods down, takes their finalizers, counts them; and says, also to the caller, when
    /// the Job is over.
    async fn store(&self, job: &Arc<Obj>, view: &Job, work: &mut Work) -> Result<bool, Failure> {
        let (key, mut counted) = (Key::of(job), view.status.clone());
        let release = work.record();
        let mut tree = runtime::tree(job);
        if work.needs_flush() {
            self.write_status(&key, job, work, &mut tree).await?;
            self.remember(&key, |memory| memory.backoff = work.backoff);
            self.metrics.stored(&work.spec, &counted, &work.status);
            counted.clone_from(&work.status);
        }
        work.judged.drain(..).for_each(|action| self.metrics.judged(action));
        let (gone, failed) = self.take_finalizers(&key, work, &release).await;
        let mut again = work.released(&gone);
        if let Some(failure) = failed {
            // What was done is told even so.
            if again {
                self.write_status(&key, job, work, &mut tree).await?;
            }
            return Err(failure.into());
        }
        let events = work.finish();
        let over = events.is_some();
        again |= over;
        if again {
            self.write_status(&key, job, work, &mut tree).await?;
            self.metrics.stored(&work.spec, &counted, &work.status);
            if over {
                self.metrics.finished(work);
            }
            self.tell(job, events.unwrap_or_default());
        }
        Ok(over)
    }

    async fn write_status(&self, key: &Key, job: &Obj, work: &Work, tree: &mut Value) -> Result<(), Status> {
        work.status.write(tree);
        let written =
            self.client.update(JOBS.of(job).sub("status"), tree.clone(), WriteOptions::default()).await?;
        self.remember(key, |memory| memory.wrote_job = memory.wrote_job.max(written.revision()));
        *tree = runtime::tree(&written);
        Ok(())
    }

    /// Tells which are gone, in the order of `release`.
    async fn take_finalizers(
        &self,
        key: &Key,
        work: &Work,
        release: &[usize],
    ) -> (Vec<usize>, Option<Status>) {
        let gone = Mutex::new(Vec::new());
        let take = |at: usize| -> futures_util::future::BoxFuture<'_, Result<(), Status>> {
            let gone = &gone;
            Box::pin(async move {
                let pod = &work.pods[release[at]].obj;
                self.remember(key, |memory| memory.released.expect(pod.uid()));
                match self.take_finalizer(key, pod).await {
                    Err(status) if status.code != 404 => {
                        self.remember(key, |memory| memory.released.back(pod.uid()));
                        Err(status)
                    }
                    _ => {
                        gone.lock().push(release[at]);
                        Ok(())
                    }
                }
            })
        };
        let failed = batch::all(release.len(), AT_ONCE, &take).await;
        (gone.into_inner(), failed)
    }

    pub(super) async fn take_finalizer(&self, key: &Key, pod: &Obj) -> Result<(), Status> {
        let mut patch = Value::map();
        let metadata = patch.map_at(&["metadata"]);
        metadata.set("uid", pod.uid());
        metadata.set("$deleteFromPrimitiveList/finalizers", vec![Value::from(FINALIZER)]);
        let patched =
            self.client.patch(PODS.of(pod), Patch::Strategic(patch), WriteOptions::default()).await?;
        self.remember(key, |memory| memory.wrote_pod(&patched));
        Ok(())
    }

    fn tell(&self, job: &Obj, events: Vec<Told>) {
        for Told { severity, reason, message } in events {
            self.recorder.event(&JOBS, job, severity, &reason, message);
        }
    }
}

fn describe(work: &Work, step: &PodAction) -> String {
    let doing = match step {
        PodAction::Nothing => "nothing".to_owned(),
        PodAction::Finish(pods) => format!("finish, delete {}", pods.len()),
        PodAction::Remove(pods) => format!("delete {}", pods.len()),
        PodAction::Create(new) => format!("create {}", new.len()),
    };
    let (active, succeeded, failed) = (work.active, work.succeeded, work.failed);
    format!("{doing}; active {active}, succeeded {succeeded}, failed {failed}")
}
