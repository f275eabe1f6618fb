//! Threads that may wait: for the disk and for the kernel.

use std::sync::Arc;

/// Runs a job on a thread that may block. A pull has up to four at a time, and those that write wait for the network.
pub type Blocking = Arc<dyn Fn(Box<dyn FnOnce() + Send>) + Send + Sync>;

/// Those of tokio's runtime, within which the jobs are given.
#[expect(clippy::disallowed_methods, reason = "images, volumes and containers are files: their calls block")]
pub fn blocking_pool() -> Blocking {
    Arc::new(|job| drop(tokio::task::spawn_blocking(job)))
}
