//! Folding the closed part of the log into a new snapshot, on a thread of its own.
//!
//! ```text
//!  snapshot-100 ─┐
//!  log-101 ──────┼── merge by key ──> snapshot-900 ── manifest ── the three old files are deleted
//!  log-500 ──────┘
//!  log-901   (commits go on here meanwhile; nobody waits)
//! ```
//!
//! It reads files, not the state: no commit is held up by a scan, no second copy of the values is made in
//! memory, and every old byte is checked once more on the way. In memory it holds, for each key in the closed
//! segments, only where its newest value stands.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::manifest::Manifest;
use super::merge::{Location, Newest, Values, merge};
use super::out::Out;
use super::read::{SegmentReader, explain};
use super::writer::Shared;
use super::{OpenError, directory, record};
use crate::contract::{Key, Revision};

pub(super) struct Fold {
    pub dir: PathBuf,
    pub old: Option<Revision>,
    /// Closed segments, in order; together with `old` they are the whole store as of `target`.
    pub segments: Vec<Revision>,
    pub target: Revision,
    pub cancelled: Arc<AtomicBool>,
    pub shared: Arc<Mutex<Shared>>,
}

enum FoldError {
    Cancelled,
    Open(OpenError),
}

impl From<OpenError> for FoldError {
    fn from(error: OpenError) -> Self {
        FoldError::Open(error)
    }
}

impl Fold {
    /// Leaves the outcome in `shared`: the new manifest, or a failure that stops the store.
    pub(super) fn run(self) {
        match self.fold() {
            Ok(entries) => tracing::info!(revision = self.target.0, entries, "snapshot written"),
            Err(FoldError::Cancelled) => {}
            // The log has room left, so the store goes on; the next attempt comes when the log has grown again.
            Err(FoldError::Open(error @ (OpenError::Full { .. } | OpenError::ReadOnly { .. }))) => {
                tracing::error!(%error, "no snapshot could be written");
            }
            Err(FoldError::Open(error)) if error.can_be_tried_again() => {
                tracing::warn!(%error, "no snapshot could be written for now");
                self.shared.lock().unfinished = true;
            }
            Err(FoldError::Open(error)) => {
                let why = format!("a snapshot could not be written: {error}");
                self.shared.lock().failure.get_or_insert(why);
            }
        }
    }

    fn fold(&self) -> Result<u64, FoldError> {
        let newest = self.newest()?;
        let path = directory::snapshot(&self.dir, self.target);
        let mut out = Out::create(&path).map_err(|e| OpenError::io(&path, e))?;
        record::encode_start(&mut out.buffer, record::SNAPSHOT_MAGIC, self.target);
        let mut values = Values::open(&self.dir, &self.segments)?;
        merge(&self.dir, self.old, &mut values, newest, |entry| {
            self.check_cancelled()?;
            out.put(entry).map_err(FoldError::Open)
        })?;
        let count = out.count;
        let bytes = out.finish()?;
        self.adopt(bytes)?;
        Ok(count)
    }

    /// First pass: where the newest value of each key in the closed segments stands.
    fn newest(&self) -> Result<Newest, FoldError> {
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

    /// From now on the new snapshot counts; what it replaces is deleted.
    fn adopt(&self, bytes: u64) -> Result<(), FoldError> {
        {
            let mut shared = self.shared.lock();
            let mut manifest = shared.manifest.clone();
            manifest.snapshot = Some(self.target);
            manifest.segments.retain(|first| *first > self.target);
            if let Err(error) = manifest.write(&self.dir) {
                let unchanged = Manifest::read(&self.dir).ok().as_ref() == Some(&shared.manifest);
                return Err(FoldError::Open(match OpenError::io(&self.dir, error) {
                    error if unchanged || !error.can_be_tried_again() => error,
                    // The new one stands there, and may be gone after a crash.
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
                tracing::warn!(path = %path.display(), %error, "an old file could not be deleted");
            }
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), FoldError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(FoldError::Cancelled) } else { Ok(()) }
    }
}
