//! Blobs: written beside, checked, synced, and only then given their name.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use super::{Store, StoreError, at};
use crate::digest::{Digest, Hasher};
use crate::manifest::{Descriptor, MAX_DOCUMENT};

/// A blob on its way in. Gone if dropped before [`BlobWriter::finish`].
pub(crate) struct BlobWriter {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    hasher: Hasher,
    written: u64,
    digest: Digest,
    size: u64,
}

impl Store {
    pub(crate) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.inner.root.join("blobs").join(digest.algorithm()).join(digest.hex())
    }

    pub(crate) fn has_blob(&self, digest: &Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    pub(crate) fn open_blob(&self, digest: &Digest) -> Result<File, StoreError> {
        let path = self.blob_path(digest);
        File::open(&path).map_err(at(&path))
    }

    /// A manifest or a config, checked again: it decides what is run.
    pub(crate) fn read_blob(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob_path(digest);
        let mut content = Vec::new();
        let file = self.open_blob(digest)?;
        file.take(MAX_DOCUMENT + 1).read_to_end(&mut content).map_err(at(&path))?;
        if digest.matches(&content) { Ok(content) } else { Err(StoreError::Digest(digest.clone())) }
    }

    pub(crate) fn put_blob(&self, content: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(content);
        if !self.has_blob(&digest) {
            let size = content.len() as u64;
            let mut writer = self.write_blob(&digest, size)?;
            writer.write(content)?;
            writer.finish()?;
        }
        Ok(digest)
    }

    pub(crate) fn write_descriptor(&self, descriptor: &Descriptor) -> Result<BlobWriter, StoreError> {
        self.write_blob(&descriptor.digest, descriptor.size)
    }

    fn write_blob(&self, digest: &Digest, size: u64) -> Result<BlobWriter, StoreError> {
        let (temporary, path) = (self.temporary(), self.blob_path(digest));
        if let Some(folder) = path.parent() {
            // Algorithms other than the usual one have no folder yet.
            fs::create_dir_all(folder).map_err(at(folder))?;
        }
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(at(&temporary))?;
        Ok(BlobWriter {
            file,
            temporary,
            path,
            hasher: digest.hasher(),
            written: 0,
            digest: digest.clone(),
            size,
        })
    }

    pub(crate) fn remove_blob(&self, digest: &Digest) -> Result<u64, StoreError> {
        let path = self.blob_path(digest);
        let size = fs::metadata(&path).map_or(0, |meta| meta.len());
        match fs::remove_file(&path) {
            Ok(()) => Ok(size),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(at(&path)(error)),
        }
    }
}

impl BlobWriter {
    /// Never more than the size that was announced.
    pub fn write(&mut self, content: &[u8]) -> Result<(), StoreError> {
        self.written = self.written.saturating_add(content.len() as u64);
        if self.written > self.size {
            return Err(StoreError::Size { digest: self.digest.clone(), size: self.size });
        }
        self.hasher.update(content);
        self.file.write_all(content).map_err(at(&self.temporary))
    }

    pub fn finish(mut self) -> Result<(), StoreError> {
        if self.written != self.size {
            return Err(StoreError::Size { digest: self.digest.clone(), size: self.size });
        }
        if std::mem::replace(&mut self.hasher, Hasher::sha256()).finish() != self.digest {
            return Err(StoreError::Digest(self.digest.clone()));
        }
        self.file.sync_all().map_err(at(&self.temporary))?;
        fs::rename(&self.temporary, &self.path).map_err(at(&self.path))?;
        env::file::sync_folder_of(&self.path).map_err(at(&self.path))
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        // Under its own name it is not there any more; what cannot be removed goes when the store is next opened.
        let _ = fs::remove_file(&self.temporary);
    }
}
