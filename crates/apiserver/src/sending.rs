//! An answer on its way out, and what becomes of one that nobody fetches.
//!
//! A list keeps its objects and its place among the requests under way, a watch its cursor, until the client has taken all of
//! it. A client that does not take one piece (some 128 KB of a list) in a minute has lost interest: what is left is let go,
//! though its connection may go on.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;

use crate::body::Body;
use crate::connection::UnderWay;

/// How long the next piece of an answer may lie ready.
pub(crate) const UNFETCHED: Duration = Duration::from_secs(60);
/// Nothing lies ready: the connection waits for us.
const NOTHING: u64 = u64::MAX;

/// An answer's body, whose request is under way until its last byte.
pub struct Sending {
    body: Held,
    under_way: UnderWay,
}

enum Held {
    /// Taken at once.
    Whole(Body),
    /// Taken a piece at a time; with its number among those of the connection.
    Pieces(Arc<Pieces>, u64),
}

/// The body of an answer in pieces, until it is sent or let go.
pub struct Pieces {
    /// Guards it between the connection that sends it and the one look that lets it go.
    body: Mutex<Option<Body>>,
    /// Since when the next piece lies ready, in milliseconds of the connection's time.
    ready_since: AtomicU64,
}

/// The rest of an answer is gone.
#[derive(Debug, thiserror::Error)]
#[error("the client fetched nothing of the answer for a minute")]
pub struct LetGo;

impl Sending {
    pub fn new(body: Body, under_way: UnderWay) -> Sending {
        let body = match body {
            Body::Whole(_) => Held::Whole(body),
            body => {
                let ready_since = AtomicU64::new(under_way.connection().age());
                let pieces = Arc::new(Pieces { body: Mutex::new(Some(body)), ready_since });
                let number = under_way.connection().answers_in_pieces(&pieces);
                Held::Pieces(pieces, number)
            }
        };
        Sending { body, under_way }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Held::Pieces(_, number) = &self.body {
            self.under_way.connection().answered(*number);
        }
    }
}

impl Pieces {
    /// Lets go of what nobody fetched in time. True if there was anything.
    pub fn let_go(&self, now: u64) -> bool {
        let since = self.ready_since.load(Ordering::Acquire);
        let late = since != NOTHING && now.saturating_sub(since) >= UNFETCHED.as_millis() as u64;
        late && self.body.lock().take().is_some()
    }
}

impl http_body::Body for Sending {
    type Data = Bytes;
    type Error = LetGo;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LetGo>>> {
        let Sending { body, under_way } = &mut *self;
        let poll = |body: &mut Body, cx: &mut Context<'_>| {
            Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
        };
        match body {
            Held::Whole(body) => poll(body, cx),
            Held::Pieces(pieces, _) => {
                let mut body = pieces.body.lock();
                let Some(body) = &mut *body else { return Poll::Ready(Some(Err(LetGo))) };
                let polled = poll(body, cx);
                let since = if polled.is_ready() { under_way.connection().age() } else { NOTHING };
                pieces.ready_since.store(since, Ordering::Release);
                polled
            }
        }
    }
    fn is_end_stream(&self) -> bool {
        match &self.body {
            Held::Whole(body) => body.is_end_stream(),
            Held::Pieces(..) => false,
        }
    }
    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Held::Whole(body) => body.size_hint(),
            Held::Pieces(..) => SizeHint::default(),
        }
    }
}
