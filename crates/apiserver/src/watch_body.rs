//! The body of a watch: a cursor that the connection pulls, as much at a time as it can send. Nothing is queued for a slow reader.
//!
//! ```text
//!  poll_ready ──> is there an event?  ──nothing can be sent──> rewind: the cursor returns to where it was
//!       └── take(most): this one and those after it, up to `most` bytes; the rest of a large one is kept for the next call
//! ```

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use catalog::Catalog;
use env::Env;
use object::{Obj, Status};
use registry::{Watch, WatchStart};
use store::BoxFuture;
use table::{Cursor, CursorPosition, EventKind, WatchEvent};
use tokio::time::Sleep;

use crate::flow_control::SeatGuard;
use crate::metrics::LongRunning;
use crate::run_queue::PermitPoller;
use crate::shutdown::Shutdown;
use crate::watch_framing::{Framing, error_event};

/// Bytes pulled at a time where the reader sets no limit.
const PULL: usize = 64 * 1024;
/// Objects of this size are not copied but shared by all watchers.
const SHARED_FROM: usize = 16 * 1024;
/// Longer timeouts overflow the clock.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
/// A bookmark about once a minute, and shortly before the watch ends.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch may send pending events after its timeout.
const LAST_EVENTS: Duration = Duration::from_secs(10);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How one event's object is written (as itself, as a Table, as metadata).
pub type WriteObject = Box<dyn FnMut(&Obj, &mut Vec<u8>) + Send + Sync>;
/// The same without a copy, for an encoding that is cached with the object.
pub type ShareObject = Box<dyn Fn(&Arc<Obj>) -> Bytes + Send + Sync>;
/// How a bookmark at a revision is written; true: the one that ends the initial events.
pub type WriteBookmark = Box<dyn FnMut(u64, bool, &mut Vec<u8>) + Send + Sync>;

/// Has a webhook convert the objects of events, where one does that. Some may then be of no interest.
pub type ConvertEvents = Box<dyn Fn(Vec<WatchEvent>) -> Converting + Send + Sync>;
type Converting = BoxFuture<'static, Result<Vec<WatchEvent>, Status>>;

pub struct WatchBody {
    initial: VecDeque<Arc<Obj>>,
    /// Revision of the bookmark that ends the initial events, until it was sent.
    end_of_initial: Option<u64>,
    cursor: Cursor,
    catalog: Arc<Catalog>,
    framing: Framing,
    /// The next event, and the position of the cursor before it.
    next: Option<(WatchEvent, CursorPosition)>,
    /// The log has no event after it.
    at_end: bool,
    /// Encoded and not taken.
    rest: VecDeque<Bytes>,
    /// Buffer for pulled events.
    pulled: Vec<WatchEvent>,
    convert: Option<ConvertEvents>,
    /// The conversion of what was pulled last, and the position of the cursor before it.
    converting: Option<(Converting, CursorPosition)>,
    /// What came of it and is not sent yet. The position holds as long as nothing of it was sent.
    converted: VecDeque<WatchEvent>,
    unconverted_at: Option<CursorPosition>,
    write_object: WriteObject,
    share: Option<ShareObject>,
    write_bookmark: WriteBookmark,
    bookmark: Option<Pin<Box<Sleep>>>,
    timeout: Pin<Box<Sleep>>,
    deadline: tokio::time::Instant,
    env: Env,
    shutdown: Shutdown,
    ended: bool,
    /// When its timeout was noticed.
    over_since: Option<tokio::time::Instant>,
    /// The objects cannot be shown in the requested form: the first one ends the watch without a message, as upstream.
    mismatched: bool,
    /// Counts this watch while it lives, and its events.
    gauge: LongRunning,
    /// Held until the initial events are sent, or dropped unfetched.
    seats: Option<SeatGuard>,
    /// For ordinary watches, and for any while it sends initial events.
    permit: Option<PermitPoller>,
    /// Ordinary: needs a permit for every event.
    queued: bool,
}

