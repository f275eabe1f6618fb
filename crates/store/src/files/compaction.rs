//! Compaction: the closed part of the log is merged into a new snapshot, on a thread of its own.
//!
//! ```text
//!  snapshot-100 ─┐
//!  log-101 ──────┼── merge by key ──> snapshot-900 ── manifest ── the three old files are deleted
//!  log-500 ──────┘
//!  log-901   (commits go here meanwhile; nobody waits)
//! ```
//!
//! It reads files, not the state: no commit waits for a scan, values are not copied in memory, and every old byte is
//! verified once more on the way. Of each key in the closed segments it holds only the location of its newest value.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::manifest::Manifest;
use super::merge::{Location, Newest, Values, merge};
use super::read::{SegmentReader, explain};
use super::snapshot_writer::SnapshotWriter;
use super::writer::Shared;
use super::{OpenError, directory, record};
use crate::contract::{Key, Revision};

pub(super) struct Compaction {
    pub dir: PathBuf,
    pub old: Option<Revision>,
    /// Closed segments, in order; together with `old` they are the whole store as of `target`.
    pub segments: Vec<Revision>,
    pub target: Revision,
    pub cancelled: Arc<AtomicBool>,
    pub shared: Arc<Mutex<Shared>>,
}

enum CompactionError {
    Cancelled,
    Open(OpenError),
}

impl From<OpenError> for CompactionError {
    fn from(error: OpenError) -> Self {
        CompactionError::Open(error)
    }
}

impl Compaction {
    /// Leaves the outcome in `shared`: the new manifest, or a failure that stops the store.
    pub(super) fn run(self) {
        match self.compact() {
            Ok(entries) => tracing::info!(revision = self.target.0, entries, "snapshot written"),
            Err(CompactionError::Cancelled) => {}
            // The log can still grow, so the store keeps working; the next attempt comes when it has grown again.
            Err(CompactionError::Open(error @ (OpenError::Full { .. } | OpenError::ReadOnly { .. }))) => {
                tracing::error!(%error, "cannot write a snapshot");
            }
            Err(CompactionError::Open(error)) if error.is_retryable() => {
                tracing::warn!(%error, "cannot write a snapshot; will retry");
                self.shared.lock().retry = true;
            }
            Err(CompactionError::Open(error)) => {
                let why = format!("cannot write a snapshot: {error}");
                self.shared.lock().failure.get_or_insert(why);
            }
        }
    }

    fn compact(&self) -> Result<u64, CompactionError> {
        let newest = self.newest()?;
        let path = directory::snapshot(&self.dir, self.target);
        let mut out = SnapshotWriter::create(&path).map_err(|e| OpenError::io(&path, e))?;
        record::encode_start(&mut out.buffer, record::SNAPSHOT_MAGIC, self.target);
        let mut values = Values::open(&self.dir, &self.segments)?;
        merge(&self.dir, self.old, &mut values, newest, |entry| {
            self.check_cancelled()?;
            out.put(entry).map_err(CompactionError::Open)
        })?;
        let count = out.count;
        let bytes = out.finish()?;
        self.install(bytes)?;
        Ok(count)
    }

    /// First pass: the location of the newest value of each key in the closed segments.
    fn newest(&self) -> Result<Newest, CompactionError> {
        let mut newest = Newest::new();
        let mut reached = None;
        for (segment, first) in self.segments.iter().enumerate() {
            let mut reader = SegmentReader::open(directory::segment(&self.dir, *first), *first)?;
            loop {
                self.check_cancelled()?;
                let more = reader.next(|revision, change, start, payload| {
                    let location = Location::of(change, revision, segment, start, payload);
                    newest.insert(Key::from(change.key), location);
                });
                if !more.map_err(|fault| explain(&reader.path, fault))? {
                    break;
                }
            }
            reached = Some((reader.revision, reader.path));
        }
        match reached {
            Some((revision, path)) if revision != self.target => {
                let what = format!("it ends with revision {revision} instead of {}", self.target);
                Err(OpenError::damaged(&path, 0, what).into())
            }
            _ => Ok(newest),
        }
    }

    /// Puts the new snapshot into the manifest and deletes what it replaces.
    fn install(&self, bytes: u64) -> Result<(), CompactionError> {
        {
            let mut shared = self.shared.lock();
            let mut manifest = shared.manifest.clone();
            manifest.snapshot = Some(self.target);
            manifest.segments.retain(|first| *first > self.target);
            if let Err(error) = manifest.write(&self.dir) {
                let unchanged = Manifest::read(&self.dir).ok().as_ref() == Some(&shared.manifest);
                return Err(CompactionError::Open(match OpenError::io(&self.dir, error) {
                    error if unchanged || !error.is_retryable() => error,
                    // The new manifest is in place, and may be gone after a crash.
                    error => OpenError::Io {
                        path: self.dir.clone(),
                        source: std::io::Error::other(error.to_string()),
                    },
                }));
            }
            shared.manifest = manifest;
            shared.snapshot_bytes = bytes;
        }
        // A file that cannot be deleted now is deleted at the next start.
        let old = self.old.map(|old| directory::snapshot(&self.dir, old));
        for path in self.segments.iter().map(|first| directory::segment(&self.dir, *first)).chain(old) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "cannot delete an old file");
            }
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), CompactionError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(CompactionError::Cancelled) } else { Ok(()) }
    }
}
