//! Where commits survive a restart: [`Durable`], and [`InMemory`] for a store where they do not.

use crate::contract::{Change, Entry, Revision};
use crate::files::OpenError;

/// The revision of a store in which nothing has happened yet. etcd begins with 1 too.
pub const FIRST_REVISION: Revision = Revision(1);

/// What follows the entries that [`Durable::load`] hands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The store's revision. Higher than every entry's when the last commits were deletions.
    pub revision: Revision,
    /// The last changes, in order, up to `revision` and without a gap: with them a watcher resumes where it was.
    /// As many as the durable layer still has and is willing to hold in memory; none is fine too.
    pub changes: Vec<Change>,
}

impl Loaded {
    /// The revision the entries are of.
    pub fn before_changes(&self) -> Revision {
        self.changes.first().map_or(self.revision, |first| Revision(first.revision.0 - 1))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The files cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The batch was certainly not written.
    #[error("{0}")]
    NotWritten(String),
    /// The disk is full. The batch was not written, everything is as before, durably; `append` may be called again.
    #[error("{0}")]
    NoSpace(String),
    /// Some, all or nothing of the batch may be found after a restart.
    #[error("{0}")]
    Unknown(String),
}

/// The durable half of a store. One owner, called from one place at a time.
///
/// Compaction (snapshots, for files) is the implementation's own business: it has seen every change, so it needs nobody's
/// help, and the sequencer never waits for it.
pub trait Durable: Send {
    /// Called once, before the first `append`. Hands out every entry as of [`Loaded::before_changes`], in key order,
    /// as it is read: after an error whoever took them throws them away.
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError>;
    /// Consecutive changes of one revision are one record: all of it is found after a restart, or none.
    /// Revisions follow the last one without a gap. Durable when it returns `Ok`; after an `Err` other than
    /// [`DurableError::NoSpace`] it is not called again.
    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError>;
    /// Why only removals may be appended for now, if so; asked before each batch.
    fn full(&mut self) -> Option<String> {
        None
    }
    /// Releases files and locks. Nothing is called afterwards.
    fn close(&mut self) {}
}

/// Keeps nothing over a restart: the memory store.
#[derive(Debug, Default)]
pub struct InMemory;

impl Durable for InMemory {
    fn load(&mut self, _: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        Ok(Loaded { revision: FIRST_REVISION, ..Loaded::default() })
    }

    fn append(&mut self, _: &[Change]) -> Result<(), DurableError> {
        Ok(())
    }
}
