//! Makes room: unused images first, then what no image needs any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::index::Index;
use super::{Image, Store, StoreError, at};
use crate::digest::Digest;

/// What no image needs may belong to a pull that is under way. After so long it does not.
const ORPHAN_AGE: Duration = Duration::from_secs(3600);

/// What a removal did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub images: Vec<Digest>,
    /// Bytes of layers and blobs that are gone.
    pub freed_bytes: u64,
}

impl Store {
    /// Removes images no container uses, the longest unused first, until `bytes` are free; younger ones than `min_age` stay.
    pub fn prune(
        &self,
        bytes: u64,
        min_age: Duration,
        in_use: &BTreeSet<Digest>,
    ) -> Result<Pruned, StoreError> {
        let now = self.inner.env.now_seconds();
        let mut pruned = Pruned::default();
        self.sweep(&mut pruned, true)?;
        let mut unused = self.list()?;
        unused.retain(|image| !in_use.contains(&image.id));
        unused.retain(|image| image.added_seconds.saturating_add(min_age.as_secs()) <= now);
        unused.sort_by_key(|image| (image.last_used_seconds, image.added_seconds));
        for image in unused {
            if pruned.freed_bytes >= bytes {
                break;
            }
            self.write(|index| {
                index.images.remove(&image.id);
                Ok(())
            })?;
            self.release(&image, &mut pruned)?;
            pruned.images.push(image.id);
        }
        Ok(pruned)
    }

    /// What images take on disk, layers that are shared counted once.
    pub fn used_bytes(&self) -> Result<u64, StoreError> {
        let layers = self.read(|index| needed(index).1)?;
        Ok(layers.iter().filter_map(|chain| self.layer_record(chain)).map(|record| record.bytes).sum())
    }

    /// Removes what only this image, which is out of the index, needed.
    pub(super) fn release(&self, image: &Image, pruned: &mut Pruned) -> Result<(), StoreError> {
        let (blobs, layers) = self.read(needed)?;
        for chain in image.layers.iter().filter(|chain| !layers.contains(*chain)) {
            let bytes = self.layer_record(chain).map_or(0, |record| record.bytes);
            self.discard(&self.layer_path(chain))?;
            pruned.freed_bytes = pruned.freed_bytes.saturating_add(bytes);
        }
        for blob in [&image.id].into_iter().chain(&image.manifests).filter(|blob| !blobs.contains(*blob)) {
            pruned.freed_bytes = pruned.freed_bytes.saturating_add(self.remove_blob(blob)?);
        }
        Ok(())
    }

    /// Removes what no image needs: what failed pulls left.
    fn sweep(&self, pruned: &mut Pruned, only_old: bool) -> Result<(), StoreError> {
        let (blobs, layers) = self.read(needed)?;
        let is_old = |path: &Path| !only_old || self.is_older(path, ORPHAN_AGE);
        let layers: BTreeSet<_> = layers.iter().map(|chain| self.layer_path(chain)).collect();
        let folder = self.inner.root.join("layers");
        for path in paths(&folder)?.into_iter().filter(|path| !layers.contains(path) && is_old(path)) {
            let bytes = fs::read(path.join("layer.json")).ok();
            let record = bytes.and_then(|text| serde_json::from_slice::<super::LayerRecord>(&text).ok());
            self.discard(&path)?;
            pruned.freed_bytes = pruned.freed_bytes.saturating_add(record.map_or(0, |record| record.bytes));
        }
        for folder in paths(&self.inner.root.join("blobs"))? {
            let algorithm = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            for path in paths(&folder)?.into_iter().filter(|path| is_old(path)) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let digest = format!("{algorithm}:{name}").parse::<Digest>();
                if digest.is_ok_and(|digest| blobs.contains(&digest)) {
                    continue;
                }
                let bytes = fs::metadata(&path).map_or(0, |meta| meta.len());
                self.discard(&path)?;
                pruned.freed_bytes = pruned.freed_bytes.saturating_add(bytes);
            }
        }
        Ok(())
    }

    /// Puts in order what a crash left: `tmp` is emptied, images that lack something leave the index (they are pulled again), and
    /// what then belongs to no image goes. Only for who is alone with the store.
    pub(super) fn repair(&self) -> Result<(), StoreError> {
        for path in paths(&self.inner.root.join("tmp"))? {
            self.empty(&path)?;
        }
        let path = self.index_path();
        if let Err(error) = self.read(|_| ()) {
            // Replaced atomically, so it was damaged by something else. Images can be pulled again.
            let kept = self.inner.root.join("index.json.damaged");
            tracing::error!(%error, kept = %kept.display(), "the index of images is damaged: starting with an empty one");
            fs::rename(&path, &kept).map_err(at(&path))?;
        }
        let broken = |image: &Image| {
            !self.has_blob(&image.id) || image.layers.iter().any(|chain| !self.has_layer(chain))
        };
        let lost: Vec<Digest> =
            self.list()?.into_iter().filter(|image| broken(image)).map(|image| image.id).collect();
        if !lost.is_empty() {
            tracing::warn!(images = ?lost, "images with missing parts are removed");
            self.write(|index| {
                index.images.retain(|id, _| !lost.contains(id));
                Ok(())
            })?;
        }
        self.sweep(&mut Pruned::default(), false)
    }

    fn is_older(&self, path: &Path, age: Duration) -> bool {
        let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified()).ok();
        let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        since
            .is_some_and(|since| since.as_secs().saturating_add(age.as_secs()) < self.inner.env.now_seconds())
    }
}

/// Blobs and layers of all images.
pub(super) fn needed(index: &Index) -> (BTreeSet<Digest>, BTreeSet<Digest>) {
    let images = index.images.values();
    let blobs = images.clone().flat_map(|image| [&image.id].into_iter().chain(&image.manifests)).cloned();
    (blobs.collect(), images.flat_map(|image| image.layers.iter().cloned()).collect())
}

fn paths(folder: &Path) -> Result<Vec<std::path::PathBuf>, StoreError> {
    let entries = fs::read_dir(folder).map_err(at(folder))?;
    let mut paths: Vec<_> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>().map_err(at(folder))?;
    paths.sort();
    Ok(paths)
}
