//! Images on disk, by content.
//!
//! ```text
//! ROOT/blobs/sha256/HEX        manifests and configs; layers only until they are unpacked
//!      layers/HEX/fs           an unpacked layer, by chain id: itself and all below it
//!      layers/HEX/layer.json   written before the layer gets its name: one without is none
//!      index.json              the images: names, config, layers, by whose credentials they were pulled
//!      tmp/                    what is being made or removed
//! ```
//! Things are made in `tmp` and renamed, so that whatever has its name is whole. Blobs and the index are synced before; layers
//! afterwards, and until then they are only believed in the boot that made them. Images enter the index
//! last and leave it first. Several processes may use one store: the index is read and written under a lock, and an image is
//! only entered if all its layers are there then.
//!
//! All calls touch the disk: they belong on a thread that may block.

mod access;
mod blob;
mod index;
mod layer;
mod prune;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Env;
use parking_lot::Mutex;
use rustix::fs::FlockOperation;

use crate::config::ConfigBlob;
use crate::digest::{Digest, DigestError};
use crate::manifest::ManifestError;
use crate::reference::{Reference, ReferenceError};
use crate::unpack::{Limits, UnpackError, open_directory, remove_tree};

pub use access::{PulledBy, PulledSecret, Verification};
pub use index::Image;
pub(crate) use layer::chain_ids;
pub use layer::{LayerRecord, chain_id};
pub use prune::Pruned;

use index::Index;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{path}: {error}")]
    File { path: String, error: io::Error },
    #[error("failed to extract layer {diff_id}: {error}")]
    Layer { diff_id: Digest, error: UnpackError },
    #[error("content of {0} does not match its digest")]
    Digest(Digest),
    #[error("content of {digest} is not the {size} bytes it should be")]
    Size { digest: Digest, size: u64 },
    #[error("the image's config cannot be read: {0}")]
    Config(String),
    #[error("the image has {layers} layers and its config {diff_ids}")]
    Layers { layers: usize, diff_ids: usize },
    #[error("layer {0} is missing")]
    Missing(Digest),
    #[error("image {0} is not found")]
    NotFound(String),
    #[error("image {0} is used by a container")]
    InUse(Digest),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    #[error(transparent)]
    Algorithm(#[from] DigestError),
    #[error("{0}")]
    Archive(String),
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> StoreError + '_ {
    move |error| StoreError::File { path: path.display().to_string(), error }
}

/// The images of one node. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    env: Env,
    limits: Limits,
    /// Which boot of the machine this is.
    boot: String,
    /// Guards the index as it was read last; held while it is read again or changed.
    index: Mutex<Loaded>,
    /// Locked, shared, as long as the store is open: who gets it alone may clean up.
    users: File,
}

#[derive(Default)]
struct Loaded {
    index: Index,
    /// The file it was read from.
    stamp: Option<Stamp>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    modified: (i64, i64),
    size: u64,
}

impl Store {
    /// Opens a store, or makes an empty one. Who opens it alone also removes what crashes left behind.
    pub fn open(root: &Path, env: &Env, limits: Limits) -> Result<Store, StoreError> {
        for folder in ["", "blobs", "blobs/sha256", "layers", "tmp"] {
            let path = root.join(folder);
            let made = std::os::unix::fs::DirBuilderExt::mode(&mut fs::DirBuilder::new(), 0o700)
                .recursive(true)
                .create(&path);
            made.map_err(at(&path))?;
        }
        let path = root.join("users.lock");
        let users = lock_file(&path)?;
        let alone = rustix::fs::flock(&users, FlockOperation::NonBlockingLockExclusive).is_ok();
        let inner = Inner {
            root: root.to_owned(),
            env: env.clone(),
            limits,
            boot: boot(),
            index: Mutex::default(),
            users,
        };
        let store = Store { inner: Arc::new(inner) };
        if alone {
            store.repair()?;
        }
        rustix::fs::flock(&store.inner.users, FlockOperation::LockShared)
            .map_err(|error| at(&path)(error.into()))?;
        store.read(|_| ())?;
        Ok(store)
    }

    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// All images, by id.
    pub fn list(&self) -> Result<Vec<Image>, StoreError> {
        self.read(|index| index.images.values().cloned().collect())
    }

