//! A watch's body: a cursor the connection pulls, up to 64 KiB at a time. Nothing is queued for a slow reader.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use catalog::Catalog;
use codec::protobuf;
use env::Env;
use object::Status;
use registry::{Watch, WatchStart};
use table::{Cursor, EventKind, Obj, WatchEvent};
use tokio::time::Sleep;

use crate::metrics::LongRunning;
use crate::negotiate::Encoding;
use crate::shutdown::Shutdown;
use crate::views;

/// How much one poll of the connection takes from the cursor.
const PULL: usize = 64 * 1024;
/// No clock counts much further.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
/// A bookmark about once a minute, and shortly before the watch ends.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How one event's object is written (as itself, as a Table, as metadata).
pub type WriteObject = Box<dyn FnMut(&Obj, &mut Vec<u8>) + Send + Sync>;
/// How a bookmark at a revision is written; true: the one that ends the initial events.
pub type WriteBookmark = Box<dyn FnMut(u64, bool, &mut Vec<u8>) + Send + Sync>;

/// How events are told apart on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A line of JSON each.
    Lines,
    /// A length and a protobuf message each; what is written into it are protobuf bodies too.
    Protobuf,
}

impl Framing {
    pub fn content_type(self) -> &'static str {
        match self {
            Framing::Lines => "application/json",
            Framing::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Appends one event around what `write` appends.
    fn event(self, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Framing::Lines => {
                out.extend_from_slice(b"{\"type\":\"");
                out.extend_from_slice(kind.as_bytes());
                out.extend_from_slice(b"\",\"object\":");
                write(out);
                out.extend_from_slice(b"}\n");
            }
            Framing::Protobuf => {
                let mut object = Vec::new();
                write(&mut object);
                protobuf::encode_event(kind, &object, out);
            }
        }
    }
}

pub struct WatchBody {
    initial: VecDeque<Arc<Obj>>,
    /// Revision of the bookmark that ends the initial events, until it was sent.
    end_of_initial: Option<u64>,
    cursor: Cursor,
    catalog: Arc<Catalog>,
    framing: Framing,
    events: Vec<WatchEvent>,
    write_object: WriteObject,
    write_bookmark: WriteBookmark,
    bookmark: Option<Pin<Box<Sleep>>>,
    timeout: Pin<Box<Sleep>>,
    deadline: tokio::time::Instant,
    env: Env,
    shutdown: Shutdown,
    ended: bool,
    /// Its objects cannot be shown in the form that was asked for: the first one is the end, and nothing is said of it.
    unshowable: bool,
    /// Counts this watch while it lives, and its events.
    gauge: LongRunning,
}

pub struct WatchSettings {
    pub catalog: Arc<Catalog>,
    pub framing: Framing,
    pub bookmarks: bool,
    pub unshowable: bool,
    pub timeout: Duration,
    pub env: Env,
    pub shutdown: Shutdown,
    pub gauge: LongRunning,
}

impl WatchBody {
    pub fn new(
        watch: Watch,
        settings: WatchSettings,
        write_object: WriteObject,
        write_bookmark: WriteBookmark,
    ) -> WatchBody {
        let (initial, end_of_initial) = match watch.start {
            WatchStart::Changes => (VecDeque::new(), None),
            WatchStart::State { items, revision, end_bookmark } => {
                (items.into(), end_bookmark.then_some(revision.0))
            }
        };
        let deadline = settings.env.monotonic() + settings.timeout.min(LONGEST);
        let bookmark = settings
            .bookmarks
            .then(|| Box::pin(settings.env.sleep_until(next_bookmark(&settings.env, deadline))));
        WatchBody {
            initial,
            end_of_initial,
            cursor: watch.cursor,
            catalog: settings.catalog,
            framing: settings.framing,
            events: Vec::new(),
            write_object,
            write_bookmark,
            bookmark,
            timeout: Box::pin(settings.env.sleep_until(deadline)),
            deadline,
            env: settings.env,
            shutdown: settings.shutdown,
            ended: false,
            unshowable: settings.unshowable,
            gauge: settings.gauge,
        }
    }

