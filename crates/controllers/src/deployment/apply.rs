//! Carrying out a plan: the sets in order, then the status; the first refusal ends the reconcile.

use std::sync::Arc;

use client::resources::{DEPLOYMENTS, REPLICA_SETS};
use client::{DeleteOptions, WriteOptions};
use object::{Obj, Value};
use runtime::{Action, Failure, Key, Severity, owners};

use super::Sync;
use super::create::to_map;
use super::plan::{Plan, Rollback, SetUpdate, SetWrite};
use super::revision::REVISION;
use super::spec::Deployment;
use super::status::{PROGRESSING, Status, condition, reason};
use crate::namespace_is_going;
use crate::replicaset::Set;

/// How a creation ended.
enum Created {
    Now,
    /// The namespace is going: nothing more can be done.
    Never,
}

impl Sync {
    pub(super) async fn apply(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        deployment: &Deployment,
        sets: Vec<Arc<Obj>>,
        plan: Plan,
    ) -> Result<Action, Failure> {
        if let Some(rollback) = plan.rollback {
            return self.roll_back(key, obj, rollback).await;
        }
        for step in plan.steps {
            match step {
                SetWrite::Create { name, body, replicas } => {
                    match self.create(key, obj, deployment, &name, body, replicas).await? {
                        Created::Now => {}
                        Created::Never => return Ok(Action::AwaitChange),
                    }
                }
                SetWrite::Update(update) => {
                    let Some(set) = sets.get(update.at) else { continue };
                    self.update(key, obj, set, &update).await?;
                }
                SetWrite::Delete { at } => {
                    let Some(set) = sets.get(at) else { continue };
                    match self.client.delete(REPLICA_SETS.of(set), DeleteOptions::exactly(set)).await {
                        Err(refused) if refused.code != 404 => return Err(refused.into()),
                        _ => {}
                    }
                }
            }
        }
        let revision =
            plan.revision.filter(|revision| deployment.annotations.get(REVISION) != Some(revision));
        if plan.status != deployment.status || revision.is_some() {
            self.write_status(key, obj, &plan.status, revision).await?;
        }
        Ok(plan.next.map_or(Action::AwaitChange, Action::Requeue))
    }

    pub(super) async fn write_status(
        &self,
        key: &Key,
        obj: &Obj,
        status: &Status,
        revision: Option<String>,
    ) -> Result<(), Failure> {
        let mut tree = runtime::tree(obj);
        if let Some(revision) = revision {
            tree.map_at(&["metadata", "annotations"]).set(REVISION, revision);
        }
        tree.make_map().set("status", status.to_value());
        let written =
            self.client.update(DEPLOYMENTS.of(obj).sub("status"), tree, WriteOptions::default()).await?;
        self.wrote(key, |seen| seen.deployment = written.revision());
        Ok(())
    }

    async fn create(
        &self,
        key: &Key,
        obj: &Arc<Obj>,
        deployment: &Deployment,
        name: &str,
        mut body: Value,
        replicas: i64,
    ) -> Result<Created, Failure> {
        let controller = owners::controller_ref("apps/v1", "Deployment", obj);
        body.map_at(&["metadata"]).set("ownerReferences", Value::List(vec![controller]));
        let refused = match self
            .client
            .create(REPLICA_SETS.within(obj.namespace()), body, WriteOptions::default())
            .await
        {
            Ok(created) => {
                self.wrote(key, |seen| seen.sets = created.revision());
                if replicas > 0 {
                    self.tell(obj, format!("Scaled up replica set {name} from 0 to {replicas}"));
                }
                return Ok(Created::Now);
            }
            Err(refused) => refused,
        };
        if namespace_is_going(&refused) {
            return Ok(Created::Never);
        }
        let mut status = deployment.status.clone();
        if refused.code == 409 {
            let there = self.client.get(REPLICA_SETS.at(obj.namespace(), name)).await?;
            let is_own = owners::controller_of(&there).is_some_and(|owner| owner.uid == obj.uid());
            if is_own && Set::of(&there).template == deployment.bare_template {
                // Made by a reconcile before this one, which was not seen to the end: go on once the informer shows it.
                self.wrote(key, |seen| seen.sets = there.revision());
                return Err(refused.into());
            }
            // Another template of the same hash: the next reconcile makes another hash.
            status.collisions = Some(status.collisions.unwrap_or(0) + 1);
            self.write_status(key, obj, &status, None).await?;
            return Err(refused.into());
        }
        let message = format!("Failed to create new replica set \"{name}\": {}", refused.message);
        if deployment.progress_deadline_seconds.is_some() {
            let now = self.env.now_seconds() as i64;
            status.set(condition(PROGRESSING, "False", reason::CREATE_FAILED, message.clone(), now));
            if status != deployment.status {
                // What went wrong with the set matters more than whether this could be told.
                let _ = self.write_status(key, obj, &status, None).await;
            }
        }
        self.recorder.event(&DEPLOYMENTS, obj, Severity::Warning, reason::CREATE_FAILED, message);
        Err(refused.into())
    }