    /// The image that a name means: by its digest if it has one, else by its tag.
    pub fn find(&self, reference: &Reference) -> Result<Option<Image>, StoreError> {
        let name = reference.pulled().to_string();
        self.read(|index| index.named(&name).cloned())
    }

    pub fn get(&self, id: &Digest) -> Result<Option<Image>, StoreError> {
        self.read(|index| index.images.get(id).cloned())
    }

    /// The directories to stack, the topmost first, as overlayfs' `lowerdir` wants them.
    pub fn layers(&self, image: &Image) -> Vec<PathBuf> {
        image.layers.iter().rev().map(|chain| self.layer_path(chain).join("fs")).collect()
    }

    /// A container was made of it just now.
    pub fn touch(&self, id: &Digest) {
        let now = self.inner.env.now_seconds();
        // In memory: it is written with the next change, as losing it costs a pull at worst.
        if let Some(image) = self.inner.index.lock().index.images.get_mut(id) {
            image.last_used_seconds = now;
        }
    }

    /// Takes a name away from an image, and with its last name the image too. `name` is a tag, a repository with a digest, or an id.
    pub fn remove(&self, name: &str, in_use: &BTreeSet<Digest>) -> Result<Pruned, StoreError> {
        let name = match name.parse::<Digest>() {
            Ok(_) => name.to_owned(),
            Err(_) => Reference::parse(name)?.pulled().to_string(),
        };
        let (mut pruned, mut removed) = (Pruned::default(), None);
        self.write(|index| {
            let Some(id) = index.find_id(&name) else { return Err(StoreError::NotFound(name.clone())) };
            let Some(image) = index.images.get_mut(&id) else { return Ok(()) };
            let last = id.as_str() == name || !image.names.iter().any(|other| *other != name);
            if !last {
                image.names.remove(&name);
                return Ok(());
            }
            if in_use.contains(&id) {
                return Err(StoreError::InUse(id));
            }
            removed = index.images.remove(&id);
            Ok(())
        })?;
        if let Some(image) = removed {
            self.release(&image, &mut pruned)?;
            pruned.images.push(image.id);
        }
        Ok(pruned)
    }

    /// Enters an image whose config and layers are there; returns it as it is now, with what was known of it before.
    pub(crate) fn enter(&self, new: NewImage<'_>) -> Result<Image, StoreError> {
        let blob = parse_config(new.config_blob)?;
        let id = Digest::of(new.config_blob);
        let now = self.inner.env.now_seconds();
        let (layers, disk_bytes) = self.check_layers(&blob.rootfs.diff_ids)?;
        self.put_blob(new.config_blob)?;
        let mut entered = None;
        self.write(|index| {
            // Another process may have pruned them since.
            for chain in &layers {
                if !self.has_layer(chain) {
                    return Err(StoreError::Missing(chain.clone()));
                }
            }
            for name in new.names {
                index.take_name(&name.to_string());
            }
            let image = index.images.entry(id.clone()).or_insert_with(|| Image {
                id: id.clone(),
                names: BTreeSet::new(),
                digests: BTreeSet::new(),
                manifests: BTreeSet::new(),
                config: blob.config.clone(),
                layers: layers.clone(),
                content_bytes: new.content_bytes,
                disk_bytes,
                pulled: None,
                added_seconds: now,
                last_used_seconds: now,
            });
            for name in new.names {
                let set = if name.digest().is_some() { &mut image.digests } else { &mut image.names };
                set.insert(name.to_string());
            }
            image.manifests.extend(new.manifest.cloned());
            if let Some((repository, by)) = &new.pulled_by {
                access::record(image, repository, by);
            }
            image.last_used_seconds = now;
            entered = Some(image.clone());
            Ok(())
        })?;
        entered.ok_or_else(|| StoreError::NotFound(id.to_string()))
    }

