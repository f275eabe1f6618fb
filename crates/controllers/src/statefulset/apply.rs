//! Carrying out a plan: phase by phase, then the status, whatever became of the steps.

use client::resources::{PODS, STATEFUL_SETS};
use client::{DeleteOptions, WriteOptions};
use object::{Obj, Status, Value};
use runtime::{Failure, Key, Severity, batch, retry};

use super::Sync;
use super::identity::{
    identity_matches, new_pod, ordinal, pod_name, set_identity, set_storage, storage_matches,
};
use super::members::pod_part;
use super::plan::{Plan, Step};
use super::revisions::Standing;
use super::set::StatefulSet;
use super::status::SetStatus;
use crate::namespace_is_going;
use crate::pods::Pod;

/// Why the steps after this one are not begun.
pub(super) enum Stopped {
    /// The namespace is going: nothing can be made any more, and nothing need be.
    Terminating,
    Failed(Box<Failure>),
}

/// What all steps of a reconcile share.
pub(super) struct Reconciled<'a> {
    pub key: &'a Key,
    pub obj: &'a Obj,
    pub set: &'a StatefulSet,
    /// The set, where there are steps to take, and the set as it is at the two revisions where pods of them are to be made.
    pub tree: Value,
    current: Option<Value>,
    update: Option<Value>,
    at: &'a Standing,
}

impl Sync {
    /// The status there is now, and whether the namespace is going: then nothing more can be made.
    pub(super) async fn apply(
        &self,
        key: &Key,
        obj: &Obj,
        set: &StatefulSet,
        at: &Standing,
        plan: Plan,
    ) -> Result<(SetStatus, bool), Failure> {
        let idle = plan.phases.iter().all(Vec::is_empty);
        let tree = if idle { Value::Null } else { runtime::tree(obj) };
        let creates = |of_current: bool| {
            let mut steps = plan.phases.iter().flatten();
            steps.any(|step| matches!(step, Step::Create { current, .. } if *current == of_current))
        };
        let restored = |needed: bool, data: &[u8]| match needed {
            false => Ok(None),
            true if data == set.data => Ok(Some(tree.clone())),
            true => self.restorer.restored(&tree, data).map(Some),
        };
        let current = restored(creates(true), at.current.data())?;
        let update = restored(creates(false), at.update.data())?;
        let reconciled = Reconciled { key, obj, set, tree, current, update, at };

        let mut status = plan.status;
        let mut stopped = self.phases(&reconciled, &plan.phases).await;
        if let (None, Some(outdated)) = (&stopped, &plan.outdated) {
            match self.delete(&reconciled, outdated).await {
                Ok(()) => status.current -= 1,
                Err(why) => stopped = Some(why),
            }
        }
        status.complete(set);
        let written = if status.differs_from(&set.status) {
            self.write_status(key, obj, &status).await
        } else {
            Ok(())
        };
        // What went wrong with the pods matters more than whether it could be told.
        let is_stopped = stopped.is_some();
        if let Some(Stopped::Failed(failure)) = stopped {
            return Err(*failure);
        }
        written?;
        Ok((status, is_stopped))
    }

    async fn phases(&self, reconciled: &Reconciled<'_>, phases: &[Vec<Step>]) -> Option<Stopped> {
        for steps in phases {
            if reconciled.set.parallel {
                let step = |at: usize| self.step(reconciled, &steps[at]);
                let (_, stopped) = batch::slow_start(steps.len(), &|at| Box::pin(step(at))).await;
                if stopped.is_some() {
                    return stopped;
                }
                continue;
            }
            for step in steps {
                if let Err(stopped) = self.step(reconciled, step).await {
                    return Some(stopped);
                }
            }
        }
        None
    }

    async fn step(&self, reconciled: &Reconciled<'_>, step: &Step) -> Result<(), Stopped> {
        match step {
            Step::Delete(pod) => self.delete(reconciled, pod).await,
            Step::Create { ordinal, current } => self.create(reconciled, *ordinal, *current).await,
            Step::MakeClaims { pod, then_update } => {
                self.make_missing_claims(reconciled, &pod.obj).await?;
                if *then_update { self.update(reconciled, pod).await } else { Ok(()) }
            }
            Step::Update(pod) => self.update(reconciled, pod).await,
            Step::FixClaims(pod) => {
                let holder = (pod.obj.name(), pod.obj.uid());
                self.fix_claims(reconciled, holder).await.map_err(Stopped::from)
            }
        }
    }

