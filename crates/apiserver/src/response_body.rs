//! A response body: encoded as fast as its client fetches it, and dropped if it is not fetched.
//!
//! ```text
//!  poll_ready ──> anything to send? ──> room on the connection, and in the window (HTTP/2)? ──> take(that many bytes)
//!                                       no: rewind, so that nothing is held meanwhile
//! ```
//!
//! Lists and watches are encoded only when they can be sent. What is encoded is charged to the connection, the user and the server
//! ([`crate::accounting`]). If the client fetches nothing for a minute, the rest is dropped; over HTTP/2 the connection stays open.

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
use crate::proxied_body::{Broken, InWindow, ProxiedBody};
use crate::watch_body::WatchBody;

/// How long a chunk may wait to be fetched, and how long when the server holds too many.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const FETCH_TIMEOUT_UNDER_PRESSURE: Duration = Duration::from_secs(5);
/// The most that is queued for the socket at a time.
pub(crate) const CHUNK_BYTES: usize = 128 * 1024;
/// How often a body over the limit looks again.
pub(crate) const RECHECK_DELAY: Duration = Duration::from_millis(50);
/// No chunk waits to be fetched.
const NOTHING: u64 = u64::MAX;

/// A response body, taken chunk by chunk.
pub struct ResponseBody {
    source: Source,
    /// What is encoded and not taken.
    charge: Charge,
    /// Runs while the limit allows no more to be encoded.
    recheck: Option<Pin<Box<Sleep>>>,
}

enum Source {
    Whole(Bytes),
    List(Box<ListBody>, Bytes),
    Watch(Box<WatchBody>),
    Proxied(Box<ProxiedBody>),
}

/// Bytes queued for the socket, counted by the connection until they are sent.
pub struct Chunk {
    bytes: Bytes,
    /// The exchange and the number of bytes; `None` for the last chunk, which is empty, and in a window.
    queued_with: Option<(Arc<Exchange>, usize)>,
    /// Of a body with a window of its own.
    _in_window: Option<InWindow>,
}

impl Chunk {
    pub fn empty() -> Chunk {
        Chunk { bytes: Bytes::new(), queued_with: None, _in_window: None }
    }
    fn new(bytes: Bytes, exchange: &Arc<Exchange>) -> Chunk {
        exchange.connection().queue_for_send(bytes.len());
        let queued_with = Some((exchange.clone(), bytes.len()));
        Chunk { bytes, queued_with, _in_window: None }
    }
    fn in_window((bytes, held): (Bytes, InWindow)) -> Chunk {
        Chunk { bytes, queued_with: None, _in_window: Some(held) }
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
            Body::Proxied(proxied) => Source::Proxied(proxied),
        };
        let mut body = ResponseBody { source, charge: Charge::new(exchange), recheck: None };
        body.weigh();
        body
    }

    pub fn exchange(&self) -> &Arc<Exchange> {
        self.charge.exchange()
    }

    pub fn is_watch(&self) -> bool {
        matches!(self.source, Source::Watch(_))
    }

    pub fn is_proxied(&self) -> bool {
        matches!(self.source, Source::Proxied(_))
    }

    /// Nothing is left, but it is not complete.
    pub fn is_broken(&self) -> bool {
        matches!(&self.source, Source::Proxied(proxied) if proxied.is_broken())
    }

    fn weigh(&mut self) {
        let (made, items) = match &self.source {
            Source::Whole(rest) => (rest.len(), 0),
            Source::List(list, rest) => (rest.len(), list.weight()),
            Source::Watch(watch) => watch.weight(),
            Source::Proxied(proxied) => (proxied.weight(), 0),
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
            Source::Proxied(_) => return self.poll_proxied(cx),
        }
        let Source::Watch(watch) = &mut self.source else { return Poll::Ready(true) };
        let more = ready!(watch.poll_ready(cx));
        if more && self.poll_budget(cx).is_pending() {
            self.rewind();
            return Poll::Pending;
        }
        Poll::Ready(more)
    }

    fn poll_proxied(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        self.weigh();
        ready!(self.poll_budget(cx));
        let Source::Proxied(proxied) = &mut self.source else { return Poll::Ready(false) };
        let ready = proxied.poll_ready(cx);
        self.weigh();
        ready
    }

    /// Ready when the limit allows more to be encoded.
    fn poll_budget(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let exchange = self.charge.exchange();
            // Lists are large. Events are small, and must not be delayed by what others do not fetch.
            let small = self.is_watch() || self.is_proxied();
            if !exchange.is_over_limit() && (small || !exchange.is_server_full()) {
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

    /// What is ready cannot be sent now: gives back what is held for it.
    pub fn rewind(&mut self) {
        match &mut self.source {
            Source::Watch(watch) => watch.rewind(),
            Source::List(list, _) => list.release_permit(),
            Source::Whole(_) | Source::Proxied(_) => {}
        }
    }

    /// The most that could be taken now.
    pub fn wanted(&self) -> usize {
        match &self.source {
            Source::Whole(rest) => rest.len().min(CHUNK_BYTES),
            _ => CHUNK_BYTES,
        }
    }

    /// Takes at most that many bytes of what is ready.
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
            Source::Proxied(proxied) => {
                let chunk = Chunk::in_window(proxied.take(most));
                self.weigh();
                return chunk;
            }
        };
        self.weigh();
        Chunk::new(bytes, self.charge.exchange())
    }

    /// Whether the last chunk was taken, as far as that is known.
    pub fn is_end(&self) -> bool {
        match &self.source {
            Source::Whole(rest) => rest.is_empty(),
            Source::List(list, rest) => rest.is_empty() && list.is_done(),
            Source::Watch(_) | Source::Proxied(_) => false,
        }
    }

    pub fn exact_size(&self) -> Option<u64> {
        match &self.source {
            Source::Whole(rest) => Some(rest.len() as u64),
            _ => None,
        }
    }
}

