//! Unpacked layers, by chain id.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::prune::needed;
use super::{Store, StoreError, at};
use crate::digest::Digest;
use crate::unpack::{self, Layer, open_directory};

/// What is known of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerRecord {
    pub diff_id: Digest,
    pub bytes: u64,
    pub entries: u64,
    /// The boot of the machine it was unpacked in.
    pub boot: String,
    /// Its files are on the disk. Before, a power cut may have emptied some of them: it is only believed in its own boot.
    pub synced: bool,
}

/// The name of a layer together with all below it: directories that its archive only implies are made like those below, so the
/// same archive on others is another layer.
pub fn chain_id(below: Option<&Digest>, diff_id: &Digest) -> Digest {
    match below {
        Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
        None => diff_id.clone(),
    }
}

/// The chain ids of an image's layers, the lowest first.
pub(crate) fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::with_capacity(diff_ids.len());
    for diff_id in diff_ids {
        chain.push(chain_id(chain.last(), diff_id));
    }
    chain
}

impl Store {
    pub(super) fn layer_path(&self, chain: &Digest) -> PathBuf {
        let folder = self.inner.root.join("layers");
        match chain.algorithm() {
            "sha256" => folder.join(chain.hex()),
            // A lowest layer keeps the algorithm of its diff id.
            other => folder.join(format!("{other}-{}", chain.hex())),
        }
    }

    pub(crate) fn has_layer(&self, chain: &Digest) -> bool {
        self.layer_record(chain).is_some()
    }

    pub(super) fn layer_record(&self, chain: &Digest) -> Option<LayerRecord> {
        let path = self.layer_path(chain);
        let text = fs::read(path.join("layer.json")).ok()?;
        let record: LayerRecord = serde_json::from_slice(&text).ok()?;
        ((record.synced || record.boot == self.inner.boot) && path.join("fs").is_dir()).then_some(record)
    }

    /// Makes all layers survive a power cut. One call for thousands of files, but it waits for everything else that is written to
    /// that disk too: pulls do it when the image is in use already.
    pub fn sync_layers(&self) -> Result<(), StoreError> {
        let layers = self.read(|index| needed(index).1)?;
        let mut unsynced: Vec<(PathBuf, LayerRecord)> = Vec::new();
        for chain in &layers {
            if let Some(record) = self.layer_record(chain).filter(|record| !record.synced) {
                unsynced.push((
                    self.layer_path(chain).join("layer.json"),
                    LayerRecord { synced: true, ..record },
                ));
            }
        }
        if unsynced.is_empty() {
            return Ok(());
        }
        let folder = self.inner.root.join("layers");
        let open = open_directory(&folder).map_err(at(&folder))?;
        rustix::fs::syncfs(&open).map_err(|error| at(&folder)(error.into()))?;
        for (path, record) in unsynced {
            let text = serde_json::to_vec(&record).map_err(|error| at(&path)(error.into()))?;
            match env::file::replace(&path, &text, 0o600) {
                // Pruned meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                replaced => replaced.map_err(at(&path))?,
            }
        }
        Ok(())
    }

    /// The chain ids of these layers, if all are there, and how much they take.
    pub(super) fn check_layers(&self, diff_ids: &[Digest]) -> Result<(Vec<Digest>, u64), StoreError> {
        let chain = chain_ids(diff_ids);
        let mut bytes = 0u64;
        for id in &chain {
            let record = self.layer_record(id).ok_or_else(|| StoreError::Missing(id.clone()))?;
            bytes = bytes.saturating_add(record.bytes);
        }
        Ok((chain, bytes))
    }

    /// Unpacks a layer on top of those with the diff ids `below` (the lowest first), unless it is here already.
    pub(crate) fn unpack_layer(
        &self,
        below: &[Digest],
        diff_id: &Digest,
        blob: impl Read,
        compressed_bytes: u64,
    ) -> Result<LayerRecord, StoreError> {
        let below = chain_ids(below);
        let chain = chain_id(below.last(), diff_id);
        if let Some(record) = self.layer_record(&chain) {
            return Ok(record);
        }
        let staging = self.temporary();
        let made = self.make_layer(&staging, &below, diff_id, blob, compressed_bytes);
        let path = self.layer_path(&chain);
        let placed = made.and_then(|record| {
            match fs::rename(&staging, &path) {
                Ok(()) => env::file::sync_folder_of(&path).map_err(at(&path))?,
                // Somebody else was faster.
                Err(_) if self.has_layer(&chain) => self.empty(&staging)?,
                Err(error) => return Err(at(&path)(error)),
            }
            Ok(record)
        });
        if placed.is_err()
            && let Err(error) = self.empty(&staging)
        {
            tracing::warn!(%error, "what is left of a layer stays until the next start");
        }
        placed
    }

    fn make_layer(
        &self,
        staging: &Path,
        below: &[Digest],
        diff_id: &Digest,
        blob: impl Read,
        compressed_bytes: u64,
    ) -> Result<LayerRecord, StoreError> {
        let root = staging.join("fs");
        fs::create_dir_all(&root).map_err(at(&root))?;
        // The root of a container whose layers do not say otherwise.
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).map_err(at(&root))?;
        let below = below.iter().rev().map(|chain| self.layer_path(chain).join("fs")).collect();
        let layer = Layer { compressed_bytes, diff_id, limits: self.inner.limits, below };
        let unpacked = unpack::unpack(blob, &root, staging, layer)
            .map_err(|error| StoreError::Layer { diff_id: diff_id.clone(), error })?;
        let record = LayerRecord {
            diff_id: diff_id.clone(),
            bytes: unpacked.bytes,
            entries: unpacked.entries,
            boot: self.inner.boot.clone(),
            synced: false,
        };
        let path = staging.join("layer.json");
        let text = serde_json::to_vec(&record).map_err(|error| at(&path)(error.into()))?;
        fs::write(&path, text).map_err(at(&path))?;
        Ok(record)
    }
}