    /// Runs on the index as it is on disk now.
    fn read<T>(&self, run: impl FnOnce(&Index) -> T) -> Result<T, StoreError> {
        let mut loaded = self.inner.index.lock();
        self.reload(&mut loaded)?;
        Ok(run(&loaded.index))
    }

    /// Changes the index on disk, under the lock of all processes. Nothing changes on an error.
    fn write(&self, run: impl FnOnce(&mut Index) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let path = self.inner.root.join("index.lock");
        let lock = lock_file(&path)?;
        let mut loaded = self.inner.index.lock();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).map_err(|error| at(&path)(error.into()))?;
        self.reload(&mut loaded)?;
        let mut index = loaded.index.clone();
        run(&mut index)?;
        let path = self.index_path();
        let text = serde_json::to_vec(&index).map_err(|error| at(&path)(error.into()))?;
        env::file::replace(&path, &text, 0o600).map_err(at(&path))?;
        *loaded = Loaded { index, stamp: stamp(&path)? };
        Ok(())
    }

    fn reload(&self, loaded: &mut Loaded) -> Result<(), StoreError> {
        let path = self.index_path();
        let stamp = stamp(&path)?;
        if stamp == loaded.stamp {
            return Ok(());
        }
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(at(&path)(error)),
        };
        let index = if text.is_empty() { Ok(Index::default()) } else { serde_json::from_slice(&text) };
        let mut index = index.map_err(|error| at(&path)(error.into()))?;
        index.keep_uses(&loaded.index);
        *loaded = Loaded { index, stamp };
        Ok(())
    }

    fn index_path(&self) -> PathBuf {
        self.inner.root.join("index.json")
    }

    /// A new name in `tmp`.
    fn temporary(&self) -> PathBuf {
        self.inner.root.join("tmp").join(self.inner.env.uuid())
    }

    /// A file without a name, for what is gone when it is closed.
    pub(crate) fn scratch(&self) -> Result<File, StoreError> {
        let path = self.temporary();
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path).map_err(at(&path))?;
        fs::remove_file(&path).map_err(at(&path))?;
        Ok(file)
    }

    pub(crate) fn limits(&self) -> Limits {
        self.inner.limits
    }

    /// Removes a file or directory of the store, at once as far as its name goes.
    fn discard(&self, path: &Path) -> Result<(), StoreError> {
        let temporary = self.temporary();
        match fs::rename(path, &temporary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(at(path))?,
        }
        self.empty(&temporary)
    }

    /// Removes something in `tmp`.
    fn empty(&self, path: &Path) -> Result<(), StoreError> {
        use std::os::fd::AsFd;
        let Some(name) = path.file_name() else { return Ok(()) };
        let folder = open_directory(&self.inner.root.join("tmp")).map_err(at(path))?;
        remove_tree(folder.as_fd(), name.as_encoded_bytes(), folder.as_fd()).map_err(at(path))
    }
}

/// What a pull or an import found.
pub(crate) struct NewImage<'a> {
    pub config_blob: &'a [u8],
    pub manifest: Option<&'a Digest>,
    pub names: &'a [Reference],
    pub content_bytes: u64,
    /// The repository it was pulled from, and by whose credentials.
    pub pulled_by: Option<(String, PulledBy)>,
}

pub(crate) fn parse_config(blob: &[u8]) -> Result<ConfigBlob, StoreError> {
    serde_json::from_slice(blob).map_err(|error| StoreError::Config(error.to_string()))
}

/// Empty where the kernel does not say: then no two boots are told apart.
fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

fn lock_file(path: &Path) -> Result<File, StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(at(path))
}

fn stamp(path: &Path) -> Result<Option<Stamp>, StoreError> {
    use std::os::unix::fs::MetadataExt;
    match fs::metadata(path) {
        Ok(meta) => {
            let modified = (meta.mtime(), meta.mtime_nsec());
            Ok(Some(Stamp { inode: meta.ino(), modified, size: meta.size() }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(at(path)(error)),
    }
}

#[cfg(test)]
mod tests;
