//! The claims of pods: made before their pod, and owned by whom the retention policy says.

use client::WriteOptions;
use client::resources::PERSISTENT_VOLUME_CLAIMS;
use object::Obj;
use runtime::{Failure, Severity};

use super::Sync;
use super::apply::{Reconciled, Stopped};
use super::identity::{claim_name, claims, ordinal};
use super::retention::Holders;
use crate::namespace_is_going;

impl Sync {
    /// Makes those that are not there. One that is going has to be gone first.
    pub(super) async fn create_claims(
        &self,
        reconciled: &Reconciled<'_>,
        pod: &str,
        ordinal: i64,
    ) -> Result<(), Stopped> {
        let Reconciled { key, obj, tree, .. } = reconciled;
        let mut wrong: Vec<String> = Vec::new();
        for claim in claims(obj.name(), tree, ordinal) {
            let name = claim.name;
            if let Some(there) = self.claims.store().get(obj.namespace(), &name) {
                if there.deleting() {
                    wrong.push(format!("pvc {name} is being deleted"));
                }
                continue;
            }
            let target = PERSISTENT_VOLUME_CLAIMS.within(obj.namespace());
            match self.client.create(target, claim.body, WriteOptions::default()).await {
                Ok(created) => {
                    self.wrote_claim(key, &created);
                    let message =
                        format!("Create Claim {name} Pod {pod} in StatefulSet {} success", obj.name());
                    self.tell(obj, Severity::Normal, "SuccessfulCreate", message);
                }
                Err(refused) if namespace_is_going(&refused) => return Err(Stopped::Terminating),
                Err(refused) => {
                    if refused.reason != "AlreadyExists" {
                        let message = format!(
                            "Create Claim {name} for Pod {pod} in StatefulSet {} failed error: {}",
                            obj.name(),
                            refused.message
                        );
                        self.tell(obj, Severity::Warning, "FailedCreate", message);
                    }
                    wrong.push(format!("failed to create PVC {name}: {}", refused.message));
                }
            }
        }
        wrong.dedup();
        match wrong.as_slice() {
            [] => Ok(()),
            [one] => Err(Stopped::from(Failure::Other(one.clone()))),
            several => Err(Stopped::from(Failure::Other(format!("[{}]", several.join(", "))))),
        }
    }

    /// Of a pod that waits for them.
    pub(super) async fn make_missing_claims(
        &self,
        reconciled: &Reconciled<'_>,
        pod: &Obj,
    ) -> Result<(), Stopped> {
        let Some(ordinal) = ordinal(pod.name()) else { return Ok(()) };
        self.create_claims(reconciled, pod.name(), ordinal).await?;
        self.fix_claims(reconciled, (pod.name(), pod.uid())).await.map_err(|failure| {
            let stopped = Stopped::from(failure);
            self.tell_failed(reconciled.obj, "Update", pod.name(), &stopped);
            stopped
        })
    }

    /// Gives the claims of a pod, by its name and uid, the owners they should have. Those not seen yet have their turn later.
    pub(super) async fn fix_claims(
        &self,
        reconciled: &Reconciled<'_>,
        (pod_name, pod_uid): (&str, &str),
    ) -> Result<(), Failure> {
        let Reconciled { key, obj, set, .. } = reconciled;
        let Some(ordinal) = ordinal(pod_name) else { return Ok(()) };
        let scaled_down = !set.has_ordinal(ordinal);
        let holders = Holders { set: obj, pod_name, pod_uid, scaled_down, retention: set.retention };
        for template in &set.claim_templates {
            let name = claim_name(template, obj.name(), ordinal);
            let Some(claim) = self.claims.store().get(obj.namespace(), &name) else { continue };
            if holders.has_unexpected_controller(&claim) {
                let message = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, \
                     the retention policy is ignored for this claim"
                );
                self.tell(obj, Severity::Warning, "ConflictingController", message);
            }
            if holders.are_up_to_date(&claim) {
                continue;
            }
            let target = PERSISTENT_VOLUME_CLAIMS.of(&claim);
            let updated = self.client.update(target, holders.updated(&claim), WriteOptions::default()).await;
            let updated = updated.map_err(|refused| {
                let why = refused.message;
                Failure::Other(format!("could not update claim {name} for delete policy ownerRefs: {why}"))
            })?;
            self.wrote_claim(key, &updated);
        }
        Ok(())
    }
}
