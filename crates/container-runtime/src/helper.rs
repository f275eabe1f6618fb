//! Talks to the helper of a pod.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use container::wire::{self, PodState, Reply, Request};
use rustix::process::Pid;
use tokio::io::AsyncReadExt;

/// A start may take its helper half a minute, and the end of all containers longer if one is stuck in the kernel.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What a helper says is small; its list of containers is the longest.
const MOST_BYTES: usize = 16 << 20;

pub const SOCKET: &str = "helper.sock";
pub const STATE: &str = "state.json";

/// A connection whose calls block.
pub struct Connection(UnixStream);

#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("{0}")]
    Refused(String),
    #[error("the pod's helper does not answer: {0}")]
    Silent(#[from] io::Error),
}

impl Connection {
    /// To the helper of a directory, if one is there.
    pub fn open(directory: &Path) -> io::Result<Connection> {
        let socket = UnixStream::connect(directory.join(SOCKET))?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        Ok(Connection(socket))
    }

    pub fn ask(
        &self,
        request: &Request,
        beside: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), HelperError> {
        wire::send(self.0.as_fd(), request, beside)?;
        match wire::receive(self.0.as_fd())? {
            Some((Reply::Failed(why), _)) => Err(HelperError::Refused(why)),
            Some(answer) => Ok(answer),
            None => Err(HelperError::Silent(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Everything the helper knows; from now on it also tells on this connection what changes.
    pub fn watch(&self) -> Result<PodState, HelperError> {
        match self.ask(&Request::Watch, &[])? {
            (Reply::State(state), _) => Ok(state),
            _ => Err(HelperError::Silent(io::ErrorKind::InvalidData.into())),
        }
    }

    /// What changed since, after a call of [`Connection::watch`].
    pub fn next_state(&self) -> Result<PodState, HelperError> {
        match wire::receive(self.0.as_fd())? {
            Some((Reply::State(state), _)) => Ok(state),
            Some(_) => Err(HelperError::Silent(io::ErrorKind::InvalidData.into())),
            None => Err(HelperError::Silent(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// For what comes later.
    pub fn into_async(self) -> io::Result<tokio::net::UnixStream> {
        self.0.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(self.0)
    }
}

/// The next thing a helper says by itself; `None`: it is gone.
pub async fn next_reply(socket: &mut tokio::net::UnixStream) -> io::Result<Option<Reply>> {
    let length = match socket.read_u32_le().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    socket.read_exact(&mut frame).await?;
    Ok(Some(serde_json::from_slice(&frame)?))
}

/// The helper of a directory, if it lives: what its file says may be of before the machine was started, and that process now another
/// agent's helper. Nobody but the directory's own listens there.
pub fn process(directory: &Path) -> Option<Pid> {
    Connection::open(directory).ok()?;
    let pid = std::fs::read_to_string(directory.join("helper.pid")).ok()?;
    let pid = pid.trim().parse().ok().and_then(Pid::from_raw)?;
    let name = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())).ok()?;
    (name.trim() == "setpoint-pod").then_some(pid)
}

/// What a helper that is gone wrote down last.
pub fn saved_state(directory: &Path) -> PodState {
    let text = std::fs::read(directory.join(STATE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}
