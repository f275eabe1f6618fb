//! Between what the server says and what handlers are told: two queues with the same face.

mod delta;
mod real;

use std::sync::Arc;

use store::Revision;
use table::Obj;

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
    /// Tell handlers again what is known.
    Sync,
    Bookmark(Revision),
}

/// Keeps deltas until they are applied, in an order its kind promises.
pub trait Fifo: Send {
    fn push(&mut self, delta: Delta, known: &Indexer);
    /// What to apply next, as one transaction; empty: nothing waits.
    fn pop(&mut self) -> Vec<Delta>;
}
