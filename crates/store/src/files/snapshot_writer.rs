//! Writes a snapshot (or a backup) to a temporary file, which is renamed when it is complete and durable.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use env::file::New;

use super::record::{self, EntryRef};
use super::{OpenError, directory};

/// The unit of writing.
const CHUNK: usize = 1 << 20;
/// Synced each time this much was written, so that the log's fsync never waits for hundreds of megabytes of ours.
const SYNC_EVERY: usize = 4 << 20;

pub(super) struct SnapshotWriter {
    new: New,
    path: PathBuf,
    /// What is encoded here is written with the next chunk.
    pub buffer: Vec<u8>,
    unsynced: usize,
    bytes: u64,
    /// Entries so far.
    pub count: u64,
}

impl SnapshotWriter {
    pub(super) fn create(path: &Path) -> io::Result<SnapshotWriter> {
        let new = directory::beside(path)?;
        let buffer = Vec::with_capacity(CHUNK + (64 << 10));
        Ok(SnapshotWriter { new, path: path.to_owned(), buffer, unsynced: 0, bytes: 0, count: 0 })
    }

    pub(super) fn put(&mut self, entry: &EntryRef<'_>) -> Result<(), OpenError> {
        record::encode_entry(&mut self.buffer, entry);
        self.count += 1;
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        let written = self.new.file().write_all(&self.buffer).and_then(|()| {
            self.unsynced += self.buffer.len();
            if self.unsynced < SYNC_EVERY {
                return Ok(());
            }
            self.unsynced = 0;
            self.new.file().sync_data()
        });
        written.map_err(|e| OpenError::io(self.new.temporary(), e))?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the file's size.
    pub(super) fn finish(mut self) -> Result<u64, OpenError> {
        record::encode_last(&mut self.buffer, self.count);
        self.flush()?;
        self.new.replace().map_err(|e| OpenError::io(&self.path, e))?;
        Ok(self.bytes)
    }
}
