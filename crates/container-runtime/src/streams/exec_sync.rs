//! A command whose output is returned: probes and hooks.

use std::os::fd::OwnedFd;
use std::sync::Arc;
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

pub async fn exec_sync(inner: Arc<Inner>, request: ExecSyncRequest) -> Result<ExecSyncResponse, Error> {
    let container = running(&inner, &request.container_id)?;
    let (stdout, their_stdout) = pipe(true)?;
    let (stderr, their_stderr) = pipe(true)?;
    let env = inner.env.clone();
    let mut exec =
        block(move || start(&inner, &container, request.cmd, false, [None, their_stdout, their_stderr]))
            .await?;
    let mut outputs = [Output::new(stdout)?, Output::new(stderr)?];
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
    bytes: Vec<u8>,
}

impl Output {
    fn new(end: Option<OwnedFd>) -> Result<Output, Error> {
        let failed = || "failed to open a stream".to_owned();
        let end = end.ok_or("there is none").context(failed)?;
        Ok(Output { pipe: Receiver::from_owned_fd(end).context(failed)?, bytes: Vec::new() })
    }

    /// To its end. May be given up at any time: what was read is kept.
    async fn read(&mut self) {
        let mut chunk = vec![0; 16 << 10];
        while let Ok(read @ 1..) = self.pipe.read(&mut chunk).await {
            keep(&mut self.bytes, &chunk[..read]);
        }
    }

    /// Asks the kernel itself: tokio may not have heard yet that there is more.
    fn finish(self) -> Vec<u8> {
        let Output { pipe, mut bytes } = self;
        let mut chunk = vec![0; 16 << 10];
        if let Ok(pipe) = pipe.into_nonblocking_fd() {
            while let Ok(read @ 1..) = rustix::io::read(&pipe, &mut chunk) {
                keep(&mut bytes, &chunk[..read]);
            }
        }
        bytes
    }
}

fn keep(kept: &mut Vec<u8>, bytes: &[u8]) {
    let room = MOST_BYTES.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}
