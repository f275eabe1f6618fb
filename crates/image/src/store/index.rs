//! The index: which images there are.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::access::PulledBy;
use crate::config::Config;
use crate::digest::Digest;

/// An image of the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// The digest of its config, as CRI's runtimes do it: the same wherever it was pulled from.
    pub id: Digest,
    /// Names with a tag, normalised.
    pub names: BTreeSet<String>,
    /// Repositories with the digest it had there.
    pub digests: BTreeSet<String>,
    pub manifests: BTreeSet<Digest>,
    pub config: Config,
    /// Chain ids, the lowest layer first.
    pub layers: Vec<Digest>,
    /// As transferred; what a Node's status reports.
    pub content_bytes: u64,
    /// Unpacked, with layers that other images share.
    pub disk_bytes: u64,
    /// By repository, who has shown that they may have it. Nothing if it was not pulled here but imported: then everybody may.
    pub pulled: Option<BTreeMap<String, PulledBy>>,
    pub added_seconds: u64,
    pub last_used_seconds: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Index {
    pub images: BTreeMap<Digest, Image>,
}

impl Index {
    pub fn find_id(&self, name: &str) -> Option<Digest> {
        self.named(name).map(|image| image.id.clone())
    }

    /// By id, tag, or repository and digest. Nodes have hundreds of images, not millions: no second map to keep in step.
    pub fn named(&self, name: &str) -> Option<&Image> {
        if let Some(image) = name.parse().ok().and_then(|id: Digest| self.images.get(&id)) {
            return Some(image);
        }
        self.images.values().find(|image| image.names.contains(name) || image.digests.contains(name))
    }

    /// A tag means one image: the last one it was pulled as.
    pub fn take_name(&mut self, name: &str) {
        for image in self.images.values_mut() {
            image.names.remove(name);
        }
    }

    /// Later uses than those on disk are known in memory.
    pub fn keep_uses(&mut self, known: &Index) {
        for (id, image) in &mut self.images {
            if let Some(known) = known.images.get(id) {
                image.last_used_seconds = image.last_used_seconds.max(known.last_used_seconds);
            }
        }
    }
}
