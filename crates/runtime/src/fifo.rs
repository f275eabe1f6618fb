//! Between what the server says and what handlers are told: two queues with the same face.

mod delta;
mod real;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use object::{Obj, Revision};

pub use delta::DeltaFifo;
pub use real::RealFifo;

use crate::{Indexer, Key};

/// What a reflector learned.
#[derive(Clone)]
pub enum Delta {
    Added(Arc<Obj>),
    Updated(Arc<Obj>),
    /// `unknown`: the deletion itself was missed, this is the last state anyone saw.
    Deleted {
        key: Key,
        obj: Option<Arc<Obj>>,
        unknown: bool,
    },
    /// Everything there is.
    Replaced {
        items: Vec<Arc<Obj>>,
        revision: Revision,
    },
    /// One object of a replacement, from a queue that takes replacements apart.
    Listed(Arc<Obj>),
    /// Tell handlers that asked for it what is known, again.
    Sync,
    /// One object of that, from a queue that takes it apart.
    Synced(Arc<Obj>),
    Bookmark(Revision),
}

/// Keeps deltas until they are applied, in an order its kind promises.
pub trait Fifo: Send {
    /// `known` is what was applied so far.
    fn push(&mut self, delta: Delta, known: &Indexer);
    /// What to apply next, as one transaction; empty: nothing waits.
    fn pop(&mut self) -> Vec<Delta>;
    /// All of the first [`Delta::Replaced`] was popped.
    fn has_synced(&self) -> bool;
}
