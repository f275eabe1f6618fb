//! Bodies: read with a bound, decoded by content type; answers whole or as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use auth::UserInfo;
use bytes::{Bytes, BytesMut};
use catalog::{Catalog, Schema, TypeId};
use codec::protobuf::ProtobufError;
use codec::yaml::YamlError;
use codec::{json, protobuf, yaml};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::{Body as _, Frame, SizeHint};
use object::{Map, Status, Value};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::accounting::Exchange;
use crate::list_body::ListBody;
use crate::pools::Pool;
use crate::watch_body::WatchBody;

/// Upstream's bound on a request body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// How long a body may stand still, and how many bytes a second it must bring on average once that time is over.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
const BYTES_PER_SECOND: u64 = 1024;

/// A request's body: from a socket, or handed over in process.
pub enum RequestBody {
    Socket(Received),
    Whole(Bytes),
}

/// A body on its way in. What it holds counts for who sends it, and it must go on coming.
///
/// Dropped unread, it goes back to its lender.
pub struct Received {
    body: Option<Incoming>,
    exchange: Arc<Exchange>,
    left: Option<Arc<Mutex<Option<Incoming>>>>,
}

/// The body of a request, of either protocol.
pub enum Incoming {
    Http1(hyper::body::Incoming),
    Http2 {
        stream: h2::RecvStream,
        /// What is still to come, where that was said.
        expected: u64,
    },
}

/// Where what is left of a lent body comes back.
pub struct UnreadSlot(Arc<Mutex<Option<Incoming>>>);

/// What nobody read of a request.
pub struct UnreadBody(Incoming);

impl Incoming {
    pub fn is_end_stream(&self) -> bool {
        match self {
            Incoming::Http1(body) => body.is_end_stream(),
            Incoming::Http2 { stream, .. } => stream.is_end_stream(),
        }
    }

    /// At least so many bytes are to come.
    fn expected(&self) -> u64 {
        match self {
            Incoming::Http1(body) => body.size_hint().lower(),
            Incoming::Http2 { expected, .. } => *expected,
        }
    }

    /// The next bytes; `Err` in words where they do not come any more.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match self {
            Incoming::Http1(body) => loop {
                let frame = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                    None => return Poll::Ready(None),
                    Some(Err(error)) => return Poll::Ready(Some(Err(broken_body(&error)))),
                    Some(Ok(frame)) => frame,
                };
                // Trailers mean nothing here.
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            },
            Incoming::Http2 { stream, expected } => match ready!(stream.poll_data(cx)) {
                None => Poll::Ready(None),
                Some(Err(error)) => Poll::Ready(Some(Err(format!("the body could not be read: {error}")))),
                Some(Ok(data)) => {
                    *expected = expected.saturating_sub(data.len() as u64);
                    // The window opens for as much again; a stream that has ended needs none.
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

    /// `None` when all of it was read.
    pub fn take(self) -> Option<UnreadBody> {
        self.0.lock().take().map(UnreadBody)
    }
}

impl UnreadBody {
    /// Reads and forgets it; whether that was all of it, or more than `most` is left.
    pub async fn drain(mut self, most: usize) -> bool {
        let mut read = 0;
        // No use in reading the start of what is known to be too long.
        while self.0.expected() <= (most - read) as u64 {
            let data = std::future::poll_fn(|cx| self.0.poll_data(cx)).await;
            let Some(data) = data else { return true };
            // What is no body has no end either.
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
    /// Of a request without one: nobody wants it back.
    pub fn empty(body: Incoming, exchange: Arc<Exchange>) -> RequestBody {
        RequestBody::Socket(Received { body: Some(body), exchange, left: None })
    }

    /// It is known who sends it: what it holds is theirs, and so is what its answer will hold. 429 where it would change
    /// something and too many answers lie there unfetched.
    pub fn charge_to(&self, user: &UserInfo, writes: bool) -> Result<(), Status> {
        match self {
            RequestBody::Socket(received) => received.exchange.charge_to(user, writes),
            RequestBody::Whole(_) => Ok(()),
        }
    }

    /// In which pool of threads its connection is to be run.
    pub fn prefer_pool(&self, pool: Pool) {
        if let RequestBody::Socket(received) = self {
            received.exchange.prefer_pool(pool);
        }
    }

    /// All of it. 408 if it stands still, 429 if its sender has too much under way.
    pub async fn read(self) -> Result<Bytes, Status> {
        let mut received = match self {
            RequestBody::Whole(bytes) if bytes.len() > MAX_BODY => return Err(too_large()),
            RequestBody::Whole(bytes) => return Ok(bytes),
            RequestBody::Socket(received) => received,
        };
        // What is not read to its end goes back to whoever lent it.
        let Received { body, exchange, .. } = &mut received;
        let incoming = body.as_mut().expect("a body is lent once and read once");
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
            // Most bodies come in one frame and need no copy.
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

fn too_large() -> Status {
    Status::too_large(format!("Request entity too large: limit is {MAX_BODY}"))
}

/// Whether a body goes on coming. No timer is set for one that is there already.
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
            // At the average asked for, what has come is enough until then.
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

/// Why a body could not be read to its end; in Go's words where hyper tells as much.
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

/// An answer's body.
pub enum Body {
    Whole(Option<Bytes>),
    List(Box<ListBody>),
    Watch(Box<WatchBody>),
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
    /// Nothing in an answer can fail: a watch that must end early says so in an event.
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Body::List(list) => Poll::Ready(list.next_chunk().map(|b| Ok(Frame::data(b)))),
            Body::Watch(watch) => watch.poll_chunk(cx).map(|chunk| chunk.map(|b| Ok(Frame::data(b)))),
        }
    }
    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }
    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Body::List(_) | Body::Watch(_) => SizeHint::default(),
        }
    }
}

