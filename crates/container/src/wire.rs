//! What agent, spawner and helper say to each other: frames of JSON with their length before them, descriptors beside them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::{ContainerConfig, PodConfig, Process};

/// Longer frames are refused: a container with its environment takes a few kilobytes.
const MOST_BYTES: usize = 16 << 20;
/// As many as a request can have: three streams.
const MOST_DESCRIPTORS: usize = 4;

/// To the spawner.
#[derive(Debug, Serialize, Deserialize)]
pub struct SpawnPod {
    pub pod: PodConfig,
}

/// To a pod's helper. Each is answered with a [`Reply`] in its order; what takes time (`Start`, `Exec`, `Remove`, `Shutdown`) holds up
/// the next requests of its own connection, and no other.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Everything it knows; and from now on a [`Reply::State`] whenever that changes.
    Watch,
    Start(Box<ContainerConfig>),
    /// To the first process of a container; `all`: to every process of it.
    Signal {
        container: String,
        signal: i32,
        all: bool,
    },
    /// With the streams beside it: standard input, output, error. With a terminal, one comes back beside the answer.
    Exec {
        container: String,
        process: Box<Process>,
    },
    SignalExec {
        exec: u64,
        signal: i32,
    },
    /// With the descriptors to write output and error to. With `stdin`, standard input (or the terminal) comes back; without, it
    /// stays as it is.
    Attach {
        container: String,
        #[serde(default = "yes")]
        stdin: bool,
    },
    Resize {
        container: String,
        exec: Option<u64>,
        width: u16,
        height: u16,
    },
    /// The log file was moved away.
    ReopenLog {
        container: String,
    },
    /// Forget a container that ended, with its mounts.
    Remove {
        container: String,
    },
    /// End everything, then itself.
    Shutdown,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    Done,
    Failed(String),
    State(PodState),
    Spawned { pid: i32 },
    Execed { exec: u64 },
    Attached,
    ExecEnded { exec: u64, code: i32 },
}

/// What a helper knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodState {
    pub pid: i32,
    pub containers: Vec<ContainerState>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContainerState {
    pub id: String,
    pub pid: i32,
    /// Unix nanoseconds.
    pub started: u64,
    pub ended: Option<Ended>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub finished: u64,
    /// 128 and the signal for one that was killed.
    pub code: i32,
    pub signal: i32,
    pub oom_killed: bool,
}

fn yes() -> bool {
    true
}

/// Sends one frame.
pub fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).map_err(|_| io::ErrorKind::InvalidInput)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    let mut rest = &frame[..];
    let mut descriptors = descriptors;
    while !rest.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let sent = rustix::net::sendmsg(socket, &[IoSlice::new(rest)], &mut beside, SendFlags::NOSIGNAL)?;
        descriptors = &[];
        rest = &rest[sent..];
    }
    Ok(())
}

/// Receives one frame; `None`: the other side is gone.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut descriptors = Vec::new();
    let mut length = [0; 4];
    if !fill(socket, &mut length, &mut descriptors)? {
        return Ok(None);
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    if !fill(socket, &mut frame, &mut descriptors)? {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&frame)?, descriptors)))
}

fn fill(socket: BorrowedFd<'_>, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<bool> {
    let mut at = 0;
    while at < buffer.len() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let read = rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut buffer[at..])],
            &mut beside,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if read.bytes == 0 {
            return Ok(false);
        }
        at += read.bytes;
    }
    Ok(true)
}

/// One descriptor and nothing else.
pub fn send_descriptor(socket: &OwnedFd, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    send(socket.as_fd(), &(), &[descriptor])
}

pub fn receive_descriptor(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let received = receive::<()>(socket.as_fd())?;
    received.and_then(|(_, mut all)| all.pop()).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
