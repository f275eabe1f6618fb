//! Bodies: read with a bound, decoded by content type; answers whole or as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use catalog::{Catalog, TypeId};
use codec::protobuf::ProtobufError;
use codec::yaml::YamlError;
use codec::{json, protobuf, yaml};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::{Body as _, Frame, SizeHint};
use object::{Map, Status, Value};
use parking_lot::Mutex;

use crate::list_body::ListBody;
use crate::watch_body::WatchBody;

/// Upstream's bound on a request body.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// A request's body: from a socket, or handed over in process.
pub enum RequestBody {
    Socket(hyper::body::Incoming),
    /// From a socket, whose owner wants back what is left of it.
    Lent(Lent),
    Whole(Bytes),
}

/// A body that goes back to its lender when it is dropped unread.
pub struct Lent {
    body: Option<hyper::body::Incoming>,
    left: Arc<Mutex<Option<hyper::body::Incoming>>>,
}

/// Where what is left of a lent body comes back.
pub struct Lender(Arc<Mutex<Option<hyper::body::Incoming>>>);

/// What nobody read of a request.
pub struct Rest(hyper::body::Incoming);

impl Lender {
    pub fn lend(body: hyper::body::Incoming) -> (Lender, RequestBody) {
        let left = Arc::new(Mutex::new(None));
        (Lender(left.clone()), RequestBody::Lent(Lent { body: Some(body), left }))
    }

    /// `None` when all of it was read.
    pub fn left(self) -> Option<Rest> {
        self.0.lock().take().map(Rest)
    }
}

impl Rest {
    /// Reads and forgets it; whether that was all of it, or more than `most` is left.
    pub async fn drain(mut self, most: usize) -> bool {
        let mut read = 0;
        // No use in reading the start of what is known to be too long.
        while self.0.size_hint().lower() <= (most - read) as u64 {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut self.0).poll_frame(cx)).await;
            let Some(frame) = frame else { return true };
            // What is no body has no end either.
            let Ok(frame) = frame else { return false };
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > most {
                return false;
            }
        }
        false
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            *self.left.lock() = Some(body);
        }
    }
}

impl RequestBody {
    pub async fn read(self) -> Result<Bytes, Status> {
        let too_large = || Status::too_large(format!("Request entity too large: limit is {MAX_BODY}"));
        let mut lent = match self {
            RequestBody::Whole(bytes) if bytes.len() > MAX_BODY => return Err(too_large()),
            RequestBody::Whole(bytes) => return Ok(bytes),
            RequestBody::Socket(incoming) => Lent { body: Some(incoming), left: Arc::default() },
            RequestBody::Lent(lent) => lent,
        };
        // What is not read to its end goes back to whoever lent it.
        let incoming = lent.body.as_mut().expect("a body is lent once and read once");
        if incoming.size_hint().lower() > MAX_BODY as u64 {
            return Err(too_large());
        }
        let mut first: Option<Bytes> = None;
        let mut all = BytesMut::new();
        loop {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *incoming).poll_frame(cx)).await;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|e| Status::unknown(broken_body(&e)))?;
            let Ok(data) = frame.into_data() else { continue };
            if first.as_ref().map_or(0, Bytes::len) + all.len() + data.len() > MAX_BODY {
                return Err(too_large());
            }
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
        lent.body = None;
        Ok(first.unwrap_or_else(|| all.freeze()))
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
    ty: Option<TypeId>,
) -> Result<Decoded, Status> {
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
            let hint = ty.map(|ty| (catalog.schema(), ty));
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
