//! What writes to a data directory that was opened: batches at the end of the log, and now and then a new segment and a snapshot.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::directory::Lock;
use super::end::End;
use super::manifest::Manifest;
use super::place::Place;
use super::record;
use super::reserve::Reserve;
use super::room::{self, Backoff};
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
    /// Until the first write: only a store that writes has something that a copy lacks.
    pub(super) unmarked: Option<Place>,
    /// Of the last record.
    pub(super) revision: Revision,
    /// Log bytes since the last snapshot was begun.
    pub(super) since_snapshot: u64,
    /// A snapshot is begun when that many are exceeded (and the size of the last snapshot, too: so the work
    /// of folding stays a constant share of the work of writing).
    pub(super) snapshot_log_bytes: u64,
    pub(super) buffer: Vec<u8>,
    /// A write failed: the file is in doubt, and the next start must not trust the page cache.
    pub(super) failed: bool,
    /// Why only removals are written for now: there is no room.
    pub(super) full: Option<String>,
    /// When the next batch may try whether there is.
    pub(super) room: Backoff,
    pub(super) reserve: Reserve,
    /// Something was removed since the disk was full: a snapshot may make room.
    pub(super) removed: bool,
    /// When what a new segment or a snapshot failed for (descriptors, room) may be there again.
    pub(super) again: Backoff,
    pub(super) shared: Arc<Mutex<Shared>>,
    pub(super) folding: Option<JoinHandle<()>>,
    pub(super) cancelled: Arc<AtomicBool>,
}

/// Guarded by one mutex: what the writer and the folding thread both change. Held while a manifest is written.
pub(super) struct Shared {
    pub(super) manifest: Manifest,
    pub(super) snapshot_bytes: u64,
    /// Folding failed for want of something that comes back.
    pub(super) unfinished: bool,
    /// Folding failed for good.
    pub(super) failure: Option<String>,
}

impl Writer {
    pub(super) fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        let (failure, unfinished) = self.state();
        if let Some(why) = failure {
            return Err(DurableError::NotWritten(why));
        }
        let Some(last) = batch.last() else { return Ok(()) };
        if let Some(place) = self.unmarked.take_if(|_| self.again.is_over())
            && let Err(error) = place.renew(&self.dir)
        {
            if !error.can_be_tried_again() {
                self.failed = true;
                return Err(DurableError::NotWritten(error.to_string()));
            }
            // The old one still holds, and who has just opened the store is no copy.
            self.again.failed();
            self.unmarked = Some(place);
        }
        match self.write(batch) {
            Ok(()) => {}
            Err(AppendError::NoRoom(error)) => return Err(DurableError::NoRoom(self.set_full(&error))),
            Err(AppendError::Failed(error)) => {
                self.failed = true;
                return Err(DurableError::Unknown(self.explain(&error)));
            }
        }
        self.revision = last.revision;
        match self.full {
            Some(_) => self.removed = true,
            None => self.room.succeeded(),
        }
        self.keep_up(unfinished);
        Ok(())
    }

    pub(super) fn full(&mut self) -> Option<String> {
        let bytes = self.since_snapshot + self.shared.lock().snapshot_bytes;
        if (self.full.is_none() && self.reserve.is_settled(bytes)) || !self.room.is_over() {
            return self.full.clone();
        }
        if self.full.is_some() {
            if self.is_folding() {
                return self.full.clone();
            }
            if self.removed {
                self.make_room();
                return self.full.clone();
            }
        }
        if let Err(error) = self.reserve.keep(bytes) {
            return Some(self.set_full(&error));
        }
        // The next batch is the proof; should it fail, the next try comes later.
        if self.full.take().is_some() {
            tracing::info!(dir = %self.dir.display(), "there is room again: everything is accepted");
        }
        None
    }

    pub(super) fn close(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.finish_snapshot();
        if let Some(lock) = self.lock.take()
            && !self.failed
            && self.shared.lock().failure.is_none()
            && self.tail.cut().is_ok()
        {
            let segment = *self.shared.lock().manifest.segments.last().expect("never empty");
            lock.mark_closed(&End { segment, bytes: self.tail.end(), revision: self.revision });
        }
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), AppendError> {
        self.buffer.clear();
        record::encode_batch(&mut self.buffer, batch);
        let mut written = self.tail.append(&self.buffer);
        // While the disk is full only removals come here.
        if self.full.is_some() && matches!(written, Err(AppendError::NoRoom(_))) && self.reserve.release() {
            written = self.tail.append(&self.buffer);
        }
        written?;
        self.since_snapshot += self.buffer.len() as u64;
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Why nothing can be written any more, and whether a snapshot is to be made up for.
    fn state(&self) -> (Option<String>, bool) {
        let shared = self.shared.lock();
        (shared.failure.clone(), shared.unfinished)
    }

    /// There is no room, for whatever came with this error.
    fn set_full(&mut self, error: &io::Error) -> String {
        let why = room::explain(&self.dir, error);
        if self.full.is_none() {
            tracing::error!(reason = %why, "only deletions are accepted for now");
        }
        self.room.failed();
        self.full = Some(why.clone());
        why
    }

    fn explain(&self, error: &io::Error) -> String {
        let path = self.tail.path.display();
        let mend = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            _ => "check the disk",
        };
        format!("writing {path} failed: {error}; {mend} and start again: all that was acknowledged is kept")
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}
