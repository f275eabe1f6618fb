//! Bodies of requests, read with limits; and of answers, whole or streamed.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use auth::UserInfo;
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};
use object::Status;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::accounting::Exchange;
use crate::list_body::ListBody;
use crate::pools::Pool;
use crate::proxied_body::{Broken, ProxiedBody};
use crate::watch_body::WatchBody;

/// Upstream's limit of a request body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long a body may stall, and its minimum average rate after that time.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: u64 = 1024;

/// A request body: from a socket, or in process.
pub enum RequestBody {
    Socket(Received),
    Whole(Bytes),
}

/// A body from a socket. What is read is charged to its user, and it must not stall.
///
/// If it is not read to the end, dropping it puts the rest into its [`UnreadSlot`].
pub struct Received {
    body: Option<Incoming>,
    exchange: Arc<Exchange>,
    left: Option<Arc<Mutex<Option<Incoming>>>>,
}

/// The body of a request over either protocol.
pub enum Incoming {
    Http1(hyper::body::Incoming),
    Http2 {
        stream: h2::RecvStream,
        /// The rest of the declared content length; 0 without one.
        expected: u64,
    },
}

/// Receives the body of a request that was not read to its end.
pub struct UnreadSlot(Arc<Mutex<Option<Incoming>>>);

/// The unread rest of a request body.
pub struct UnreadBody(Incoming);

impl Incoming {
    pub fn is_end_stream(&self) -> bool {
        match self {
            Incoming::Http1(body) => body.is_end_stream(),
            Incoming::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// A lower bound of the bytes to come.
    fn expected(&self) -> u64 {
        match self {
            Incoming::Http1(body) => body.size_hint().lower(),
            Incoming::Http2 { expected, .. } => *expected,
        }
    }

    /// The next bytes, or why there are none.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            Incoming::Http1(body) => loop {
                let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    None => return Poll::Ready(None),
                    Some(Err(error)) => return Poll::Ready(Some(Err(broken_body(&error)))),
                    Some(Ok(frame)) => frame,
                };
                // Trailers are ignored.
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            },
            Incoming::Http2 { stream, expected } => match ready!(stream.poll_data(cx)) {
                None => Poll::Ready(None),
                Some(Err(error)) => Poll::Ready(Some(Err(format!("the body could not be read: {error}")))),
                Some(Ok(data)) => {
                    *expected = expected.saturating_sub(data.len() as u64);
                    // Reopens the window; fails only if the stream has ended.
                    let _ = stream.flow_control().release_capacity(data.len());
                    Poll::Ready(Some(Ok(data)))
                }
            },
        }
    }
}

impl UnreadSlot {
    pub fn attach(body: Incoming, exchange: Arc<Exchange>) -> (UnreadSlot, RequestBody) {
        let left = Arc::new(Mutex::new(None));
        let received = Received { body: Some(body), exchange, left: Some(left.clone()) };
        (UnreadSlot(left), RequestBody::Socket(received))
    }

    /// `None` if all of it was read.
    pub fn take(self) -> Option<UnreadBody> {
        self.0.lock().take().map(UnreadBody)
    }
}

impl UnreadBody {
    /// Discards up to `most` bytes; true if that was all.
    pub async fn drain(mut self, most: usize) -> bool {
        let mut read = 0;
        // No use in reading the start of a body that is known to be too long.
        while self.0.expected() <= (most - read) as u64 {
            let data = std::future::poll_fn(|cx| self.0.poll_data(cx)).await;
            let Some(data) = data else { return true };
            let Ok(data) = data else { return false };
            read += data.len();
            if read > most {
                return false;
            }
        }
        false
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let (Some(body), Some(left)) = (self.body.take(), &self.left)
            && !body.is_end_stream()
        {
            *left.lock() = Some(body);
        }
    }
}

impl RequestBody {
    /// Of a request without a body.
    pub fn empty(body: Incoming, exchange: Arc<Exchange>) -> RequestBody {
        RequestBody::Socket(Received { body: Some(body), exchange, left: None })
    }

    /// Charges the body and the answer to the user. 429 for a write if the user has too many unfetched answers.
    pub fn charge_to(&self, user: &UserInfo, writes: bool) -> Result<(), Status> {
        match self {
            RequestBody::Socket(received) => received.exchange.charge_to(user, writes),
            RequestBody::Whole(_) => Ok(()),
        }
    }

    /// Where it came from.
    pub fn peer(&self) -> Option<IpAddr> {
        match self {
            RequestBody::Socket(received) => received.exchange.connection().peer(),
            RequestBody::Whole(_) => None,
        }
    }

    /// To be sent on as it comes, whatever its size.
    pub fn forward(self) -> ForwardedBody {
        ForwardedBody(self)
    }

    /// The thread pool its connection should run in.
    pub fn prefer_pool(&self, pool: Pool) {
        if let RequestBody::Socket(received) = self {
            received.exchange.prefer_pool(pool);
        }
    }