    async fn update(&self, key: &Key, obj: &Obj, set: &Obj, update: &SetUpdate) -> Result<(), Failure> {
        let mut tree = runtime::tree(set);
        tree.map_at(&["metadata"]).set("annotations", to_map(&update.annotations));
        let spec = tree.map_at(&["spec"]);
        let old = spec.get("replicas").and_then(Value::as_int).unwrap_or(1);
        spec.set("replicas", update.replicas);
        if let Some(seconds) = update.min_ready_seconds {
            spec.set("minReadySeconds", seconds);
        }
        let written = self.client.update(REPLICA_SETS.of(set), tree, WriteOptions::default()).await?;
        self.wrote(key, |seen| seen.sets = written.revision());
        if update.replicas != old {
            let way = if old < update.replicas { "up" } else { "down" };
            let (name, new) = (set.name(), update.replicas);
            self.tell(obj, format!("Scaled {way} replica set {name} from {old} to {new}"));
        }
        Ok(())
    }

    async fn roll_back(&self, key: &Key, obj: &Arc<Obj>, rollback: Rollback) -> Result<Action, Failure> {
        let mut tree = runtime::tree(obj);
        tree.map_at(&["metadata"]).set("annotations", to_map(&rollback.annotations));
        if let Some(template) = rollback.template {
            tree.map_at(&["spec"]).set("template", template);
        }
        let written = self.client.update(DEPLOYMENTS.of(obj), tree, WriteOptions::default()).await?;
        self.wrote(key, |seen| seen.deployment = written.revision());
        let (is_warning, reason, message) = rollback.event;
        let severity = if is_warning { Severity::Warning } else { Severity::Normal };
        self.recorder.event(&DEPLOYMENTS, obj, severity, reason, message);
        Ok(Action::AwaitChange)
    }

    fn tell(&self, obj: &Obj, message: String) {
        self.recorder.event(&DEPLOYMENTS, obj, Severity::Normal, "ScalingReplicaSet", message);
    }
}

/// A plan in one line, for people.
pub(super) fn describe(plan: &Plan, sets: &[Arc<Set>]) -> String {
    let step = |step: &SetWrite| match step {
        SetWrite::Create { name, replicas, .. } => format!("create {name} with {replicas}"),
        SetWrite::Update(update) => {
            let set = sets.get(update.at).map_or("a new set", |set| &set.name);
            format!("update {set} to {}", update.replicas)
        }
        SetWrite::Delete { at } => format!("delete {}", sets.get(*at).map_or("a new set", |set| &set.name)),
    };
    let steps: Vec<String> = plan.steps.iter().map(step).collect();
    match (&plan.rollback, steps.is_empty()) {
        (Some(rollback), _) => rollback.event.2.clone(),
        (None, true) => "nothing but the status".to_owned(),
        (None, false) => steps.join(", "),
    }
}
