//! An answer on its way out: taken as fast as its client fetches it, and what becomes of one that nobody fetches.
//!
//! ```text
//!  poll_ready ──> something to send?  ──> room on the connection, a window (HTTP/2)  ──> take(as much as that)
//!                                         none: a watch goes back to its cursor, a list to its items
//! ```
//!
//! Nothing is made before it can be sent, but for answers that are made as a whole; what is made counts for the connection, the
//! user and all of them ([`crate::ledger`]). A client that takes nothing for a minute has lost interest: what is left is let
//! go, though over HTTP/2 its connection goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Sleep;

use crate::body::Body;
use crate::ledger::{Charge, Exchange};
use crate::list_body::ListBody;
use crate::watch_body::WatchBody;

/// How long the next piece of an answer may lie ready, and how long when there are too many of them.
pub(crate) const UNFETCHED: Duration = Duration::from_secs(60);
pub(crate) const UNFETCHED_PRESSED: Duration = Duration::from_secs(5);
/// As much is handed over at a time.
pub(crate) const PIECE: usize = 128 * 1024;
/// How long one waits where too much is held, before it looks again.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);
/// Nothing lies ready: the connection waits for us.
const NOTHING: u64 = u64::MAX;

/// An answer's body, taken a piece at a time.
pub struct Sending {
    source: Source,
    /// What is made of it and not taken.
    charge: Charge,
    /// Runs while too much is held for more to be made.
    again: Option<Pin<Box<Sleep>>>,
}

enum Source {
    Whole(Bytes),
    List(Box<ListBody>, Bytes),
    Watch(Box<WatchBody>),
}

/// Bytes on their way to the socket; the connection knows of them until they are sent.
pub struct Piece {
    bytes: Bytes,
    /// With whose connection, and how many there were; `None` for the last piece, which is empty.
    handed_over: Option<(Arc<Exchange>, usize)>,
}

impl Piece {
    pub fn empty() -> Piece {
        Piece { bytes: Bytes::new(), handed_over: None }
    }
    fn new(bytes: Bytes, exchange: &Arc<Exchange>) -> Piece {
        exchange.connection().handed_over(bytes.len());
        let handed_over = Some((exchange.clone(), bytes.len()));
        Piece { bytes, handed_over }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some((exchange, bytes)) = &self.handed_over {
            exchange.connection().sent(*bytes);
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }
    fn chunk(&self) -> &[u8] {
        &self.bytes
    }
    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

impl Sending {
    pub fn new(body: Body, exchange: Arc<Exchange>) -> Sending {
        let source = match body {
            Body::Whole(bytes) => Source::Whole(bytes.unwrap_or_default()),
            Body::List(list) => Source::List(list, Bytes::new()),
            Body::Watch(watch) => Source::Watch(watch),
        };
        let mut sending = Sending { source, charge: Charge::new(exchange), again: None };
        sending.weigh();
        sending
    }

    pub fn exchange(&self) -> &Arc<Exchange> {
        self.charge.exchange()
    }

    /// A watch: it may live long.
    pub fn is_watch(&self) -> bool {
        matches!(self.source, Source::Watch(_))
    }

    fn weigh(&mut self) {
        let (made, items) = match &self.source {
            Source::Whole(rest) => (rest.len(), 0),
            Source::List(list, rest) => (rest.len(), list.weight()),
            Source::Watch(watch) => watch.weight(),
        };
        self.charge.set(made, items);
    }

    /// Ready when there is something to take (true), or nothing is left (false).
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        match &self.source {
            Source::Whole(rest) => return Poll::Ready(!rest.is_empty()),
            Source::List(_, rest) if !rest.is_empty() => return Poll::Ready(true),
            Source::List(list, _) if list.is_done() => return Poll::Ready(false),
            Source::List(..) => {
                if self.poll_budget(cx).is_pending() {
                    self.go_back();
                    return Poll::Pending;
                }
                if let Source::List(list, _) = &mut self.source {
                    ready!(list.poll_turn(cx));
                }
            }
            Source::Watch(watch) if watch.is_inside_event() => return Poll::Ready(true),
            Source::Watch(_) => {}
        }
        let Source::Watch(watch) = &mut self.source else { return Poll::Ready(true) };
        let more = ready!(watch.poll_ready(cx));
        if more && self.poll_budget(cx).is_pending() {
            self.go_back();
            return Poll::Pending;
        }
        Poll::Ready(more)
    }

    /// Ready unless too much is held for more to be made.
    fn poll_budget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let exchange = self.charge.exchange();
            // Lists are large; an event is not kept from its watchers by what others do not fetch.
            if !exchange.is_over() && (self.is_watch() || !exchange.is_full()) {
                self.again = None;
                return Poll::Ready(());
            }
            let env = self.charge.exchange().connection().env();
            let again = self.again.get_or_insert_with(|| Box::pin(env.sleep_until(env.monotonic() + AGAIN)));
            ready!(again.as_mut().poll(cx));
            self.again = None;
        }
    }

    /// What is ready cannot be sent: nothing is held for it.
    pub fn go_back(&mut self) {
        match &mut self.source {
            Source::Watch(watch) => watch.go_back(),
            Source::List(list, _) => list.turn_over(),
            Source::Whole(_) => {}
        }
    }

    /// So much might be taken at once.
    pub fn wanted(&self) -> usize {
        match &self.source {
            Source::Whole(rest) => rest.len().min(PIECE),
            _ => PIECE,
        }
    }

    /// At most so many bytes of what is ready.
    pub fn take(&mut self, most: usize) -> Piece {
        let most = most.min(PIECE);
        let bytes = match &mut self.source {
            Source::Whole(rest) => rest.split_to(most.min(rest.len())),
            Source::List(list, rest) => {
                if rest.is_empty() {
                    *rest = list.chunk_of(most).unwrap_or_default();
                    list.turn_over();
                }
                rest.split_to(most.min(rest.len()))
            }
            Source::Watch(watch) => watch.take(most),
        };
        self.weigh();
        Piece::new(bytes, self.charge.exchange())
    }

    /// What was taken was the last of it, as far as that is known.
    pub fn is_end(&self) -> bool {
        match &self.source {
            Source::Whole(rest) => rest.is_empty(),
            Source::List(list, rest) => rest.is_empty() && list.is_done(),
            Source::Watch(_) => false,
        }
    }

    pub fn exact_size(&self) -> Option<u64> {
        match &self.source {
            Source::Whole(rest) => Some(rest.len() as u64),
            _ => None,
        }
    }
}

