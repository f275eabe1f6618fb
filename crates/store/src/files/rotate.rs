//! Log rotation: new segments, and compaction of the old ones into a snapshot. No batch waits for it, and what fails for lack of a
//! resource is retried later: until then commits go to the old segment.

use std::io;
use std::path::Path;

use super::error::{is_no_space, is_transient};
use super::manifest::Manifest;
use super::tail::Tail;
use super::writer::Writer;
use super::{compaction, create_segment};
use crate::contract::Revision;

impl Writer {
    pub(super) fn is_compacting(&self) -> bool {
        self.compaction.as_ref().is_some_and(|compaction| !compaction.is_finished())
    }

    /// Rotates and compacts when it is time to. Called after a batch, which is durable already.
    pub(super) fn maintain(&mut self, retry: bool) {
        let due = self.since_snapshot > self.snapshot_log_bytes;
        if !(due || retry) || self.is_compacting() || !self.snapshot_backoff.is_over() {
            return;
        }
        let done = match retry {
            true => self.compact(),
            false if self.since_snapshot > self.shared.lock().snapshot_bytes => self.begin_snapshot(),
            false => return,
        };
        self.handle(done);
    }

    /// Commits continue in the old segment, whatever kept a new one from being created, unless the state of the disk is unknown.
    fn handle(&mut self, done: Result<(), RotateError>) {
        match done {
            Ok(()) => self.snapshot_backoff.succeeded(),
            Err(RotateError::Retry(error)) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot create a log segment or snapshot; will retry");
                self.snapshot_backoff.failed();
            }
            Err(RotateError::Failed(error)) => {
                // The batch before is durable and acknowledged; the next one is rejected.
                let why = format!("cannot create a log segment in {}: {error}", self.dir.display());
                self.shared.lock().failure.get_or_insert(why);
            }
        }
    }

    /// Switches to a new segment, and compacts everything before it into a snapshot in the background.
    pub(super) fn begin_snapshot(&mut self) -> Result<(), RotateError> {
        self.rotate()?;
        self.compact()
    }

    fn rotate(&mut self) -> Result<(), RotateError> {
        // Before a manifest says that it is closed: a closed segment holds nothing but batches.
        self.tail.trim()?;
        let first = Revision(self.revision.0 + 1);
        let path = create_segment(&self.dir, first)?;
        let mut tail = Tail::open(path.clone()).inspect_err(|_| discard(&path))?;
        tail.sync(self.tail.is_synced());
        let mut shared = self.shared.lock();
        let mut manifest = shared.manifest.clone();
        manifest.segments.push(first);
        if let Err(error) = manifest.write(&self.dir) {
            // While the old manifest is in place nothing has changed. If it is not, a crash may or may not bring it back.
            if Manifest::read(&self.dir).ok().as_ref() != Some(&shared.manifest) {
                return Err(RotateError::Failed(error));
            }
            discard(&path);
            return Err(error.into());
        }
        shared.manifest = manifest;
        (self.tail, self.since_snapshot) = (tail, 0);
        Ok(())
    }

    /// Starts a compaction of all segments but the last.
    #[allow(
        clippy::disallowed_methods,
        reason = "the durable layer's own thread: it only reads and writes files"
    )]
    fn compact(&mut self) -> Result<(), RotateError> {
        // The previous one has ended; this only checks for a panic.
        self.finish_snapshot();
        let mut shared = self.shared.lock();
        shared.retry = true;
        let (last, closed) = shared.manifest.segments.split_last().expect("never empty");
        if closed.is_empty() {
            shared.retry = false;
            return Ok(());
        }
        let compaction = compaction::Compaction {
            dir: self.dir.clone(),
            old: shared.manifest.snapshot,
            segments: closed.to_vec(),
            target: Revision(last.0 - 1),
            cancelled: self.cancelled.clone(),
            shared: self.shared.clone(),
        };
        // The durable layer's own thread: it only reads and writes files, no world's time or order shows in it.
        let thread = std::thread::Builder::new().name("store-snapshot".into());
        self.compaction = Some(thread.spawn(move || compaction.run())?);
        shared.retry = false;
        Ok(())
    }

    /// Deletions take space in the log; what they free is available after a compaction, which needs the reserved space.
    pub(super) fn free_space(&mut self) {
        let written_to =
            self.shared.lock().manifest.segments.last().is_some_and(|first| *first <= self.revision);
        self.reserved.release();
        let done = if written_to { self.begin_snapshot() } else { self.compact() };
        self.removed = done.is_err();
        if let Err(RotateError::Failed(_)) = done {
            self.handle(done);
        }
    }

    /// Waits for a snapshot that is being written; for tests and measurements.
    pub(super) fn finish_snapshot(&mut self) {
        if let Some(compaction) = self.compaction.take()
            && compaction.join().is_err()
        {
            self.shared.lock().failure.get_or_insert("the snapshot thread panicked".to_owned());
        }
    }
}

#[derive(Debug)]
pub(super) enum RotateError {
    /// Nothing has changed.
    Retry(io::Error),
    Failed(io::Error),
}

impl From<io::Error> for RotateError {
    fn from(error: io::Error) -> Self {
        match is_transient(&error) || is_no_space(&error) {
            true => RotateError::Retry(error),
            false => RotateError::Failed(error),
        }
    }
}

/// Deletes a segment that was never used. What is left of it, the next start deletes.
fn discard(path: &Path) {
    let _ = std::fs::remove_file(path);
}
