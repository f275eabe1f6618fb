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

use crate::accounting::{Charge, Exchange};
use crate::body::Body;
use crate::list_body::ListBody;
use crate::watch_body::WatchBody;

/// How long the next piece of an answer may lie ready, and how long when there are too many of them.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const FETCH_TIMEOUT_UNDER_PRESSURE: Duration = Duration::from_secs(5);
/// As much is handed over at a time.
pub(crate) const CHUNK_BYTES: usize = 128 * 1024;
/// How long one waits where too much is held, before it looks again.
pub(crate) const RECHECK_DELAY: Duration = Duration::from_millis(50);
/// Nothing lies ready: the connection waits for us.
const NOTHING: u64 = u64::MAX;

/// An answer's body, taken a piece at a time.
pub struct ResponseBody {
    source: Source,
    /// What is made of it and not taken.
    charge: Charge,
    /// Runs while too much is held for more to be made.
    recheck: Option<Pin<Box<Sleep>>>,
}

enum Source {
    Whole(Bytes),
    List(Box<ListBody>, Bytes),
    Watch(Box<WatchBody>),
}

/// Bytes on their way to the socket; the connection knows of them until they are sent.
pub struct Chunk {
    bytes: Bytes,
    /// With whose connection, and how many there were; `None` for the last piece, which is empty.
    queued_with: Option<(Arc<Exchange>, usize)>,
}

impl Chunk {
    pub fn empty() -> Chunk {
        Chunk { bytes: Bytes::new(), queued_with: None }
    }
    fn new(bytes: Bytes, exchange: &Arc<Exchange>) -> Chunk {
        exchange.connection().queue_for_send(bytes.len());
        let queued_with = Some((exchange.clone(), bytes.len()));
        Chunk { bytes, queued_with }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some((exchange, bytes)) = &self.queued_with {
            exchange.connection().sent(*bytes);
        }
    }
}

