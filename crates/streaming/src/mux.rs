//! What SPDY connections and WebSocket channels share: many buffered streams on one connection, and the task that moves
//! their bytes.
//!
//! ```text
//!   Stream::write ──▶ outbox ──▶ Encode ──▶ socket          bounded by OUTBOX_BYTES
//!   Stream::read  ◀── received ◀── Decode ◀── socket        bounded by STREAM_BYTES and CONNECTION_BYTES
//! ```

mod drive;
mod state;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use drive::{Timing, drive};
pub(crate) use state::Remote;
use state::{Entry, State};

use crate::Stream;
use crate::spdy::Headers;

/// What may wait to be written: enough to keep a fast network busy, little enough that a writer soon notices a slow one.
const OUTBOX_BYTES: usize = 256 << 10;
/// Answers nobody reads (to pings, to refused streams) are not data, and so need a bound of their own.
const OUTBOX_CONTROL_FRAMES: usize = 1024;
/// What one stream may hold unread before the connection stops reading.
const STREAM_BYTES: usize = 256 << 10;
/// The same for all streams of a connection.
const CONNECTION_BYTES: usize = 4 << 20;
/// What a queued piece costs beside its bytes, so that a flood of tiny pieces is bounded, too.
const PIECE_OVERHEAD: usize = 64;
/// Streams a peer may have open: a thousand forwarded connections, two streams each.
const MAX_STREAMS: usize = 2048;
/// The largest piece of data written as one frame.
pub(crate) const MAX_PIECE: usize = 32 << 10;

/// A frame to be written, before it has a wire format.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Open { id: u32, headers: Headers },
    Reply(u32),
    Data { id: u32, data: Bytes },
    Finish(u32),
    Reset { id: u32, status: u32 },
    Ping(u32),
    Pong(Bytes),
    Close,
}

impl Outgoing {
    fn size(&self) -> usize {
        match self {
            Outgoing::Data { data, .. } => data.len() + PIECE_OVERHEAD,
            _ => PIECE_OVERHEAD,
        }
    }

    /// Whether the peer alone can cause it, without anything of ours being sent.
    fn is_answer(&self) -> bool {
        matches!(self, Outgoing::Reset { .. } | Outgoing::Pong(_) | Outgoing::Ping(_))
    }
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// One side said goodbye.
    Closed,
    /// It broke, or a side broke the protocol; the reason is for people.
    Lost(String),
}

/// What a decoder says after the bytes it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// The peer said goodbye; nothing after it counts.
    End,
}

/// Turns received bytes into calls of the [`Mux`].
pub(crate) trait Decode: Send + 'static {
    /// Consumes what is complete in `input`; what remains is bounded by the decoder.
    fn decode(&mut self, input: &mut BytesMut, mux: &Arc<Mux>) -> Result<Flow, String>;
}

/// Turns queued frames into bytes.
pub(crate) trait Encode: Send + 'static {
    fn encode(&mut self, frame: Outgoing, output: &mut BytesMut);
}

pub(crate) struct Mux {
    /// Guards all streams and both queues; held for a few instructions, never across an await.
    state: Mutex<State>,
}

impl Mux {
    /// `first_id`: of the streams opened here.
    pub(crate) fn new(first_id: u32, now: Instant) -> Arc<Mux> {
        Arc::new(Mux { state: Mutex::new(State::new(first_id, now)) })
    }

    // For decoders: what the peer did.

    /// A stream the peer opened. False: there are too many, or the id was used.
    pub(crate) fn incoming(&self, id: u32, headers: Headers, finished: bool) -> bool {
        let mut state = self.state.lock();
        if state.streams.len() >= MAX_STREAMS || state.streams.contains_key(&id) || state.over() {
            return false;
        }
        let mut entry = Entry::new(headers);
        if finished {
            entry.remote = Remote::Finished;
        }
        state.streams.insert(id, entry);
        state.accepting.push_back(id);
        wake(&mut state.acceptor);
        true
    }

    /// Data for a stream that is gone is dropped: its reader does not want it.
    pub(crate) fn deliver(&self, id: u32, data: Bytes) {
        let mut state = self.state.lock();
        state.deliver(id, data);
    }

