//! The streams and queues of one connection, without I/O.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tokio::time::Instant;

use super::{CONNECTION_BYTES, End, MAX_PIECE, OUTBOX_BYTES, Outgoing, PIECE_OVERHEAD, STREAM_BYTES, wake};
use crate::spdy::Headers;
use crate::spdy::frame::status;

/// The peer's half of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    Open,
    Finished,
    Reset,
}

pub(super) struct Entry {
    pub headers: Headers,
    /// Both halves wait for the reply of the side that did not open the stream.
    pub replied: bool,
    pub remote: Remote,
    finished: bool,
    received: VecDeque<Bytes>,
    received_bytes: usize,
    pub reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Entry {
    pub fn new(headers: Headers) -> Entry {
        Entry {
            headers,
            replied: false,
            remote: Remote::Open,
            finished: false,
            received: VecDeque::new(),
            received_bytes: 0,
            reader: None,
            writer: None,
        }
    }

    pub fn replied() -> Entry {
        Entry { replied: true, ..Entry::new(Headers::default()) }
    }

    pub fn end_remote(&mut self, how: Remote) {
        // A reset after a finish still says that our writes are unwanted.
        if self.remote == Remote::Open || how == Remote::Reset {
            self.remote = how;
        }
        wake(&mut self.reader);
        wake(&mut self.writer);
    }

    fn is_full(&self) -> bool {
        self.received_bytes >= STREAM_BYTES
    }
}

pub(super) struct State {
    pub streams: BTreeMap<u32, Entry>,
    pub next_id: u32,
    /// Opened by the peer, not yet accepted here.
    pub accepting: VecDeque<u32>,
    pub acceptor: Option<Waker>,
    pub outbox: VecDeque<Outgoing>,
    /// Of the outbox, and of what was taken from it and is not yet written.
    outbox_bytes: usize,
    /// How many frames of the outbox are answers.
    pub answers: usize,
    /// Streams whose writers wait for the outbox, in the order they came.
    blocked: VecDeque<u32>,
    pub writer: Option<Waker>,
    /// The connection's reader, when it waits for streams to be read.
    pub connection_reader: Option<Waker>,
    received_bytes: usize,
    full_streams: usize,
    /// Its one stream is all the connection is for.
    pub sole: bool,
    pub closing: bool,
    pub end: Option<End>,
    pub watchers: Vec<Waker>,
    /// When a byte last moved, for idle timeouts.
    pub active: Instant,
}

impl State {
    pub fn new(first_id: u32, now: Instant) -> State {
        State {
            streams: BTreeMap::new(),
            next_id: first_id,
            accepting: VecDeque::new(),
            acceptor: None,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            answers: 0,
            blocked: VecDeque::new(),
            writer: None,
            connection_reader: None,
            received_bytes: 0,
            full_streams: 0,
            sole: false,
            closing: false,
            end: None,
            watchers: Vec::new(),
            active: now,
        }
    }

    pub fn over(&self) -> bool {
        self.closing || self.end.is_some()
    }

    pub fn has_room(&self) -> bool {
        self.full_streams == 0 && self.received_bytes < CONNECTION_BYTES
    }

    pub fn push(&mut self, frame: Outgoing) {
        if self.over() {
            return;
        }
        self.outbox_bytes += frame.size();
        self.answers += usize::from(frame.is_answer());
        self.outbox.push_back(frame);
        wake(&mut self.writer);
    }

    /// Everything queued, and its cost, to be given back by [`State::written`].
    pub fn take_outbox(&mut self) -> (VecDeque<Outgoing>, usize) {
        self.answers = 0;
        let frames = std::mem::take(&mut self.outbox);
        let size = frames.iter().map(Outgoing::size).sum();
        (frames, size)
    }

    pub fn written(&mut self, size: usize, now: Instant) {
        self.active = now;
        self.outbox_bytes = self.outbox_bytes.saturating_sub(size);
        for id in std::mem::take(&mut self.blocked) {
            if let Some(entry) = self.streams.get_mut(&id) {
                wake(&mut entry.writer);
            }
        }
    }

    pub fn deliver(&mut self, id: u32, data: Bytes) {
        let Some(entry) = self.streams.get_mut(&id) else { return };
        if entry.remote != Remote::Open || data.is_empty() {
            return;
        }
        let was_full = entry.is_full();
        let size = data.len() + PIECE_OVERHEAD;
        entry.received.push_back(data);
        entry.received_bytes += size;
        self.received_bytes += size;
        self.full_streams += usize::from(!was_full && entry.is_full());
        wake(&mut entry.reader);
    }