pub struct WatchSettings {
    pub catalog: Arc<Catalog>,
    pub framing: Framing,
    pub bookmarks: bool,
    pub mismatched: bool,
    pub timeout: Duration,
    pub env: Env,
    pub shutdown: Shutdown,
    pub gauge: LongRunning,
    pub share: Option<ShareObject>,
    pub convert: Option<ConvertEvents>,
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
            next: None,
            at_end: true,
            rest: VecDeque::new(),
            pulled: Vec::new(),
            convert: settings.convert,
            converting: None,
            converted: VecDeque::new(),
            unconverted_at: None,
            write_object,
            share: settings.share,
            write_bookmark,
            bookmark,
            timeout: Box::pin(settings.env.sleep_until(deadline)),
            deadline,
            env: settings.env,
            shutdown: settings.shutdown,
            ended: false,
            over_since: None,
            mismatched: settings.mismatched,
            gauge: settings.gauge,
            seats: None,
            permit: None,
            queued: false,
        }
    }

    /// Its seats, held while it sends initial events; and whether it uses the run queue after that.
    pub fn hold_seats(&mut self, mut seats: SeatGuard, queued: bool) {
        self.queued = queued;
        if queued || !self.initial.is_empty() {
            self.permit = Some(seats.poller());
        }
        if !self.initial.is_empty() {
            seats.sending();
            self.seats = Some(seats);
        }
    }

    fn release_permit(&mut self) {
        if let Some(permit) = &mut self.permit {
            permit.release();
        }
    }

    /// When it ends at the latest.
    pub fn deadline(&self) -> tokio::time::Instant {
        self.deadline
    }

    /// The next whole events; `None` ends the response.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !ready!(self.poll_ready(cx)) {
            return Poll::Ready(None);
        }
        self.write(PULL, false);
        Poll::Ready(self.rest.pop_front())
    }

    /// Ready when there is something to take (true) or the watch is over (false).
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if !self.rest.is_empty() {
            return Poll::Ready(true);
        }
        if self.initial.is_empty() {
            self.seats = None;
            if !self.queued {
                self.permit = None;
            }
        }
        if let Some(permit) = &mut self.permit {
            ready!(permit.poll(cx));
        }
        let polled = self.poll_next(cx);
        if polled != Poll::Ready(true) {
            self.release_permit();
        }
        polled
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.ended {
            return Poll::Ready(false);
        }
        if self.converting.is_some() {
            return self.poll_converted(cx);
        }
        let has_next = self.next.is_some() || !self.converted.is_empty();
        if !self.initial.is_empty() || self.end_of_initial.is_some() || has_next {
            return Poll::Ready(self.may_show());
        }
        if self.is_long_over() {
            self.ended = true;
            return Poll::Ready(false);
        }
        let place = self.cursor.position();
        let most = if self.convert.is_some() { PULL } else { 1 };
        match self.cursor.pull(&mut self.pulled, most) {
            Ok(at_end) => self.at_end = at_end,
            Err(_) => {
                self.end_with(&Status::expired("the watch fell behind the history kept; list again"));
                return Poll::Ready(true);
            }
        }
        if let Some(convert) = self.convert.as_ref().filter(|_| !self.pulled.is_empty()) {
            self.converting = Some((convert(std::mem::take(&mut self.pulled)), place));
            return self.poll_converted(cx);
        }
        if let Some(event) = self.pulled.pop() {
            self.next = Some((event, place));
            return Poll::Ready(self.may_show());
        }
        if self.shutdown.poll_begun(cx) || self.timeout.as_mut().poll(cx).is_ready() {
            self.ended = true;
            return Poll::Ready(false);
        }
        if !self.at_end {
            // A long log without a match: other tasks run in between.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(bookmark) = &mut self.bookmark
            && bookmark.as_mut().poll(cx).is_ready()
        {
            bookmark.as_mut().reset(next_bookmark(&self.env, self.deadline));
            if !self.may_show() {
                return Poll::Ready(false);
            }
            let mut out = Vec::new();
            // The cursor is at the end of the log: everything up to here was sent.
            self.bookmark_event(self.cursor.caught_up().0, false, &mut out);
            self.rest.push_back(out.into());
            return Poll::Ready(true);
        }
        if self.cursor.poll_changed(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Ready when events can be shown.
    fn poll_converted(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some((converting, place)) = &mut self.converting else { return Poll::Pending };
        let (converted, place) = (ready!(converting.as_mut().poll(cx)), *place);
        self.converting = None;
        match converted {
            Err(status) => self.end_with(&status),
            Ok(events) if events.is_empty() => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ok(events) => {
                self.converted = events.into();
                self.unconverted_at = Some(place);
                return Poll::Ready(self.may_show());
            }
        }
        Poll::Ready(true)
    }

    /// Ends the watch with an ERROR event, which every form has.
    fn end_with(&mut self, status: &Status) {
        self.ended = true;
        let mut out = Vec::new();
        error_event(&self.catalog, self.framing, status, &mut out);
        self.rest.push_back(out.into());
    }

    /// Whether its timeout passed so long ago that even pending events are dropped.
    fn is_long_over(&mut self) -> bool {
        let now = self.env.monotonic();
        if now < self.deadline && !self.shutdown.has_begun() {
            return false;
        }
        now >= *self.over_since.get_or_insert(now) + LAST_EVENTS
    }

    /// Nothing can be sent now: what is not encoded yet stays in the log, which is bounded, and is pulled again later.
    pub fn rewind(&mut self) {
        self.release_permit();
        if let Some((_, place)) = self.converting.take() {
            self.cursor.rewind(place);
        }
        // What was begun to be sent stays: it is one pull at most.
        if let Some(place) = self.unconverted_at.take() {
            self.converted.clear();
            self.cursor.rewind(place);
        }
        if let Some((_, place)) = self.next.take() {
            self.cursor.rewind(place);
        }
    }

    /// At most that many bytes, after [`WatchBody::poll_ready`] returned true.
    pub fn take(&mut self, most: usize) -> Bytes {
        if self.rest.is_empty() {
            self.write(most, true);
        }
        let Some(first) = self.rest.front_mut() else { return Bytes::new() };
        if first.len() > most {
            return first.split_to(most);
        }
        self.rest.pop_front().unwrap_or_default()
    }

    /// The encoded bytes, and the size of the initial objects.
    pub fn weight(&self) -> (usize, usize) {
        (self.rest.iter().map(Bytes::len).sum(), self.initial.len() * size_of::<Arc<Obj>>())
    }

    /// Whether an event is partly taken.
    pub fn is_inside_event(&self) -> bool {
        !self.rest.is_empty()
    }

    fn may_show(&mut self) -> bool {
        self.ended |= self.mismatched;
        !self.ended
    }

    /// Encodes events up to that many bytes.
    fn write(&mut self, most: usize, share: bool) {
        if let Some(seats) = &mut self.seats {
            seats.sending();
        }
        self.release_permit();
        let mut out = Vec::new();
        while out.len() < most
            && let Some(obj) = self.initial.pop_front()
        {
            if self.event("ADDED", &obj, share, &mut out) {
                return;
            }
        }
        if self.initial.is_empty()
            && let Some(revision) = self.end_of_initial.take()
        {
            self.bookmark_event(revision, true, &mut out);
        }
        while self.initial.is_empty()
            && out.len() < most
            && let Some(event) = self.converted.pop_front()
        {
            self.unconverted_at = None;
            if self.event(name(event.kind), &event.obj, share, &mut out) {
                return;
            }
        }
        if let Some((event, _)) = self.next.take() {
            if self.event(name(event.kind), &event.obj, share, &mut out) {
                return;
            }
            self.write_pulled(most, share, &mut out);
        }
        if !out.is_empty() {
            self.rest.push_back(out.into());
        }
    }

    /// Pulls and encodes what follows the next event.
    fn write_pulled(&mut self, most: usize, share: bool, out: &mut Vec<u8>) {
        if self.at_end || out.len() >= most {
            return;
        }
        let mut pulled = std::mem::take(&mut self.pulled);
        // An error is found again, and reported, by the next poll.
        let _ = self.cursor.pull(&mut pulled, most - out.len());
        out.reserve(pulled.iter().map(|event| event.obj.body().len() + 48).sum::<usize>().min(most));
        for event in pulled.drain(..) {
            // A shared object ends a chunk; the next events start another.
            self.event(name(event.kind), &event.obj, share, out);
        }
        self.pulled = pulled;
    }

    /// Appends one event. A large object is queued after `out` without a copy: then true, and `out` is empty.
    fn event(&mut self, kind: &str, obj: &Arc<Obj>, share: bool, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let shared = self.share.as_ref().filter(|_| share && obj.body().len() >= SHARED_FROM);
        let Some(object) = shared.map(|share| share(obj)) else {
            out.reserve(obj.body().len() + 48);
            self.framing.event(kind, out, |out| (self.write_object)(obj, out));
            self.gauge.event(out.len() - before);
            return false;
        };
        self.framing.head(kind, object.len(), out);
        self.gauge.event(out.len() - before + object.len() + self.framing.tail().len());
        self.rest.extend([std::mem::take(out).into(), object, Bytes::from_static(self.framing.tail())]);
        self.rest.retain(|piece| !piece.is_empty());
        true
    }

    fn bookmark_event(&mut self, revision: u64, end_of_initial: bool, out: &mut Vec<u8>) {
        let before = out.len();
        self.framing.event("BOOKMARK", out, |out| (self.write_bookmark)(revision, end_of_initial, out));
        self.gauge.event(out.len() - before);
    }
}

fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "ADDED",
        EventKind::Modified => "MODIFIED",
        EventKind::Deleted => "DELETED",
    }
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
