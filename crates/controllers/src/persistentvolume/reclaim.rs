//! Volumes: their phase, and what becomes of them when their claim is gone.

use std::sync::Arc;

use client::DeleteOptions;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use kinds::persistentvolume::view::{ClaimRef, VolumePhase};
use object::{Obj, Value};
use runtime::queue::NORMAL;
use runtime::{Action, Failure, Key, ReconcileRequest, Severity, finalizers, tree};

use super::class::{Reclaim, reclaim};
use super::plan::{self, ForVolume};
use super::{Binder, change};
use crate::volumes::{claim_view, volume_view};

impl Binder {
    pub(super) async fn sync_volume(&self, request: ReconcileRequest<'_>) -> Result<Action, Failure> {
        let Some(mut volume) = self.volumes.get(request.key) else {
            self.abandon(request.key.name()).await?;
            return Ok(Action::AwaitChange);
        };
        let mut view = volume_view(&volume);
        if let Some(body) = view.provisioned_by.as_ref().and_then(|_| change::migrated_volume(tree(&volume)))
        {
            volume = self.update_volume(&volume, body).await?;
            view = volume_view(&volume);
        }
        let named = view.claim.as_ref().filter(|claim| !claim.uid.is_empty());
        let claim = match named {
            Some(named) => self.claim_of(named, view.phase).await?,
            None => None,
        };
        let claim_view = claim.as_ref().map(|claim| claim_view(claim));
        let planned = plan::volume(volume.name(), &view, claim_view.as_deref());
        request.plan(|| format!("{planned:?}"));
        match planned {
            ForVolume::Phase(phase) => {
                self.volume_phase(volume, phase, "").await?;
            }
            ForVolume::WakeClaim => {
                if let Some(claim) = claim {
                    self.claim_queue.add(Key::of(&claim), NORMAL, None);
                }
            }
            ForVolume::Mismatch { volume: of_volume, claim: of_claim } => {
                self.tell_volume(&volume, Severity::Warning, "VolumeMismatch", of_volume);
                if let Some(claim) = claim {
                    self.tell_claim(&claim, true, ("VolumeMismatch", of_claim));
                }
                return Ok(Action::Requeue(self.sync_period));
            }
            ForVolume::Unbind => self.unbind(volume).await?,
            ForVolume::Release => {
                let ended = matches!(view.phase, VolumePhase::Released | VolumePhase::Failed);
                let volume = match ended {
                    true => volume,
                    false => self.volume_phase(volume, VolumePhase::Released, "").await?,
                };
                return self.reclaim(volume).await;
            }
        }
        Ok(Action::AwaitChange)
    }

    /// The claim a volume names, if it is the very one. Before a volume is released the server itself is asked.
    async fn claim_of(&self, named: &ClaimRef, phase: VolumePhase) -> Result<Option<Arc<Obj>>, Failure> {
        let known = self.claims.get(&Key::new(&named.namespace, &named.name));
        let ended = matches!(phase, VolumePhase::Released | VolumePhase::Failed);
        match known {
            Some(claim) if *claim.uid() == *named.uid => return Ok(Some(claim)),
            None if ended => return Ok(None),
            _ => {}
        }
        match self.client.get(PERSISTENT_VOLUME_CLAIMS.at(&named.namespace, &named.name)).await {
            Ok(claim) => Ok(Some(claim).filter(|claim| *claim.uid() == *named.uid)),
            Err(status) if status.code == 404 => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// The volume is free again, or still the user's choice for a claim of that name.
    pub(super) async fn unbind(&self, volume: Arc<Obj>) -> Result<(), Failure> {
        let volume = self.update_volume(&volume, change::unbind(tree(&volume))).await?;
        self.volume_phase(volume, VolumePhase::Available, "").await?;
        Ok(())
    }

    async fn reclaim(&self, volume: Arc<Obj>) -> Result<Action, Failure> {
        match reclaim(volume.name(), &volume_view(&volume)) {
            Reclaim::Leave => {}
            Reclaim::Fail { reason, why } => self.fail(volume, reason, why).await?,
            Reclaim::Recycle => return self.recycle(volume).await,
            Reclaim::Delete => self.delete(&volume).await?,
        }
        Ok(Action::AwaitChange)
    }

    /// The volume's object goes.
    // Differs from kube-controller-manager: that removes the directory, too, on the machine it happens to run on.
    async fn delete(&self, volume: &Arc<Obj>) -> Result<(), Failure> {
        // What is known may be old: nothing goes that has a claim again.
        let fresh = match self.client.get(PERSISTENT_VOLUMES.of(volume)).await {
            Err(status) if status.code == 404 => return Ok(()),
            fresh => fresh?,
        };
        let view = volume_view(&fresh);
        let Some(named) = view.claim.as_ref().filter(|claim| !claim.uid.is_empty()) else { return Ok(()) };
        if fresh.uid() != volume.uid() {
            return Ok(());
        }
        let claim = self.claims.get(&Key::new(&named.namespace, &named.name));
        let is_held = claim.is_some_and(|claim| {
            let volume = &claim_view(&claim).volume;
            *claim.uid() == *named.uid && (volume.is_empty() || **volume == *fresh.name())
        });
        if is_held {
            return Ok(());
        }
        if finalizers::has(&fresh, change::BUILT_IN_FINALIZER) {
            let mut names = finalizers::of(&fresh);
            names.retain(|name| name != change::BUILT_IN_FINALIZER);
            let mut body = tree(&fresh);
            let names: Vec<Value> = names.into_iter().map(Value::Str).collect();
            body.map_at(&["metadata"]).set("finalizers", names);
            self.update_volume(&fresh, body).await?;
        }
        match self.client.delete(PERSISTENT_VOLUMES.of(&fresh), DeleteOptions::exactly(&fresh)).await {
            Err(status) if status.code != 404 => Err(status.into()),
            _ => Ok(()),
        }
    }

    /// People are told once, when the phase changes.
    pub(super) async fn fail(&self, volume: Arc<Obj>, reason: &str, why: String) -> Result<(), Failure> {
        if volume_view(&volume).phase == VolumePhase::Failed {
            return Ok(());
        }
        let volume = self.volume_phase(volume, VolumePhase::Failed, &why).await?;
        self.tell_volume(&volume, Severity::Warning, reason, why);
        Ok(())
    }

    pub(super) fn tell_volume(&self, volume: &Obj, severity: Severity, reason: &str, message: String) {
        self.recorder.event(&PERSISTENT_VOLUMES, volume, severity, reason, message);
    }
}
