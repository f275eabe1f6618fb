//! The engine without a thread: a commit runs inline in its caller.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::contract::{BoxFuture, Commit, CommitError, Engine, Revision, State};
use crate::durable::{Durable, DurableError, InMemory};
use crate::sequencer::Sequencer;

/// Commits inline under a mutex: no thread, no queue, no timer, so a world in virtual time stays
/// deterministic. Over [`InMemory`] it is the memory store; over [`crate::faulty`] a simulated disk.
pub struct MemoryEngine {
    /// Guards the order of commits. Held while one is decided, made durable and published, never across an
    /// await.
    sequencer: Mutex<Sequencer>,
}

impl MemoryEngine {
    /// An empty store at revision 1 that forgets everything when dropped.
    pub fn open(state: Arc<dyn State>) -> Arc<dyn Engine> {
        Self::over(Box::new(InMemory), state).expect("`InMemory` always loads")
    }

    /// The same engine over any durable layer, with its fsyncs inline: for simulation and tests.
    pub fn over(durable: Box<dyn Durable>, state: Arc<dyn State>) -> Result<Arc<dyn Engine>, DurableError> {
        Ok(Arc::new(MemoryEngine { sequencer: Mutex::new(Sequencer::start(durable, state)?) }))
    }

    fn settled(&self) -> Result<Revision, CommitError> {
        let sequencer = self.sequencer.lock();
        match sequencer.stopped() {
            Some(why) => Err(CommitError::Stopped(why.to_owned())),
            None => Ok(sequencer.revision()),
        }
    }
}

impl Engine for MemoryEngine {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move { self.sequencer.lock().commit(commit) })
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>> {
        Box::pin(async move { self.settled() })
    }

    /// Nothing to do: old values live in the state, not here.
    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move { self.settled().map(drop) })
    }

    fn expire(&self, now: u64) -> BoxFuture<'_, Result<(), CommitError>> {
        Box::pin(async move { self.sequencer.lock().expire(now) })
    }

    fn health(&self) -> Result<(), String> {
        self.sequencer.lock().stopped().map_or(Ok(()), |why| Err(why.to_owned()))
    }

    fn full(&self) -> Option<String> {
        self.sequencer.lock().full().map(str::to_owned)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.sequencer.lock().close() })
    }
}
