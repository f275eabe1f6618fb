//! Where a sequencer's records survive: [`Durable`], and [`Nothing`] for a store that keeps none.

use crate::contract::{Change, Entry, Revision};

/// The revision of a store in which nothing has happened yet. etcd begins with 1 too.
pub const FIRST_REVISION: Revision = Revision(1);

/// Everything that was durable when a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The store's revision. Higher than every entry's when the last commits were deletions.
    pub revision: Revision,
    /// In key order.
    pub entries: Vec<Entry>,
}

#[derive(Debug, thiserror::Error)]
pub enum DurableError {
    /// The batch was certainly not written.
    #[error("{0}")]
    NotWritten(String),
    /// Some, all or nothing of the batch may be found at the next start.
    #[error("{0}")]
    Unknown(String),
}

/// The durable half of a store. One owner, called from one place at a time.
///
/// How old records are folded away (snapshots, for files) is the implementation's own business: it has seen
/// every change, so it needs nobody's help, and the sequencer never waits for it.
pub trait Durable: Send {
    /// Called once, before the first `append`.
    fn load(&mut self) -> Result<Loaded, DurableError>;
    /// Consecutive changes of one revision are one record: all of it is found at the next start, or none.
    /// Revisions go on from the last one without a gap. Durable when it returns `Ok`; after an `Err` it is not
    /// called again.
    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError>;
    /// Releases files and locks. Nothing is called afterwards.
    fn close(&mut self) {}
}

/// Keeps nothing: the memory store.
#[derive(Debug, Default)]
pub struct Nothing;

impl Durable for Nothing {
    fn load(&mut self) -> Result<Loaded, DurableError> {
        Ok(Loaded { revision: FIRST_REVISION, entries: Vec::new() })
    }

    fn append(&mut self, _: &[Change]) -> Result<(), DurableError> {
        Ok(())
    }
}