    async fn create(&self, reconciled: &Reconciled<'_>, ordinal: i64, current: bool) -> Result<(), Stopped> {
        let Reconciled { key, obj, at, .. } = reconciled;
        let (tree, revision) = match current {
            true => (&reconciled.current, &at.current),
            false => (&reconciled.update, &at.update),
        };
        let name = pod_name(obj.name(), ordinal);
        self.create_claims(reconciled, &name, ordinal).await.inspect_err(|stopped| {
            self.tell_failed(obj, "Create", &name, stopped);
        })?;
        let body = new_pod(obj, tree.as_ref().unwrap_or(&reconciled.tree), ordinal, revision.name());
        let created = self.client.create(PODS.within(obj.namespace()), body, WriteOptions::default()).await;
        match &created {
            Ok(pod) => self.wrote_pod(key, pod),
            // Made before, and not seen yet; or somebody else's.
            Err(refused) if refused.reason == "AlreadyExists" => {
                return Err(Stopped::from(refused.clone()));
            }
            Err(_) => {}
        }
        // Before it was seen nobody knows the pod's uid, and nobody needs it: a pod that is made is wanted.
        if let Err(failure) = self.fix_claims(reconciled, (&name, "")).await {
            let stopped = Stopped::from(failure);
            self.tell_failed(obj, "Update", &name, &stopped);
            return Err(stopped);
        }
        match created {
            Ok(_) => {
                self.tell_well(obj, "Create", &name);
                Ok(())
            }
            Err(refused) => {
                let stopped = Stopped::from(refused);
                self.tell_failed(obj, "Create", &name, &stopped);
                Err(stopped)
            }
        }
    }

    async fn delete(&self, reconciled: &Reconciled<'_>, pod: &Pod) -> Result<(), Stopped> {
        let Reconciled { key, obj, .. } = reconciled;
        let name = pod.obj.name();
        self.changed.note(key, &pod_part(name));
        match self.client.delete(PODS.of(&pod.obj), DeleteOptions::exactly(&pod.obj)).await {
            Err(refused) if refused.code != 404 => {
                let stopped = Stopped::from(refused);
                self.tell_failed(obj, "Delete", name, &stopped);
                Err(stopped)
            }
            _ => {
                self.tell_well(obj, "Delete", name);
                Ok(())
            }
        }
    }

    async fn update(&self, reconciled: &Reconciled<'_>, pod: &Pod) -> Result<(), Stopped> {
        let mut result = self.mend(reconciled, pod).await;
        if matches!(&result, Err(stopped) if stopped.is_conflict()) {
            result = retry::on_conflict(&self.env, retry::BUSY_WRITERS, || async {
                let fresh = self.client.get(PODS.of(&pod.obj)).await?;
                match self.mend(reconciled, &Pod::new(fresh)).await {
                    Err(Stopped::Failed(failure)) => Err(match *failure {
                        Failure::Api(refused) => refused,
                        other => Status::unknown(other.to_string()),
                    }),
                    Err(Stopped::Terminating) | Ok(()) => Ok(()),
                }
            })
            .await
            .map_err(Stopped::from);
        }
        // Under the name it should have.
        let (obj, ordinal) = (reconciled.obj, ordinal(pod.obj.name()));
        let name = ordinal.map_or_else(|| pod.obj.name().to_owned(), |ordinal| pod_name(obj.name(), ordinal));
        match &result {
            Ok(()) => self.tell_well(obj, "Update", &name),
            Err(stopped) => self.tell_failed(obj, "Update", &name, stopped),
        }
        result
    }

    /// One attempt to give a pod what it lacks.
    async fn mend(&self, reconciled: &Reconciled<'_>, pod: &Pod) -> Result<(), Stopped> {
        let Reconciled { key, obj, set, tree, .. } = reconciled;
        let Some(ordinal) = ordinal(pod.obj.name()) else { return Ok(()) };
        let mut body = runtime::tree(&pod.obj);
        let mut changed = false;
        if !identity_matches(obj, &pod.obj) {
            set_identity(obj.name(), ordinal, &mut body);
            changed = true;
        }
        if !storage_matches(obj, set, pod) {
            set_storage(obj.name(), tree, ordinal, &mut body);
            self.create_claims(reconciled, pod.obj.name(), ordinal).await?;
            changed = true;
        }
        self.fix_claims(reconciled, (pod.obj.name(), pod.obj.uid())).await.map_err(Stopped::from)?;
        if changed {
            let name = pod_name(obj.name(), ordinal);
            let target = PODS.at(obj.namespace(), &name);
            let updated = self.client.update(target, body, WriteOptions::default()).await?;
            self.wrote_pod(key, &updated);
        }
        Ok(())
    }

    fn tell_well(&self, obj: &Obj, verb: &str, pod: &str) {
        let message = format!("{verb} Pod {pod} in StatefulSet {} successful", obj.name());
        self.tell(obj, Severity::Normal, &format!("Successful{verb}"), message);
    }

    pub(super) fn tell_failed(&self, obj: &Obj, verb: &str, pod: &str, stopped: &Stopped) {
        let Stopped::Failed(error) = stopped else { return };
        let message = format!("{verb} Pod {pod} in StatefulSet {} failed error: {error}", obj.name());
        self.tell(obj, Severity::Warning, &format!("Failed{verb}"), message);
    }

    pub(super) fn tell(&self, obj: &Obj, severity: Severity, reason: &str, message: String) {
        self.recorder.event(&STATEFUL_SETS, obj, severity, reason, message);
    }
}

impl From<Status> for Stopped {
    fn from(refused: Status) -> Stopped {
        if namespace_is_going(&refused) { Stopped::Terminating } else { Failure::from(refused).into() }
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(Box::new(failure))
    }
}

impl Stopped {
    fn is_conflict(&self) -> bool {
        matches!(self, Stopped::Failed(failure) if matches!(&**failure, Failure::Api(refused) if retry::is_conflict(refused)))
    }
}