/// An answer over HTTP/1, which hyper takes by itself.
pub struct Http1 {
    body: Held,
    exchange: Arc<Exchange>,
    size: Option<u64>,
    ended: bool,
}

enum Held {
    /// Taken at once.
    Small(Bytes),
    /// Taken a piece at a time; with its number among those of the connection.
    Pieces(Arc<Pieces>, u64),
}

/// The body of an answer, until it is sent or let go.
pub struct Pieces {
    /// Guards it between the connection that sends it and the one look that lets it go.
    sending: Mutex<Option<Sending>>,
    /// Since when the next piece lies ready, in milliseconds of the connection's time.
    ready_since: AtomicU64,
}

/// The rest of an answer is gone.
#[derive(Debug, thiserror::Error)]
#[error("the client fetched nothing of the answer for a minute")]
pub struct LetGo;

impl Http1 {
    pub fn new(body: Body, exchange: Arc<Exchange>) -> Http1 {
        let body = match body {
            Body::Whole(bytes) if bytes.as_ref().is_none_or(|bytes| bytes.len() <= PIECE) => {
                let bytes = bytes.unwrap_or_default();
                let (size, ended) = (Some(bytes.len() as u64), bytes.is_empty());
                return Http1 { body: Held::Small(bytes), exchange, size, ended };
            }
            body => body,
        };
        let sending = Sending::new(body, exchange.clone());
        let size = sending.exact_size();
        let ready_since = AtomicU64::new(exchange.connection().age());
        let pieces = Arc::new(Pieces { sending: Mutex::new(Some(sending)), ready_since });
        let number = exchange.connection().answers_in_pieces(&pieces);
        Http1 { body: Held::Pieces(pieces, number), exchange, size, ended: false }
    }
}

impl Drop for Http1 {
    fn drop(&mut self) {
        if let Held::Pieces(_, number) = self.body {
            self.exchange.connection().answered(number);
        }
    }
}

impl Pieces {
    /// Lets go of what nobody fetched in time. True if there was anything.
    pub fn let_go(&self, now: u64) -> bool {
        let since = self.ready_since.load(Ordering::Acquire);
        if since == NOTHING {
            return false;
        }
        let mut sending = self.sending.lock();
        let Some(held) = &*sending else { return false };
        let limit = if held.exchange().is_pressed() { UNFETCHED_PRESSED } else { UNFETCHED };
        // hyper asks for more when all it has is sent: until then something must be.
        let since = since.max(held.exchange().connection().sent_at());
        let late = now.saturating_sub(since) >= limit.as_millis() as u64;
        late && sending.take().is_some()
    }
}

impl http_body::Body for Http1 {
    type Data = Piece;
    type Error = LetGo;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, LetGo>>> {
        let Http1 { body, exchange, ended, .. } = &mut *self;
        let pieces = match body {
            Held::Small(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Held::Small(bytes) => {
                *ended = true;
                let piece = Piece::new(std::mem::take(bytes), exchange);
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            Held::Pieces(pieces, _) => pieces,
        };
        let mut sending = pieces.sending.lock();
        let Some(sending) = &mut *sending else { return Poll::Ready(Some(Err(LetGo))) };
        let connection = exchange.connection();
        let ready = sending.poll_ready(cx);
        if ready.is_pending() {
            pieces.ready_since.store(NOTHING, Ordering::Release);
        }
        if !ready!(ready) {
            return Poll::Ready(None);
        }
        if connection.poll_room(cx).is_pending() {
            sending.go_back();
            let _ = pieces.ready_since.compare_exchange(
                NOTHING,
                connection.age(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            return Poll::Pending;
        }
        let piece = sending.take(PIECE);
        pieces.ready_since.store(connection.age(), Ordering::Release);
        *ended = sending.is_end();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
    fn is_end_stream(&self) -> bool {
        self.ended
    }
    fn size_hint(&self) -> SizeHint {
        self.size.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
