//! Making and deleting pods: expectations first, then the calls, then what did not come to pass is no longer expected.

use std::sync::Arc;

use client::resources::PODS;
use client::{DeleteOptions, WriteOptions};
use object::{Obj, Status};
use runtime::{BY_CONTROLLER, Failure, Key, Severity, batch, owners};

use super::Sync;
use super::plan::{Change, pod_from_template};
use super::rank::to_delete;
use crate::pods::Pod;

/// So many deletions are under way at once.
const DELETIONS_AT_ONCE: usize = 100;

/// Why no further pod is made.
enum Stopped {
    /// The namespace is going: no pod can come, and none is needed.
    Terminating,
    Failed(Box<Status>),
}

impl Sync {
    /// The first failure, if any.
    pub(super) async fn manage(
        &self,
        key: &Key,
        set: &Arc<Obj>,
        active: &[Pod],
        change: Change,
    ) -> Option<Failure> {
        match change {
            Change::Nothing => None,
            Change::Create(count) => self.create(key, set, count).await,
            Change::Delete(count) => {
                let now = self.env.now_nanos() as i128;
                self.delete(key, set, to_delete(active.to_vec(), &self.related(set), count, now)).await
            }
        }
    }

    async fn create(&self, key: &Key, set: &Arc<Obj>, count: usize) -> Option<Failure> {
        let controller = owners::controller_ref(self.kind.api_version, self.kind.kind, set);
        let pod = pod_from_template(set, &runtime::tree(set), controller);
        self.expectations.expect_creations(key, count);
        let (well, stopped) = batch::slow_start(count, &|_| {
            let pod = pod.clone();
            Box::pin(async move {
                match self.client.create(PODS.within(set.namespace()), pod, WriteOptions::default()).await {
                    Ok(created) => {
                        let message = format!("Created pod: {}", created.name());
                        self.tell(set, Severity::Normal, "SuccessfulCreate", message);
                        Ok(())
                    }
                    Err(refused) if crate::namespace_is_going(&refused) => Err(Stopped::Terminating),
                    Err(refused) => {
                        let message = format!("Error creating: {}", refused.message);
                        self.tell(set, Severity::Warning, "FailedCreate", message);
                        Err(Stopped::Failed(Box::new(refused)))
                    }
                }
            })
        })
        .await;
        for _ in well..count {
            self.expectations.creation_seen(key);
        }
        match stopped {
            Some(Stopped::Failed(refused)) => Some(Failure::Api(*refused)),
            Some(Stopped::Terminating) | None => None,
        }
    }

    async fn delete(&self, key: &Key, set: &Arc<Obj>, pods: Vec<Pod>) -> Option<Failure> {
        self.expectations.expect_deletions(key, pods.iter().map(|pod| Key::of(&pod.obj)));
        let pods = &pods;
        batch::all(pods.len(), DELETIONS_AT_ONCE, &|at| {
            Box::pin(async move {
                let pod = &pods[at].obj;
                let Err(refused) = self.client.delete(PODS.of(pod), DeleteOptions::exactly(pod)).await else {
                    let message = format!("Deleted pod: {}", pod.name());
                    self.tell(set, Severity::Normal, "SuccessfulDelete", message);
                    return Ok(());
                };
                // Its deletion will not be seen.
                self.expectations.deletion_seen(key, &Key::of(pod));
                // A conflict is looked at again: it may be another pod of the same name, or a passing refusal.
                if refused.code == 404 {
                    return Ok(());
                }
                self.tell(
                    set,
                    Severity::Warning,
                    "FailedDelete",
                    format!("Error deleting: {}", refused.message),
                );
                Err(Failure::Other(format!("unable to delete pods: {}", refused.message)))
            })
        })
        .await
    }

    /// Pods of all sets of the owner's: during a rollout old and new pods crowd nodes together.
    fn related(&self, set: &Obj) -> Vec<Pod> {
        let Some(owner) = owners::controller_of(set) else { return Vec::new() };
        let sets = self.sets.store().by_index(BY_CONTROLLER, &owner.uid);
        let pods = sets.iter().flat_map(|set| self.pods.store().by_index(BY_CONTROLLER, set.uid()));
        pods.map(Pod::new).collect()
    }

    fn tell(&self, set: &Obj, severity: Severity, reason: &str, message: String) {
        self.recorder.event(self.kind.resource, set, severity, reason, message);
    }
}