    /// When it ends at the latest.
    pub fn deadline(&self) -> tokio::time::Instant {
        self.deadline
    }

    /// The next stretch of events; `None` ends the response.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        let mut at_end = true;
        self.take_initial(&mut out);
        if out.len() < PULL && self.initial.is_empty() {
            match self.cursor.pull(&mut self.events, PULL) {
                Ok(all) => {
                    at_end = all;
                    self.take_events(&mut out);
                }
                Err(_) => {
                    self.ended = true;
                    let status = Status::expired("the watch fell behind the history kept; list again");
                    error_event(&self.catalog, self.framing, &status, &mut out);
                }
            }
        }
        if !out.is_empty() {
            return self.told(out);
        }
        if self.shutdown.poll_begun(cx) || self.timeout.as_mut().poll(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(None);
        }
        if !at_end {
            // A long log in which nothing is selected: others get a turn in between.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(bookmark) = &mut self.bookmark
            && bookmark.as_mut().poll(cx).is_ready()
        {
            bookmark.as_mut().reset(next_bookmark(&self.env, self.deadline));
            // The cursor is at the end of the log: all up to here was sent.
            self.bookmark_event(self.cursor.caught_up().0, false, &mut out);
            cx.waker().wake_by_ref();
            return self.told(out);
        }
        if self.cursor.poll_changed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Events on their way out. One that ended the watch already tells why, and every form has words for that.
    fn told(&mut self, events: Vec<u8>) -> Poll<Option<Bytes>> {
        if self.unshowable && !self.ended {
            self.ended = true;
            return Poll::Ready(None);
        }
        Poll::Ready(Some(events.into()))
    }

    fn take_initial(&mut self, out: &mut Vec<u8>) {
        while out.len() < PULL
            && let Some(obj) = self.initial.pop_front()
        {
            self.event("ADDED", &obj, out);
        }
        if self.initial.is_empty()
            && let Some(revision) = self.end_of_initial.take()
        {
            self.bookmark_event(revision, true, out);
        }
    }

    fn take_events(&mut self, out: &mut Vec<u8>) {
        if self.events.is_empty() {
            return;
        }
        let events = std::mem::take(&mut self.events);
        out.reserve(events.iter().map(|e| e.obj.body().len() + 48).sum());
        for event in &events {
            let kind = match event.kind {
                EventKind::Added => "ADDED",
                EventKind::Modified => "MODIFIED",
                EventKind::Deleted => "DELETED",
            };
            self.event(kind, &event.obj, out);
        }
        // Keep the room for the next pull.
        self.events = events;
        self.events.clear();
    }

    fn event(&mut self, kind: &str, obj: &Obj, out: &mut Vec<u8>) {
        let before = out.len();
        self.framing.event(kind, out, |out| (self.write_object)(obj, out));
        self.gauge.event(out.len() - before);
    }

    fn bookmark_event(&mut self, revision: u64, end_of_initial: bool, out: &mut Vec<u8>) {
        let before = out.len();
        self.framing.event("BOOKMARK", out, |out| (self.write_bookmark)(revision, end_of_initial, out));
        self.gauge.event(out.len() - before);
    }
}

/// An ERROR event: how a running watch is told that it failed.
pub fn error_event(catalog: &Catalog, framing: Framing, status: &Status, out: &mut Vec<u8>) {
    let encoding = match framing {
        Framing::Lines => Encoding::Json,
        Framing::Protobuf => Encoding::Protobuf,
    };
    let object = views::encode_value(catalog, &status.to_value(), encoding);
    framing.event("ERROR", out, |out| out.extend_from_slice(&object));
}

fn next_bookmark(env: &Env, deadline: tokio::time::Instant) -> tokio::time::Instant {
    let now = env.monotonic();
    let regular = now + BOOKMARK_EVERY;
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now && last < regular => last,
        // Between the last bookmark and the end: every second, as upstream does.
        _ if deadline < now + BOOKMARK_BEFORE_END => now + Duration::from_secs(1),
        _ => regular,
    }
}
