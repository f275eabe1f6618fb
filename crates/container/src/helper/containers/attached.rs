//! Those who want to see a container's output besides its log, each at the speed they read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use container_log::Stream;
use rustix::event::PollFlags;

use super::{Answer, Containers};
use crate::start::{Context, StartError};
use crate::sys;
use crate::wire::Reply;

/// What of a container's output waits for one who does not read; then he is let go.
const MOST_PENDING: usize = 4 << 20;
/// More do not attach to a pod at once.
const MOST_ATTACHED: usize = 64;

pub struct Attached {
    pub key: u64,
    /// Of the container.
    pub to: u64,
    streams: [Outlet; 2],
}

/// One of his two streams.
#[derive(Default)]
struct Outlet {
    file: Option<OwnedFd>,
    pending: Vec<u8>,
    /// Nothing more comes: it is closed when what waits is written.
    ends: bool,
}

impl Attached {
    /// What to wait for: that what waits can be written, and that nobody reads any more.
    pub fn sources(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>, PollFlags)> {
        self.streams.iter().enumerate().filter_map(|(at, stream)| {
            let flags = if stream.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            Some((at, stream.file.as_ref()?.as_fd(), flags))
        })
    }

    /// One of the two has happened.
    pub fn ready(&mut self, at: usize) {
        if self.streams[at].pending.is_empty() {
            self.streams[at] = Outlet::default();
        }
        self.flush(at);
    }

    pub fn is_over(&self) -> bool {
        self.streams.iter().all(|stream| stream.file.is_none())
    }

    pub fn give(&mut self, at: usize, bytes: &[u8]) {
        let stream = &mut self.streams[at];
        if stream.file.is_some() {
            stream.pending.extend_from_slice(bytes);
            self.flush(at);
        }
        if self.streams[at].pending.len() > MOST_PENDING {
            self.streams[at] = Outlet::default();
        }
    }

    pub fn end(&mut self, at: usize) {
        self.streams[at].ends = true;
        self.flush(at);
    }

    fn flush(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let Some(file) = &stream.file else { return };
        while !stream.pending.is_empty() {
            match rustix::io::write(file, &stream.pending) {
                Ok(written) => drop(stream.pending.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                // He is gone.
                Err(_) => {
                    *stream = Outlet::default();
                    return;
                }
            }
        }
        if stream.ends {
            *stream = Outlet::default();
        }
    }
}

impl Containers {
    /// What comes from now on goes there, too; and back goes what can be written to, if that is wanted.
    pub(super) fn attach(
        &mut self,
        id: &str,
        stdin: bool,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Answer, StartError> {
        if self.attached.len() >= MOST_ATTACHED {
            return Err(StartError("too many are attached to this pod".to_owned()));
        }
        let key = self.key();
        let container = self.find_mut(id)?;
        if container.ended.is_some() {
            return Err(StartError(format!("container {id} is not running")));
        }
        let mut given = descriptors.into_iter();
        let mut streams = [Outlet::default(), Outlet::default()];
        for stream in &mut streams {
            if let Some(file) = given.next() {
                sys::set_nonblocking(file.as_fd()).context(|| "failed to set a descriptor".to_owned())?;
                stream.file = Some(file);
            }
        }
        let mut attached = Attached { key, to: container.key, streams };
        for stream in [Stream::Stdout, Stream::Stderr] {
            if container.output(stream).is_none() {
                attached.end(stream as usize);
            }
        }
        let input = if stdin { container.share_input()? } else { None };
        if !attached.is_over() {
            self.attached.push(attached);
        }
        Ok((Reply::Attached, input))
    }
}