    pub(crate) fn remote_ended(&self, id: u32, how: Remote) {
        let mut state = self.state.lock();
        if let Some(entry) = state.streams.get_mut(&id) {
            entry.end_remote(how);
        }
    }

    pub(crate) fn replied(&self, id: u32) {
        let mut state = self.state.lock();
        if let Some(entry) = state.streams.get_mut(&id) {
            entry.replied = true;
            wake(&mut entry.reader);
        }
    }

    /// Queues an answer to something the peer sent. False: it sends without reading the answers.
    pub(crate) fn answer(&self, frame: Outgoing) -> bool {
        let mut state = self.state.lock();
        if state.answers >= OUTBOX_CONTROL_FRAMES {
            return false;
        }
        state.push(frame);
        true
    }

    // For connections and streams: what this side does.

    /// A stream that exists without being opened, as a WebSocket's channels do.
    pub(crate) fn fixed(self: &Arc<Mux>, id: u32) -> Stream {
        self.state.lock().streams.insert(id, Entry::replied());
        Stream::new(self.clone(), id, Headers::default())
    }

    /// The only stream of a connection that ends with it.
    pub(crate) fn sole(self: &Arc<Mux>) -> Stream {
        self.state.lock().sole = true;
        self.fixed(0)
    }

    /// Queues the opening of a new stream; none if the connection is over, or has used up its ids.
    pub(crate) fn open(self: &Arc<Mux>, headers: Headers) -> Option<Stream> {
        let mut state = self.state.lock();
        if state.over() || state.next_id > 0x7fff_ffff || state.streams.len() >= MAX_STREAMS {
            return None;
        }
        let id = state.next_id;
        state.next_id += 2;
        state.streams.insert(id, Entry::new(headers.clone()));
        state.push(Outgoing::Open { id, headers: headers.clone() });
        drop(state);
        Some(Stream::new(self.clone(), id, headers))
    }

    /// Until the peer replied to a stream opened here. False: it refused, or the connection is over.
    pub(crate) async fn reply(&self, id: u32) -> bool {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            let ended = state.end.is_some();
            match state.streams.get_mut(&id) {
                Some(entry) if entry.replied => Poll::Ready(true),
                Some(entry) if entry.remote == Remote::Open && !ended => {
                    entry.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(false),
            }
        })
        .await
    }

    /// The next stream the peer opened; none when the connection is over.
    pub(crate) async fn accept(self: &Arc<Mux>) -> Option<Stream> {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            while let Some(id) = state.accepting.pop_front() {
                if let Some(entry) = state.streams.get(&id) {
                    let headers = entry.headers.clone();
                    return Poll::Ready(Some(Stream::new(self.clone(), id, headers)));
                }
            }
            if state.over() {
                return Poll::Ready(None);
            }
            state.acceptor = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    pub(crate) fn send_reply(&self, id: u32) {
        let mut state = self.state.lock();
        if let Some(entry) = state.streams.get_mut(&id)
            && !entry.replied
        {
            entry.replied = true;
            state.push(Outgoing::Reply(id));
        }
    }

    pub(crate) fn ping(&self, id: u32) {
        self.answer(Outgoing::Ping(id));
    }

    /// Resets every open stream, says goodbye after what is queued, and accepts nothing more.
    pub(crate) fn close(&self) {
        self.state.lock().close();
    }

    /// Until the connection is over.
    pub(crate) async fn ended(&self) -> End {
        poll_fn(|cx| {
            let mut state = self.state.lock();
            match &state.end {
                Some(end) => Poll::Ready(end.clone()),
                None => {
                    state.watchers.retain(|other| !other.will_wake(cx.waker()));
                    state.watchers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    // For streams.

    pub(crate) fn poll_read(
        &self,
        id: u32,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<Bytes>> {
        self.state.lock().poll_read(id, most, cx)
    }

    /// Queues up to one piece of `data`; how much of it was taken.
    pub(crate) fn poll_write(
        &self,
        id: u32,
        data: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<std::io::Result<usize>> {
        self.state.lock().poll_write(id, data, cx)
    }

    pub(crate) fn finish(&self, id: u32) {
        self.state.lock().finish(id);
    }

    pub(crate) fn reset(&self, id: u32, status: u32) {
        self.state.lock().reset(id, status);
    }
}

fn wake(waker: &mut Option<std::task::Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
