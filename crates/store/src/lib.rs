//! The store: keys, values, and one ordered log of commits. Bytes only; it knows nothing of Kubernetes.
//!
//! ```text
//!  callers ── Commit ──> queue ──> Sequencer ── append ──> Durable   in memory | files | faulty
//!                                  │  guards, one revision each
//!                                  ├── publish ──> State             the one copy of all values, in memory
//!     <──── revision | Conflict ───┘
//! ```
//!
//! [`contract`](Engine) says what every engine promises. Here is one engine over two ways to run it:
//! [`MemoryEngine`] commits inline in the caller (no thread, no timer: deterministic), [`DiskEngine`] gives
//! the same [`Sequencer`] a thread and a queue so that many callers share one fsync. The etcd engine is a
//! crate of its own. [`testing`] holds the suite that all of them must pass.

mod contract;
mod disk;
mod durable;
pub mod faulty;
mod files;
mod memory;
mod sequencer;
pub mod testing;

pub use contract::*;
pub use disk::{DiskEngine, DiskOptions};
pub use durable::{Durable, DurableError, InMemory, Loaded};
pub use files::{Backup, BackupFile, Files, OpenError, Repaired, check_unused, read_unlocked, repair};
pub use memory::MemoryEngine;
pub use sequencer::{MAX_COMMIT_BYTES, MAX_COMMIT_OPS, Sequencer};
