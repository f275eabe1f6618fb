//! The writes of a binding.

use std::sync::Arc;

use client::WriteOptions;
use client::resources::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use kinds::persistentvolume::view::VolumePhase;
use kinds::persistentvolumeclaim::view::ClaimPhase;
use object::{Obj, Value};
use runtime::{Failure, tree};

use super::{Binder, change, id_of};

impl Binder {
    /// Both name each other and are Bound. The volume first: a claim without it is only pending, a volume without its claim
    /// would be anybody's.
    pub(super) async fn bind(&self, volume: Arc<Obj>, claim: Arc<Obj>) -> Result<(), Failure> {
        let claim_tree = tree(&claim);
        let volume = match change::bind_volume(tree(&volume), id_of(&claim), &claim_tree) {
            None => volume,
            Some(body) => self.update_volume(&volume, body).await?,
        };
        let volume = self.volume_phase(volume, VolumePhase::Bound, "").await?;
        let claim = match change::bind_claim(claim_tree, volume.name()) {
            None => claim,
            Some(body) => self.update_claim(body).await?,
        };
        self.claim_status(claim, ClaimPhase::Bound, Some(&volume)).await?;
        Ok(())
    }

    /// The claim with its phase, and what the volume gives it.
    pub(super) async fn claim_status(
        &self,
        claim: Arc<Obj>,
        phase: ClaimPhase,
        volume: Option<&Arc<Obj>>,
    ) -> Result<Arc<Obj>, Failure> {
        let volume = volume.map(|volume| tree(volume));
        let body = change::claim_status(tree(&claim), phase, volume.as_ref()).map_err(Failure::Other)?;
        let Some(body) = body else { return Ok(claim) };
        let target = PERSISTENT_VOLUME_CLAIMS.of(&claim).sub("status");
        let written = self.client.update(target, body, WriteOptions::default()).await?;
        self.claims.wrote(&written);
        Ok(written)
    }

    /// The volume in this phase; it is written only if that is another.
    pub(super) async fn volume_phase(
        &self,
        volume: Arc<Obj>,
        phase: VolumePhase,
        message: &str,
    ) -> Result<Arc<Obj>, Failure> {
        let Some(body) = change::volume_phase(tree(&volume), phase, message) else { return Ok(volume) };
        let target = PERSISTENT_VOLUMES.of(&volume).sub("status");
        let written = self.client.update(target, body, WriteOptions::default()).await?;
        self.volume_written(&written);
        Ok(written)
    }

    /// Heard of before the informer tells: who waits for such a volume need not wait for that.
    fn volume_written(&self, volume: &Arc<Obj>) {
        if self.volumes.wrote(volume) {
            self.wake_for(volume);
        }
    }

    pub(super) async fn update_volume(&self, volume: &Obj, body: Value) -> Result<Arc<Obj>, Failure> {
        let target = PERSISTENT_VOLUMES.of(volume);
        let written = self.client.update(target, body, WriteOptions::default()).await?;
        self.volume_written(&written);
        Ok(written)
    }
}
