//! All integration tests of this crate, in one binary.

// Everything here is a test or part of one.
#![allow(clippy::unwrap_used)]

#[path = "suite/disk.rs"]
mod disk;
#[path = "suite/faults.rs"]
mod faults;
#[path = "suite/full.rs"]
mod full;
#[path = "suite/memory.rs"]
mod memory;
#[path = "suite/model.rs"]
mod model;
#[path = "suite/process.rs"]
mod process;
#[path = "suite/writer.rs"]
mod writer;
