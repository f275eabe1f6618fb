//! Writes to an open data directory: batches are appended to the log, which is rotated and compacted now and then.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::backoff::Backoff;
use super::directory::Lock;
use super::error::explain_no_space;
use super::identity::Identity;
use super::log_end::LogEnd;
use super::manifest::Manifest;
use super::record;
use super::reserved_space::ReservedSpace;
use super::tail::{AppendError, Tail};
use crate::contract::{Change, Revision};
use crate::durable::DurableError;

/// The write buffer is kept between batches up to this size.
const KEPT_BUFFER: usize = 4 << 20;

pub(super) struct Writer {
    pub(super) dir: PathBuf,
    pub(super) lock: Option<Lock>,
    /// The segment that is written to.
    pub(super) tail: Tail,
    /// To be renewed with the first write: only a store that writes has something that a copy lacks.
    pub(super) stale_identity: Option<Identity>,
    /// Of the last record.
    pub(super) revision: Revision,
    /// Log bytes since the last snapshot was begun.
    pub(super) since_snapshot: u64,
    /// A compaction starts when that many are exceeded, and also the size of the last snapshot: so its cost stays
    /// proportional to what is written.
    pub(super) snapshot_log_bytes: u64,
    pub(super) buffer: Vec<u8>,
    /// A write failed: the file is in doubt, and the next start must not trust the page cache.
    pub(super) failed: bool,
    /// Why only removals are accepted for now: there is no disk space.
    pub(super) full: Option<String>,
    /// When the next batch may try whether there is again.
    pub(super) space_backoff: Backoff,
    pub(super) reserved: ReservedSpace,
    /// Something was removed since the disk was full: a compaction may free space.
    pub(super) removed: bool,
    /// When a rotation or a compaction that failed for lack of a resource may be retried.
    pub(super) snapshot_backoff: Backoff,
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) compaction: Option<JoinHandle<()>>,
    pub(super) cancelled: Arc<AtomicBool>,
}

/// Guarded by one mutex: what the writer and the compaction thread both change. Held while a manifest is written.
pub(super) struct Shared {
    pub(super) manifest: Manifest,
    pub(super) snapshot_bytes: u64,
    /// A compaction failed for lack of a resource and is to be retried.
    pub(super) retry: bool,
    /// A compaction failed for good.
    pub(super) failure: Option<String>,
}

impl Writer {
    pub(super) fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        let (failure, retry) = self.state();
        if let Some(why) = failure {
            return Err(DurableError::NotWritten(why));
        }
        let Some(last) = batch.last() else { return Ok(()) };
        if let Some(identity) = self.stale_identity.take_if(|_| self.snapshot_backoff.is_over())
            && let Err(error) = identity.renew(&self.dir)
        {
            if !error.is_retryable() {
                self.failed = true;
                return Err(DurableError::NotWritten(error.to_string()));
            }
            // The old one still holds: a copy would have been noticed when the store was opened.
            self.snapshot_backoff.failed();
            self.stale_identity = Some(identity);
        }
        match self.write(batch) {
            Ok(()) => {}
            Err(AppendError::NoSpace(error)) => return Err(DurableError::NoSpace(self.set_full(&error))),
            Err(AppendError::Failed(error)) => {
                self.failed = true;
                return Err(DurableError::Unknown(self.explain(&error)));
            }
        }
        self.revision = last.revision;
        match self.full {
            Some(_) => self.removed = true,
            None => self.space_backoff.succeeded(),
        }
        self.maintain(retry);
        Ok(())
    }

    pub(super) fn full(&mut self) -> Option<String> {
        let bytes = self.since_snapshot + self.shared.lock().snapshot_bytes;
        if (self.full.is_none() && self.reserved.is_settled(bytes)) || !self.space_backoff.is_over() {
            return self.full.clone();
        }
        if self.full.is_some() {
            if self.is_compacting() {
                return self.full.clone();
            }
            if self.removed {
                self.free_space();
                return self.full.clone();
            }
        }
        if let Err(error) = self.reserved.reserve(bytes) {
            return Some(self.set_full(&error));
        }
        // The next batch is the proof; if it fails, the next attempt comes later.
        if self.full.take().is_some() {
            tracing::info!(dir = %self.dir.display(), "disk space is available again: accepting all writes");
        }
        None
    }

    pub(super) fn close(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.finish_snapshot();
        if let Some(lock) = self.lock.take()
            && !self.failed
            && self.shared.lock().failure.is_none()
            && self.tail.trim().is_ok()
        {
            let segment = *self.shared.lock().manifest.segments.last().expect("never empty");
            lock.mark_closed(&LogEnd { segment, bytes: self.tail.end(), revision: self.revision });
        }
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), AppendError> {
        self.buffer.clear();
        record::encode_batch(&mut self.buffer, batch);
        let mut written = self.tail.append(&self.buffer);
        // While the disk is full only removals get here.
        if self.full.is_some() && matches!(written, Err(AppendError::NoSpace(_))) && self.reserved.release() {
            written = self.tail.append(&self.buffer);
        }
        written?;
        self.since_snapshot += self.buffer.len() as u64;
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Why nothing can be written any more, and whether a compaction is to be retried.
    fn state(&self) -> (Option<String>, bool) {
        let shared = self.shared.lock();
        (shared.failure.clone(), shared.retry)
    }

    fn set_full(&mut self, error: &io::Error) -> String {
        let why = explain_no_space(&self.dir, error);
        if self.full.is_none() {
            tracing::error!(reason = %why, "accepting deletions only");
        }
        self.space_backoff.failed();
        self.full = Some(why.clone());
        why
    }

    fn explain(&self, error: &io::Error) -> String {
        let path = self.tail.path.display();
        let fix = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            _ => "check the disk",
        };
        format!("cannot write {path}: {error}; {fix} and start again: everything acknowledged is kept")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
