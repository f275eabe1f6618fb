//! A command whose output is returned: probes and hooks.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cri::{Code, Error, ExecSyncRequest, ExecSyncResponse};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use super::{pipe, running, start};
use crate::Inner;
use crate::blocking::block;
use crate::error::Context;

/// Of each stream; what is more is read and forgotten, as by containerd.
const MOST_BYTES: usize = 16 << 20;
/// Of each stream, whatever others hold: more than a probe reads (10 KiB).
const OWN_BYTES: usize = 16 << 10;
/// Of all streams of the node beyond that; a stream that finds none left is cut off there.
const SHARED_BYTES: usize = 32 << 20;

/// What is left of [`SHARED_BYTES`].
pub struct OutputBudget(AtomicUsize);

impl Default for OutputBudget {
    fn default() -> OutputBudget {
        OutputBudget(AtomicUsize::new(SHARED_BYTES))
    }
}

impl OutputBudget {
    /// As much as there is, up to `bytes`.
    fn take(&self, bytes: usize) -> usize {
        let rest = |left: usize| Some(left.saturating_sub(bytes));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        before.unwrap_or_default().min(bytes)
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

pub async fn exec_sync(inner: Arc<Inner>, request: ExecSyncRequest) -> Result<ExecSyncResponse, Error> {
    let container = running(&inner, &request.container_id)?;
    let (stdout, their_stdout) = pipe(true)?;
    let (stderr, their_stderr) = pipe(true)?;
    let (env, budget) = (inner.env.clone(), inner.exec_output.clone());
    let mut exec =
        block(move || start(&inner, &container, request.cmd, false, [None, their_stdout, their_stderr]))
            .await?;
    let mut outputs = [Output::new(stdout, &budget)?, Output::new(stderr, &budget)?];
    let run = async {
        let [stdout, stderr] = &mut outputs;
        let code = tokio::select! {
            code = exec.wait() => code?,
            // Both ended before the process did.
            never = async { tokio::join!(stdout.read(), stderr.read()); std::future::pending::<i32>().await } => never,
        };
        Ok(code)
    };
    let timeout = u64::try_from(request.timeout).unwrap_or_default();
    let code = if timeout == 0 {
        run.await?
    } else {
        // Who does not end in time is killed, with the guard.
        env.timeout(Duration::from_secs(timeout), run).await.map_err(|_| {
            let text = format!(
                "failed to exec in container: timeout {timeout}s exceeded: context deadline exceeded"
            );
            Error::new(Code::DeadlineExceeded, text)
        })??
    };
    // What it wrote before its end is there; what its children may still write is not waited for.
    let [stdout, stderr] = outputs.map(Output::finish);
    Ok(ExecSyncResponse { stdout, stderr, exit_code: code })
}

struct Output {
    pipe: Receiver,
    kept: Kept,
}

impl Output {
    fn new(end: Option<OwnedFd>, budget: &Arc<OutputBudget>) -> Result<Output, Error> {
        let failed = || "failed to open a stream".to_owned();
        let end = end.ok_or("there is none").context(failed)?;
        Ok(Output { pipe: Receiver::from_owned_fd(end).context(failed)?, kept: Kept::new(budget) })
    }

    /// To its end. May be given up at any time: what was read is kept.
    async fn read(&mut self) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(read @ 1..) = self.pipe.read(&mut chunk).await {
            self.kept.add(&chunk[..read]);
        }
    }

    /// Asks the kernel itself: tokio may not have heard yet that there is more. What is in the pipe now, and not what its children
    /// write meanwhile: they may never end.
    fn finish(self) -> Vec<u8> {
        let Output { pipe, mut kept } = self;
        let mut chunk = vec![0; 16 << 10];
        if let Ok(pipe) = pipe.into_nonblocking_fd() {
            let mut left = rustix::io::ioctl_fionread(&pipe)
                .ok()
                .and_then(|bytes| usize::try_from(bytes).ok())
                .unwrap_or_default();
            while left > 0 {
                let most = left.min(chunk.len());
                let Ok(read @ 1..) = rustix::io::read(&pipe, &mut chunk[..most]) else { break };
                kept.add(&chunk[..read]);
                left -= read;
            }
        }
        std::mem::take(&mut kept.bytes)
    }
}

/// What was read, within its bounds.
struct Kept {
    bytes: Vec<u8>,
    /// How much of it is of the budget that all share.
    shared: usize,
    budget: Arc<OutputBudget>,
    /// Something was left out: what comes later does not belong behind what is kept.
    is_cut: bool,
}

impl Kept {
    fn new(budget: &Arc<OutputBudget>) -> Kept {
        Kept { bytes: Vec::new(), shared: 0, budget: budget.clone(), is_cut: false }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.is_cut {
            return;
        }
        let wanted = bytes.len().min(MOST_BYTES.saturating_sub(self.bytes.len()));
        let own = wanted.min(OWN_BYTES.saturating_sub(self.bytes.len()));
        let shared = self.budget.take(wanted - own);
        self.shared += shared;
        self.bytes.extend_from_slice(&bytes[..own + shared]);
        self.is_cut = own + shared < bytes.len();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.budget.give_back(self.shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_share_a_budget_beyond_what_a_probe_reads() {
        let budget = Arc::new(OutputBudget::default());
        let chunk = vec![b'x'; 1 << 20];
        let fill = || {
            let mut kept = Kept::new(&budget);
            (0..20).for_each(|_| kept.add(&chunk));
            kept
        };
        let (first, second, third, fourth) = (fill(), fill(), fill(), fill());
        let lengths = [&first, &second, &third, &fourth].map(|kept| kept.bytes.len());
        assert_eq!(lengths, [MOST_BYTES, MOST_BYTES, 3 * OWN_BYTES, OWN_BYTES]);
        drop((first, second, third, fourth));
        assert_eq!(fill().bytes.len(), MOST_BYTES, "what ended gives back");
        assert_eq!(budget.take(usize::MAX), SHARED_BYTES);
    }
}