/// A body's tree, and what a strict client must hear of it already.
pub struct Decoded {
    pub value: Value,
    /// YAML's own words for names that stand twice; JSON's duplicates are still in the tree.
    pub duplicates: Option<String>,
}

/// A body's tree, by its content type. `kind` is for the words of a refusal, `ty` the type a body has that names none.
pub fn decode(
    catalog: &Catalog,
    headers: &HeaderMap,
    body: &[u8],
    kind: &str,
    hint: Option<(&Schema, TypeId)>,
) -> Result<Decoded, Status> {
    let ty = hint.map(|(_, ty)| ty);
    let content_type = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let media = content_type.split(';').next().unwrap_or("").trim();
    let unreadable = |why: String| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(body)
        ))
    };
    let unrecognized = |why: String| unreadable(format!("couldn't get version/kind; {why}"));
    let mut duplicates = None;
    let value = match media {
        "" | "application/json" => {
            json::parse(body, hint).map_err(|e| unrecognized(format!("json parse error: {e}")))?
        }
        "application/yaml" => {
            let document = yaml::parse_document(body).map_err(|e| match e {
                YamlError::TooDeepForJson { .. } => unrecognized(e.to_string()),
                _ => unreadable(e.to_string()),
            })?;
            duplicates = document.duplicates;
            document.value
        }
        "application/vnd.kubernetes.protobuf" => {
            let find = |api_version: &str, kind: &str| find_type(catalog, api_version, kind);
            match protobuf::decode(catalog.schema(), body, &find, ty) {
                // Its name is all that is known of it, and all that is needed to refuse it.
                Err(ProtobufError::UnknownKind { api_version, kind }) => {
                    let mut named = Map::default();
                    named.set("kind", kind);
                    named.set("apiVersion", api_version);
                    Value::Map(named)
                }
                Err(why) => {
                    return Err(match protobuf_name(catalog, body, ty) {
                        Some((named, version)) => Status::bad_request(format!(
                            "{named} in version \"{version}\" cannot be handled as a {kind}: {why}"
                        )),
                        None => unreadable(why.to_string()),
                    });
                }
                Ok(value) => value,
            }
        }
        _ => {
            return Err(Status::unsupported_media_type(
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    // Null is an object without members, as in Go.
    let value = if matches!(value, Value::Null) { Value::map() } else { value };
    if !matches!(value, Value::Map(_)) {
        let go = "json parse error: json: cannot unmarshal";
        let into = "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";
        return Err(unrecognized(format!("{go} {} {into}", value.json_type())));
    }
    match registry::unreadable_type(&value) {
        Some(why) => Err(unreadable(why)),
        None => Ok(Decoded { value, duplicates }),
    }
}

/// The type a protobuf body names. Options come in the version of the group they are sent to.
fn find_type(catalog: &Catalog, api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shared =
        || kind.ends_with("Options").then(|| catalog.schema().find(&format!("meta.v1.{kind}"))).flatten();
    catalog.find_type(group, version, kind).or_else(shared)
}

/// Kind and version of a protobuf body whose envelope can be read; `ty` is what it is if it does not say.
fn protobuf_name(catalog: &Catalog, body: &[u8], ty: Option<TypeId>) -> Option<(String, String)> {
    let sealed = protobuf::open(body).ok()?;
    let (_, usual, kind) = catalog.schema().get(ty?).gvk.as_ref()?;
    let said = |text: &str, usual: &str| if text.is_empty() { usual.to_owned() } else { text.to_owned() };
    let version = sealed.api_version.rsplit('/').next().unwrap_or("");
    Some((said(sealed.kind, kind), said(version, usual)))
}

/// The start of a body that is none, as upstream shows it: by its first character, text or numbers.
fn summary(body: &[u8]) -> String {
    const SHOWN_BYTES: usize = 30;
    let shown = &body[..body.len().min(SHOWN_BYTES)];
    let more = if body.len() > SHOWN_BYTES { " ..." } else { "" };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => shown.iter().map(|b| format!("{b:02x}")).collect::<String>() + more,
    }
}
