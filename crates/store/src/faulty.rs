//! Durable layers that fail on purpose, for tests and simulation.
//!
//! ```
//! # use std::sync::Arc;
//! use store::{MemoryEngine, faulty::{Faulty, Image, Leaves}, testing::MapState};
//!
//! let image = Image::default(); // the simulated disk; it outlives the engine
//! let disk = Faulty::new(Box::new(image.clone()), 3, Leaves::Part(1));
//! let engine = MemoryEngine::over(Box::new(disk), Arc::new(MapState::default())).unwrap();
//! // ... the third append fails; then restart on what is left:
//! let again = MemoryEngine::over(Box::new(image), Arc::new(MapState::default())).unwrap();
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::contract::{Change, Entry};
use crate::durable::{Durable, DurableError, FIRST_REVISION, Loaded};

/// A disk in memory: every clone is the same disk, so it survives the engine that wrote to it.
#[derive(Clone, Default)]
pub struct Image {
    /// Guards all that was ever appended, in order.
    log: Arc<Mutex<Vec<Change>>>,
}

impl Image {
    /// All changes that are on this disk.
    pub fn changes(&self) -> Vec<Change> {
        self.log.lock().clone()
    }
}

impl Durable for Image {
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        let mut revision = FIRST_REVISION;
        let mut entries = BTreeMap::new();
        for Change { revision: at, key, value, expires_at } in self.changes() {
            revision = at;
            match value {
                Some(value) => entries.insert(key.clone(), Entry { key, value, revision: at, expires_at }),
                None => entries.remove(&key),
            };
        }
        entries.into_values().for_each(each);
        Ok(Loaded { revision, changes: Vec::new() })
    }

    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        self.log.lock().extend_from_slice(batch);
        Ok(())
    }
}

/// What a failed append leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    Nothing,
    /// That many of the batch's records.
    Part(usize),
    /// All of it, though it reported a failure.
    All,
}

/// Fails at one append and at all later ones.
pub struct Faulty {
    inner: Box<dyn Durable>,
    fail_at: u64,
    leaves: Leaves,
    appends: u64,
}

impl Faulty {
    /// `fail_at`: 1 is the first append.
    pub fn new(inner: Box<dyn Durable>, fail_at: u64, leaves: Leaves) -> Faulty {
        Faulty { inner, fail_at, leaves, appends: 0 }
    }
}

impl Durable for Faulty {
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        self.inner.load(each)
    }

    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        self.appends += 1;
        if self.appends < self.fail_at {
            return self.inner.append(batch);
        }
        if self.appends == self.fail_at {
            let records = match self.leaves {
                Leaves::Nothing => 0,
                Leaves::Part(records) => records,
                Leaves::All => usize::MAX,
            };
            let kept =
                batch.chunk_by(|a, b| a.revision == b.revision).take(records).map(<[Change]>::len).sum();
            if kept > 0 {
                self.inner.append(&batch[..kept])?;
            }
        }
        Err(DurableError::Unknown(format!("append {} failed, as it was told to", self.appends)))
    }

    fn full(&mut self) -> Option<String> {
        self.inner.full()
    }

    fn close(&mut self) {
        self.inner.close();
    }
}
