//! Threads that may wait: for the disk and for the kernel.

use std::io;
use std::sync::Arc;

/// Runs to its end even if nobody waits any more. Fails if it panicked.
#[expect(clippy::disallowed_methods, reason = "volumes, logs and cgroups are files: their calls block")]
pub async fn block<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// For those who are handed their threads.
#[expect(clippy::disallowed_methods, reason = "volumes and images are files: their calls block")]
pub fn pool() -> image::Blocking {
    Arc::new(|job| drop(tokio::task::spawn_blocking(job)))
}
