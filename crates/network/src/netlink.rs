//! Messages to the kernel: a header, a fixed part, attributes that may hold attributes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub const REQUEST: u16 = 0x1;
pub const ACK: u16 = 0x4;
pub const EXCLUSIVE: u16 = 0x200;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;
pub const DUMP: u16 = 0x300;
pub const REPLACE: u16 = 0x100;

const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER: usize = 16;

/// Numbers of messages, never used twice: an answer to another question is told by its number.
static SEQUENCE: AtomicU32 = AtomicU32::new(1);

/// One message, or several in a row.
#[derive(Default)]
pub struct Messages {
    bytes: Vec<u8>,
    begun: usize,
    sequences: Vec<u32>,
    acknowledged: u32,
}

impl Messages {
    /// Begins a message; attributes follow.
    pub fn begin(&mut self, kind: u16, flags: u16, fixed: &[u8]) -> &mut Messages {
        self.end();
        self.begun = self.bytes.len();
        let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
        self.sequences.push(sequence);
        self.acknowledged += u32::from(flags & ACK != 0);
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(fixed);
        self.pad();
        self
    }

    /// The message begun last is to be confirmed.
    pub fn acknowledge(&mut self) {
        let flags = self.begun + 6;
        if let Some(low) = self.bytes.get_mut(flags..flags + 2) {
            let with = u16::from_ne_bytes([low[0], low[1]]) | ACK;
            low.copy_from_slice(&with.to_ne_bytes());
            self.acknowledged += 1;
        }
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Messages {
        // Attributes are short: names, addresses, small structures.
        let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// With the zero at its end that the kernel wants.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Messages {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    pub fn number(&mut self, kind: u16, value: u32) -> &mut Messages {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// In the order of the network, as netfilter has it.
    pub fn network_number(&mut self, kind: u16, value: u32) -> &mut Messages {
        self.attribute(kind, &value.to_be_bytes())
    }

    pub fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Messages)) -> &mut Messages {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&0u16.to_ne_bytes());
        self.bytes.extend_from_slice(&(kind | NESTED).to_ne_bytes());
        inside(self);
        let length = u16::try_from(self.bytes.len() - at).unwrap_or(u16::MAX);
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// A fixed part inside an attribute.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Messages {
        self.bytes.extend_from_slice(bytes);
        self.pad();
        self
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// What was put together so far.
    #[cfg(test)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn end(&mut self) {
        if self.bytes.len() > self.begun {
            let length = u32::try_from(self.bytes.len() - self.begun).unwrap_or(u32::MAX);
            self.bytes[self.begun..self.begun + 4].copy_from_slice(&length.to_ne_bytes());
        }
    }
}

/// What the kernel answered with: its kind and what follows the header.
pub struct Answer {
    pub kind: u16,
    pub body: Vec<u8>,
}

/// A socket to the kernel, in the network namespace it was opened in.
pub struct Socket(OwnedFd);

#[derive(Clone, Copy)]
pub enum Family {
    Route,
    Netfilter,
}

impl Socket {
    pub fn open(family: Family) -> io::Result<Socket> {
        let protocol = match family {
            // NETLINK_ROUTE is zero: no protocol named.
            Family::Route => None,
            Family::Netfilter => Some(netlink::NETFILTER),
        };
        Ok(Socket(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?))
    }

    pub fn open_in(family: Family, namespace: &OwnedFd) -> io::Result<Socket> {
        within(namespace, move || Socket::open(family))
    }

    /// Sends all, and waits until the kernel has said yes to each.
    pub fn call(&self, messages: &mut Messages) -> io::Result<Vec<Answer>> {
        let mut answers = Vec::new();
        self.call_each(messages, |kind, body| answers.push(Answer { kind, body: body.to_vec() }))?;
        Ok(answers)
    }

    /// The same, for answers too many to keep.
    pub fn call_each(&self, messages: &mut Messages, mut tell: impl FnMut(u16, &[u8])) -> io::Result<()> {
        messages.end();
        // A batch goes in one piece, however long; the kernel counts its own bookkeeping in.
        let needed = messages.bytes.len().saturating_mul(2);
        if rustix::net::sockopt::socket_send_buffer_size(&self.0)? < needed {
            rustix::net::sockopt::set_socket_send_buffer_size_force(&self.0, needed)?;
        }
        rustix::net::send(&self.0, &messages.bytes, SendFlags::empty())?;
        let mut waiting = messages.acknowledged;
        let mut buffer = vec![0; 256 << 10];
        let mut failed = None;
        while waiting > 0 {
            let (read, _) = rustix::net::recv(&self.0, &mut buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..read];
            while let Some((kind, sequence, body, after)) = split(rest) {
                rest = after;
                if !messages.sequences.contains(&sequence) {
                    continue;
                }
                match kind {
                    ERROR => {
                        waiting -= 1;
                        let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                        if code != 0 && failed.is_none() {
                            failed = Some(io::Error::from_raw_os_error(-code));
                        }
                        // After a failure in a batch nothing more may come.
                        if failed.is_some() {
                            waiting = 0;
                        }
                    }
                    DONE => waiting -= 1,
                    _ => tell(kind, body),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Runs in another namespace: a thread goes there and is gone afterwards; a socket stays where it was opened.
#[expect(
    clippy::disallowed_methods,
    reason = "a namespace is a thread's: it must not stay in one that does other work"
)]
pub fn within<T: Send + 'static>(
    namespace: &OwnedFd,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let namespace = namespace.try_clone()?;
    let done = std::thread::Builder::new().name("netlink".to_owned()).spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        work()
    })?;
    done.join().map_err(|_| io::Error::other("the thread panicked"))?
}

/// The first message of what was received.
fn split(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
    let sequence = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, sequence, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The attributes of a message, after its fixed part.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let Some(length) = bytes.first_chunk().map(|length| usize::from(u16::from_ne_bytes(*length))) {
        let (Some(kind), Some(value)) = (bytes.get(2..4), bytes.get(4..length)) else { break };
        all.push((u16::from_ne_bytes([kind[0], kind[1]]) & !NESTED, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}
