//! Threads that may wait: for the disk and for the kernel.

use std::io;

/// Runs to its end even if nobody waits any more. Fails if it panicked.
#[expect(clippy::disallowed_methods, reason = "volumes, logs and cgroups are files: their calls block")]
pub async fn block<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