    /// Reads all of it. 408 if it stalls, 429 if its user is over the limit.
    pub async fn read(self) -> Result<Bytes, Status> {
        let mut received = match self {
            RequestBody::Whole(bytes) if bytes.len() > MAX_BODY => return Err(too_large()),
            RequestBody::Whole(bytes) => return Ok(bytes),
            RequestBody::Socket(received) => received,
        };
        let Received { body, exchange, .. } = &mut received;
        let incoming = body.as_mut().expect("a body is read once");
        if incoming.expected() > MAX_BODY as u64 {
            return Err(too_large());
        }
        let mut progress = Progress::new(exchange);
        let mut first: Option<Bytes> = None;
        let mut all = BytesMut::new();
        loop {
            let data = std::future::poll_fn(|cx| match incoming.poll_data(cx) {
                Poll::Ready(data) => Poll::Ready(Ok(data)),
                Poll::Pending => progress.poll_stalled(cx).map(Err),
            });
            let Some(data) = data.await? else { break };
            let data = data.map_err(Status::unknown)?;
            if first.as_ref().map_or(0, Bytes::len) + all.len() + data.len() > MAX_BODY {
                return Err(too_large());
            }
            exchange.received(data.len())?;
            progress.came(data.len());
            // Most bodies come in one frame, and need no copy.
            if first.is_none() && all.is_empty() {
                first = Some(data);
                continue;
            }
            if let Some(first) = first.take() {
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&data);
        }
        received.body = None;
        Ok(first.unwrap_or_else(|| all.freeze()))
    }
}

/// A request body on its way to a node or a pod, as it comes.
pub struct ForwardedBody(RequestBody);

impl http_body::Body for ForwardedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let received = match &mut self.0 {
            RequestBody::Whole(bytes) => {
                let bytes = Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty());
                return Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))));
            }
            RequestBody::Socket(received) => received,
        };
        let Some(incoming) = &mut received.body else { return Poll::Ready(None) };
        let data = ready!(incoming.poll_data(cx));
        if data.is_none() {
            received.body = None;
        }
        Poll::Ready(data.map(|data| data.map(Frame::data).map_err(std::io::Error::other)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            RequestBody::Whole(bytes) => bytes.is_empty(),
            RequestBody::Socket(received) => received.body.as_ref().is_none_or(Incoming::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            RequestBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            RequestBody::Socket(received) => match &received.body {
                None => SizeHint::with_exact(0),
                Some(Incoming::Http1(body)) => body.size_hint(),
                // The head has the length, if there is one.
                Some(incoming) if incoming.is_end_stream() => SizeHint::with_exact(0),
                Some(Incoming::Http2 { .. }) => SizeHint::default(),
            },
        }
    }
}

fn too_large() -> Status {
    Status::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
}

/// Detects a body that stalls. A body that has arrived already needs no timer.
struct Progress<'e> {
    exchange: &'e Exchange,
    begun: Instant,
    bytes: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'e> Progress<'e> {
    fn new(exchange: &'e Exchange) -> Progress<'e> {
        let begun = exchange.connection().env().monotonic();
        Progress { exchange, begun, bytes: 0, timer: None }
    }

    fn came(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(timer) = &mut self.timer {
            let now = self.exchange.connection().env().monotonic();
            // At the minimum rate, what has arrived is enough until then.
            let enough = self.begun + STALL_TIMEOUT + Duration::from_secs(self.bytes / BYTES_PER_SECOND);
            timer.as_mut().reset(enough.min(now + STALL_TIMEOUT));
        }
    }

    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        let timer = self.timer.get_or_insert_with(|| {
            Box::pin(self.exchange.connection().env().sleep_until(self.begun + STALL_TIMEOUT))
        });
        timer.as_mut().poll(cx).map(|()| Status::request_timeout("the body of the request does not come"))
    }
}

/// Why a body could not be read; in Go's words if hyper says enough.
fn broken_body(error: &hyper::Error) -> String {
    let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    if why.contains("Invalid chunk size") {
        return "invalid byte in chunk length".to_owned();
    }
    if error.is_incomplete_message() || why.contains("end of file") {
        return "unexpected EOF".to_owned();
    }
    format!("the body could not be read: {error}")
}

/// The body of an answer.
pub enum Body {
    Whole(Option<Bytes>),
    List(Box<ListBody>),
    Watch(Box<WatchBody>),
    /// From a node or a pod.
    Proxied(Box<ProxiedBody>),
}

impl Body {
    pub fn empty() -> Body {
        Body::Whole(None)
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Body {
        Body::Whole(Some(bytes).filter(|b| !b.is_empty()))
    }
}
impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Body {
        Bytes::from(bytes).into()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    /// Only what comes from elsewhere can fail: a watch that ends early says so in an event.
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::List(list) => Poll::Ready(list.next_chunk().map(|b| Ok(Frame::data(b)))),
            Body::Watch(watch) => watch.poll_chunk(cx).map(|chunk| chunk.map(|b| Ok(Frame::data(b)))),
            Body::Proxied(proxied) => proxied.poll_chunk(cx).map(|chunk| chunk.map(|b| b.map(Frame::data))),
        }
    }
    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }
    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::List(_) | Body::Watch(_) | Body::Proxied(_) => SizeHint::default(),
        }
    }
}
