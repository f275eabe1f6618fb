//! New segments, and the snapshots that take the place of old ones. Nothing of it holds up a batch, and what it lacks for now it
//! gets later: commits go on in the old segment meanwhile.

use std::io;
use std::path::Path;

use super::error::{is_no_room, passes};
use super::manifest::Manifest;
use super::tail::Tail;
use super::writer::Writer;
use super::{create_segment, fold};
use crate::contract::Revision;

impl Writer {
    pub(super) fn is_folding(&self) -> bool {
        self.folding.as_ref().is_some_and(|folding| !folding.is_finished())
    }

    /// What has to be done now and then, after a batch. Nothing of it holds the batch up: that is durable.
    pub(super) fn keep_up(&mut self, unfinished: bool) {
        let due = self.since_snapshot > self.snapshot_log_bytes;
        if !(due || unfinished) || self.is_folding() || !self.again.is_over() {
            return;
        }
        let done = match unfinished {
            true => self.fold(),
            false if self.since_snapshot > self.shared.lock().snapshot_bytes => self.begin_snapshot(),
            false => return,
        };
        self.settle(done);
    }

    /// Commits go on in the old segment, whatever kept a new one from being made, unless nobody knows what the disk holds.
    fn settle(&mut self, done: Result<(), RotateError>) {
        match done {
            Ok(()) => self.again.succeeded(),
            Err(RotateError::TryAgain(error)) => {
                tracing::warn!(dir = %self.dir.display(), %error, "no new log segment or snapshot for now");
                self.again.failed();
            }
            Err(RotateError::Failed(error)) => {
                // The batch before is durable and is answered so; the next one is not accepted.
                let why = format!("starting a new log segment in {} failed: {error}", self.dir.display());
                self.shared.lock().failure.get_or_insert(why);
            }
        }
    }

    /// Goes on in a new segment, and has everything before it folded into a snapshot meanwhile.
    pub(super) fn begin_snapshot(&mut self) -> Result<(), RotateError> {
        self.rotate()?;
        self.fold()
    }

    fn rotate(&mut self) -> Result<(), RotateError> {
        // Before a manifest says that it is closed: nothing but batches may be in it then.
        self.tail.cut()?;
        let first = Revision(self.revision.0 + 1);
        let path = create_segment(&self.dir, first)?;
        let tail = Tail::open(path.clone()).inspect_err(|_| forget(&path))?;
        let mut shared = self.shared.lock();
        let mut manifest = shared.manifest.clone();
        manifest.segments.push(first);
        if let Err(error) = manifest.write(&self.dir) {
            // As long as the old one stands there nothing has changed. The new one may or may not be found after a crash.
            if Manifest::read(&self.dir).ok().as_ref() != Some(&shared.manifest) {
                return Err(RotateError::Failed(error));
            }
            forget(&path);
            return Err(error.into());
        }
        shared.manifest = manifest;
        (self.tail, self.since_snapshot) = (tail, 0);
        Ok(())
    }

    /// All segments but the last.
    #[allow(
        clippy::disallowed_methods,
        reason = "the durable layer's own thread: it only reads and writes files"
    )]
    fn fold(&mut self) -> Result<(), RotateError> {
        // The last one has ended; this only looks whether by a panic.
        self.finish_snapshot();
        let mut shared = self.shared.lock();
        shared.unfinished = true;
        let (last, closed) = shared.manifest.segments.split_last().expect("never empty");
        if closed.is_empty() {
            shared.unfinished = false;
            return Ok(());
        }
        let fold = fold::Fold {
            dir: self.dir.clone(),
            old: shared.manifest.snapshot,
            segments: closed.to_vec(),
            target: Revision(last.0 - 1),
            cancelled: self.cancelled.clone(),
            shared: self.shared.clone(),
        };
        // The durable layer's own thread: it only reads and writes files, no world's time or order shows in it.
        let thread = std::thread::Builder::new().name("store-snapshot".into());
        self.folding = Some(thread.spawn(move || fold.run())?);
        shared.unfinished = false;
        Ok(())
    }

    /// Deletions take room in the log; what they free is free after a snapshot. It needs what was kept back.
    pub(super) fn make_room(&mut self) {
        let written_to =
            self.shared.lock().manifest.segments.last().is_some_and(|first| *first <= self.revision);
        self.reserve.release();
        let done = if written_to { self.begin_snapshot() } else { self.fold() };
        self.removed = done.is_err();
        if let Err(RotateError::Failed(_)) = done {
            self.settle(done);
        }
    }

    /// Waits for a snapshot that is being written; for tests and measurements.
    pub(super) fn finish_snapshot(&mut self) {
        if let Some(folding) = self.folding.take()
            && folding.join().is_err()
        {
            self.shared.lock().failure.get_or_insert("the snapshot thread panicked".to_owned());
        }
    }
}

#[derive(Debug)]
pub(super) enum RotateError {
    /// Everything is as before.
    TryAgain(io::Error),
    Failed(io::Error),
}

impl From<io::Error> for RotateError {
    fn from(error: io::Error) -> Self {
        match passes(&error) || is_no_room(&error) {
            true => RotateError::TryAgain(error),
            false => RotateError::Failed(error),
        }
    }
}

/// A segment that never came to use. What is left of it, the next start deletes.
fn forget(path: &Path) {
    let _ = std::fs::remove_file(path);
}
