//! The bytes of a connection: inspects them as they arrive, and lingers when it closes.
//!
//! ```text
//!  in:  heads are noted (HTTP/1), frames are counted (HTTP/2)
//!  closing with a request unread: our side is shut down, theirs is read and discarded for a while, so that no reset
//!  overtakes the response
//! ```

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use env::Env;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::connection::{Connection, ReceivedBytes};
use crate::frame_monitor::FrameMonitor;
use crate::malformed;

/// How much of an unread request is discarded once it is answered. Upstream cuts off larger bodies too.
pub const UNREAD_BYTES: usize = 10 << 20;
/// How long that may take in all, and how long it may stall.
pub const UNREAD_TIME: Duration = Duration::from_secs(10);
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

/// A connection's bytes. On shutdown the other side may finish first, if its request was not read to the end.
pub struct ConnectionIo<S> {
    io: S,
    connection: Arc<Connection>,
    lingering: Option<Box<Lingering>>,
    /// The start of the head that is being read, for the error if it is malformed.
    head: Vec<u8>,
    /// The replacement of hyper's own error answer, and how much of it is sent.
    reworded: Option<(Vec<u8>, usize)>,
    /// Inspects frames received over HTTP/2.
    frames: Option<Box<FrameMonitor>>,
}

/// Our side is shut down; theirs is discarded, within limits.
struct Lingering {
    left: usize,
    ends: Pin<Box<Sleep>>,
    pause: Pin<Box<Sleep>>,
    buffer: [u8; 16 << 10],
}

impl<S> ConnectionIo<S> {
    pub fn new(io: S, connection: Arc<Connection>) -> ConnectionIo<S> {
        let frames = connection.is_http2().then(|| Box::new(FrameMonitor::new(connection.env())));
        ConnectionIo { io, connection, lingering: None, head: Vec::new(), reworded: None, frames }
    }

    /// Bytes sent allow for window updates.
    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(frames), Poll::Ready(Ok(bytes))) = (&mut self.frames, &written) {
            frames.sent(*bytes);
        }
        written
    }

    /// Keeps the start of a head, and changes the two things in it that hyper and Go parse differently.
    fn note(&mut self, bytes: &mut [u8], begins: bool) {
        if begins {
            self.head.clear();
        }
        let (before, room) = (self.head.len(), malformed::KEPT_HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if before == 0 && !begins && matches!(bytes.first(), Some(b'\r' | b'\n')) {
            // Go accepts no empty line before the first request; 0 is no valid method.
            bytes[0] = 0;
        }
        let line_ends = memchr::memchr(b'\n', &self.head).filter(|end| *end >= before);
        let minor = line_ends.and_then(|end| malformed::minor_version(&self.head[..end]));
        if let Some(digit) = minor.and_then(|at| bytes.get_mut(at.checked_sub(before)?)) {
            *digit = b'1';
        }
    }
}

impl<S: AsyncWrite + Unpin> ConnectionIo<S> {
    /// Replaces hyper's own error response with Go's.
    fn poll_reworded(&mut self, cx: &mut Context<'_>, answer: &[u8]) -> Option<Poll<io::Result<()>>> {
        if self.frames.is_some() {
            return None;
        }
        if self.reworded.is_none() {
            self.reworded = Some((malformed::reworded(answer, &self.head)?, 0));
        }
        let (words, sent) = self.reworded.as_mut()?;
        while *sent < words.len() {
            match Pin::new(&mut self.io).poll_write(cx, &words[*sent..]) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => *sent += written,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        self.reworded = None;
        Some(Poll::Ready(Ok(())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ConnectionIo<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.io).poll_read(cx, buf);
        let came = &mut buf.filled_mut()[before..];
        if came.is_empty() {
            return outcome;
        }
        let ConnectionIo { connection, frames, .. } = &mut *self;
        if let Some(frames) = frames {
            let head = frames.received(came, connection.env()).map_err(io::Error::other)?;
            if head > 0 && connection.head_bytes() == 0 {
                connection.wait_from_now();
            }
            connection.head_is(head);
            return outcome;
        }
        match connection.receive(came.len()) {
            ReceivedBytes::Other => {}
            receive => self.note(came, matches!(receive, ReceivedBytes::NewHead)),
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ConnectionIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(done) = self.poll_reworded(cx, buf) {
            return done.map_ok(|()| buf.len());
        }
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.count(written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(done) = bufs.first().and_then(|head| self.poll_reworded(cx, head)) {
            return done.map_ok(|()| bufs.iter().map(|buf| buf.len()).sum());
        }
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.count(written)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        let lingering = match &mut wire.lingering {
            Some(lingering) => lingering,
            none => {
                ready!(Pin::new(&mut wire.io).poll_shutdown(cx))?;
                if !wire.connection.is_unread() {
                    return Poll::Ready(Ok(()));
                }
                none.insert(Lingering::new(wire.connection.env()))
            }
        };
        lingering.poll(wire.connection.env(), Pin::new(&mut wire.io), cx).map(Ok)
    }
}

impl Lingering {
    fn new(env: &Env) -> Box<Lingering> {
        let now = env.monotonic();
        Box::new(Lingering {
            left: UNREAD_BYTES,
            ends: Box::pin(env.sleep_until(now + UNREAD_TIME)),
            pause: Box::pin(env.sleep_until(now + UNREAD_PAUSE)),
            buffer: [0; 16 << 10],
        })
    }

    /// However it ends, the connection closes then.
    fn poll(&mut self, env: &Env, mut io: Pin<&mut impl AsyncRead>, cx: &mut Context<'_>) -> Poll<()> {
        while self.left > 0 && self.ends.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut self.buffer);
            match io.as_mut().poll_read(cx, &mut buf) {
                Poll::Pending => return self.pause.as_mut().poll(cx),
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.left = self.left.saturating_sub(buf.filled().len());
                    self.pause.as_mut().reset(env.monotonic() + UNREAD_PAUSE);
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}