/// A response body over HTTP/1, polled by hyper.
pub struct Http1Body {
    body: Http1Source,
    exchange: Arc<Exchange>,
    size: Option<u64>,
    ended: bool,
}

enum Http1Source {
    /// Sent in one chunk.
    Small(Bytes),
    /// Sent chunk by chunk; with its number on the connection.
    Chunked(Arc<ChunkedBody>, u64),
}

/// A body sent in chunks, until it is sent or dropped.
pub struct ChunkedBody {
    /// Guards the body between the connection that sends it and the timeout that drops it.
    body: Mutex<Option<ResponseBody>>,
    /// Since when the next chunk is ready, in milliseconds since the connection was opened.
    ready_since: AtomicU64,
}

/// Why an answer is not sent to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the client fetched nothing of the answer for a minute")]
    NotFetched,
    #[error(transparent)]
    Broken(#[from] Broken),
}

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
        Http1Body { body: Http1Source::Chunked(chunked, number), exchange, size, ended: false }
    }
}

impl Drop for Http1Body {
    fn drop(&mut self) {
        if let Http1Source::Chunked(_, number) = self.body {
            self.exchange.connection().answered(number);
        }
    }
}

impl ChunkedBody {
    /// Drops the body if it was not fetched in time. True if it was dropped.
    pub fn drop_if_unfetched(&self, now: u64) -> bool {
        let since = self.ready_since.load(Ordering::Acquire);
        if since == NOTHING {
            return false;
        }
        let mut body = self.body.lock();
        let Some(held) = &*body else { return false };
        let limit = match held.exchange().is_under_pressure() {
            true => FETCH_TIMEOUT_UNDER_PRESSURE,
            // A reader of logs may take its time: what it holds is small.
            false if held.is_proxied() => return false,
            false => FETCH_TIMEOUT,
        };
        // hyper polls again when everything is sent: until then bytes must go out.
        let since = since.max(held.exchange().connection().sent_at());
        let late = now.saturating_sub(since) >= limit.as_millis() as u64;
        late && body.take().is_some()
    }
}

impl http_body::Body for Http1Body {
    type Data = Chunk;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Chunk>, BodyError>>> {
        let Http1Body { body, exchange, ended, .. } = &mut *self;
        let chunked = match body {
            Http1Source::Small(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Http1Source::Small(bytes) => {
                *ended = true;
                let chunk = Chunk::new(std::mem::take(bytes), exchange);
                return Poll::Ready(Some(Ok(Frame::data(chunk))));
            }
            Http1Source::Chunked(chunked, _) => chunked,
        };
        let mut body = chunked.body.lock();
        let Some(body) = &mut *body else { return Poll::Ready(Some(Err(BodyError::NotFetched))) };
        let connection = exchange.connection();
        let ready = body.poll_ready(cx);
        if ready.is_pending() {
            chunked.ready_since.store(NOTHING, Ordering::Release);
        }
        if !ready!(ready) {
            return Poll::Ready(body.is_broken().then_some(Err(Broken.into())));
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