    pub fn poll_read(&mut self, id: u32, most: usize, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let Some(entry) = self.streams.get_mut(&id) else { return Poll::Ready(Ok(Bytes::new())) };
        let Some(mut piece) = entry.received.pop_front() else {
            return match (entry.remote, &self.end) {
                // To a reader a reset is an end: kubelet and containerd end their output that way.
                (Remote::Finished | Remote::Reset, _) | (_, Some(End::Closed)) => {
                    Poll::Ready(Ok(Bytes::new()))
                }
                (_, Some(End::Lost(reason))) => {
                    Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason.clone())))
                }
                (Remote::Open, None) => {
                    entry.reader = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        };
        let was_full = entry.is_full();
        let mut size = piece.len() + PIECE_OVERHEAD;
        if piece.len() > most {
            entry.received.push_front(piece.split_off(most));
            size = most;
        }
        entry.received_bytes -= size;
        self.received_bytes -= size;
        self.full_streams -= usize::from(was_full && !entry.is_full());
        self.wake_connection_reader();
        Poll::Ready(Ok(piece))
    }

    pub fn poll_write(&mut self, id: u32, data: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Some(entry) = self.streams.get_mut(&id) else { return broken("the stream was reset") };
        if entry.finished {
            return broken("the stream is closed");
        }
        if entry.remote == Remote::Reset {
            return broken("the stream was reset by the peer");
        }
        if self.closing || self.end.is_some() {
            return broken("the connection is closed");
        }
        if self.outbox_bytes >= OUTBOX_BYTES {
            if entry.writer.is_none() {
                self.blocked.push_back(id);
            }
            entry.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let data = &data[..data.len().min(MAX_PIECE)];
        self.push(Outgoing::Data { id, data: Bytes::copy_from_slice(data) });
        Poll::Ready(Ok(data.len()))
    }

    pub fn finish(&mut self, id: u32) {
        if self.over() {
            return;
        }
        let Some(entry) = self.streams.get_mut(&id) else { return };
        if !entry.finished && entry.remote != Remote::Reset {
            entry.finished = true;
            self.push(Outgoing::Finish(id));
        }
    }

    /// Forgets a stream, and tells the peer unless it knows.
    pub fn reset(&mut self, id: u32, status: u32) {
        let Some(entry) = self.streams.remove(&id) else { return };
        self.forget(&entry);
        let over = entry.remote == Remote::Reset || (entry.finished && entry.remote == Remote::Finished);
        if !over && !self.over() {
            self.push(Outgoing::Reset { id, status });
        }
        if self.sole {
            self.close();
        }
    }

    /// Its unread bytes no longer count.
    fn forget(&mut self, entry: &Entry) {
        self.received_bytes -= entry.received_bytes;
        self.full_streams -= usize::from(entry.is_full());
        self.wake_connection_reader();
    }

    fn wake_connection_reader(&mut self) {
        if self.has_room() {
            wake(&mut self.connection_reader);
        }
    }

    pub fn close(&mut self) {
        if self.over() {
            return;
        }
        for (id, mut entry) in std::mem::take(&mut self.streams) {
            let over = entry.remote == Remote::Reset || (entry.finished && entry.remote == Remote::Finished);
            if !over {
                self.push(Outgoing::Reset { id, status: status::CANCEL });
            }
            self.forget(&entry);
            entry.end_remote(Remote::Reset);
        }
        self.say_goodbye();
    }

    /// The peer said goodbye: what it sent before stays readable.
    pub fn peer_closed(&mut self) {
        for entry in self.streams.values_mut() {
            entry.end_remote(Remote::Finished);
        }
        self.say_goodbye();
    }

    fn say_goodbye(&mut self) {
        self.push(Outgoing::Close);
        self.closing = true;
        wake(&mut self.acceptor);
        wake(&mut self.writer);
        wake(&mut self.connection_reader);
    }

    pub fn finished(&mut self, end: End) {
        self.end = Some(end);
        self.outbox.clear();
        wake(&mut self.acceptor);
        for entry in self.streams.values_mut() {
            wake(&mut entry.reader);
            wake(&mut entry.writer);
        }
        for waker in self.watchers.drain(..) {
            waker.wake();
        }
    }
}

fn broken(reason: &'static str) -> Poll<io::Result<usize>> {
    Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, reason)))
}
