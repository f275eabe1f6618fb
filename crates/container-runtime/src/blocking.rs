//! Threads that may wait: for the disk, for the kernel, for a pod's helper.

use cri::{Code, Error};

/// Runs to its end even if nobody waits any more, so that nothing is left half done.
#[expect(
    clippy::disallowed_methods,
    reason = "containers are files, mounts and processes: all of their calls block"
)]
pub async fn block<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(Code::Internal, "the call was given up")),
    }
}