impl Buf for Chunk {
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

impl ResponseBody {
    pub fn new(body: Body, exchange: Arc<Exchange>) -> ResponseBody {
        let source = match body {
            Body::Whole(bytes) => Source::Whole(bytes.unwrap_or_default()),
            Body::List(list) => Source::List(list, Bytes::new()),
            Body::Watch(watch) => Source::Watch(watch),
        };
        let mut body = ResponseBody { source, charge: Charge::new(exchange), recheck: None };
        body.weigh();
        body
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
                    self.rewind();
                    return Poll::Pending;
                }
                if let Source::List(list, _) = &mut self.source {
                    ready!(list.poll_permit(cx));
                }
            }
            Source::Watch(watch) if watch.is_inside_event() => return Poll::Ready(true),
            Source::Watch(_) => {}
        }
        let Source::Watch(watch) = &mut self.source else { return Poll::Ready(true) };
        let more = ready!(watch.poll_ready(cx));
        if more && self.poll_budget(cx).is_pending() {
            self.rewind();
            return Poll::Pending;
        }
        Poll::Ready(more)
    }

    /// Ready unless too much is held for more to be made.
    fn poll_budget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let exchange = self.charge.exchange();
            // Lists are large; an event is not kept from its watchers by what others do not fetch.
            if !exchange.is_over_limit() && (self.is_watch() || !exchange.is_server_full()) {
                self.recheck = None;
                return Poll::Ready(());
            }
            let env = self.charge.exchange().connection().env();
            let recheck = self
                .recheck
                .get_or_insert_with(|| Box::pin(env.sleep_until(env.monotonic() + RECHECK_DELAY)));
            ready!(recheck.as_mut().poll(cx));
            self.recheck = None;
        }
    }

    /// What is ready cannot be sent: nothing is held for it.
    pub fn rewind(&mut self) {
        match &mut self.source {
            Source::Watch(watch) => watch.rewind(),
            Source::List(list, _) => list.release_permit(),
            Source::Whole(_) => {}
        }
    }

    /// So much might be taken at once.
    pub fn wanted(&self) -> usize {
        match &self.source {
            Source::Whole(rest) => rest.len().min(CHUNK_BYTES),
            _ => CHUNK_BYTES,
        }
    }

    /// At most so many bytes of what is ready.
    pub fn take(&mut self, most: usize) -> Chunk {
        let most = most.min(CHUNK_BYTES);
        let bytes = match &mut self.source {
            Source::Whole(rest) => rest.split_to(most.min(rest.len())),
            Source::List(list, rest) => {
                if rest.is_empty() {
                    *rest = list.chunk_of(most).unwrap_or_default();
                    list.release_permit();
                }
                rest.split_to(most.min(rest.len()))
            }
            Source::Watch(watch) => watch.take(most),
        };
        self.weigh();
        Chunk::new(bytes, self.charge.exchange())
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
pub struct Http1Body {
    body: Http1Source,
    exchange: Arc<Exchange>,
    size: Option<u64>,
    ended: bool,
}

enum Http1Source {
    /// Taken at once.
    Small(Bytes),
    /// Taken a piece at a time; with its number among those of the connection.
    ChunkedBody(Arc<ChunkedBody>, u64),
}

/// The body of an answer, until it is sent or let go.
pub struct ChunkedBody {
    /// Guards it between the connection that sends it and the one look that lets it go.
    body: Mutex<Option<ResponseBody>>,
    /// Since when the next piece lies ready, in milliseconds of the connection's time.
    ready_since: AtomicU64,
}

/// The rest of an answer is gone.
#[derive(Debug, thiserror::Error)]
#[error("the client fetched nothing of the answer for a minute")]
pub struct NotFetched;

impl Http1Body {
    pub fn new(body: Body, exchange: Arc<Exchange>) -> Http1Body {
        let body = match body {
            Body::Whole(bytes) if bytes.as_ref().is_none_or(|bytes| bytes.len() <= CHUNK_BYTES) => {
                let bytes = bytes.unwrap_or_default();
                let (size, ended) = (Some(bytes.len() as u64), bytes.is_empty());
                return Http1Body { body: Http1Source::Small(bytes), exchange, size, ended };
            }
            body => body,
        };
        let body = ResponseBody::new(body, exchange.clone());
        let size = body.exact_size();
        let ready_since = AtomicU64::new(exchange.connection().age());
        let chunked = Arc::new(ChunkedBody { body: Mutex::new(Some(body)), ready_since });
        let number = exchange.connection().register_chunked(&chunked);
        Http1Body { body: Http1Source::ChunkedBody(chunked, number), exchange, size, ended: false }
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        if let Http1Source::ChunkedBody(_, number) = self.body {
            self.exchange.connection().answered(number);
        }
    }
}

impl ChunkedBody {
    /// Lets go of what nobody fetched in time. True if there was anything.
    pub fn drop_if_unfetched(&self, now: u64) -> bool {
        let since = self.ready_since.load(Ordering::Acquire);
        if since == NOTHING {
            return false;
        }
        let mut body = self.body.lock();
        let Some(held) = &*body else { return false };
        let limit =
            if held.exchange().is_under_pressure() { FETCH_TIMEOUT_UNDER_PRESSURE } else { FETCH_TIMEOUT };
        // hyper asks for more when all it has is sent: until then something must be.
        let since = since.max(held.exchange().connection().sent_at());
        let late = now.saturating_sub(since) >= limit.as_millis() as u64;
        late && body.take().is_some()
    }
}

impl http_body::Body for Http1Body {
    type Data = Chunk;
    type Error = NotFetched;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, NotFetched>>> {
        let Http1Body { body, exchange, ended, .. } = &mut *self;
        let chunked = match body {
            Http1Source::Small(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Http1Source::Small(bytes) => {
                *ended = true;
                let chunk = Chunk::new(std::mem::take(bytes), exchange);
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            Http1Source::ChunkedBody(chunked, _) => chunked,
        };
        let mut body = chunked.body.lock();
        let Some(body) = &mut *body else { return Poll::Ready(Some(Err(NotFetched))) };
        let connection = exchange.connection();
        let ready = body.poll_ready(cx);
        if ready.is_pending() {
            chunked.ready_since.store(NOTHING, Ordering::Release);
        }
        if !ready!(ready) {
            return Poll::Ready(None);
        }
        if connection.poll_room(cx).is_pending() {
            body.rewind();
            let _ = chunked.ready_since.compare_exchange(
                NOTHING,
                connection.age(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            return Poll::Pending;
        }
        let chunk = body.take(CHUNK_BYTES);
        chunked.ready_since.store(connection.age(), Ordering::Release);
        *ended = body.is_end();
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }
    fn is_end_stream(&self) -> bool {
        self.ended
    }
    fn size_hint(&self) -> SizeHint {
        self.size.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
