//! A gRPC client over one HTTP/2 connection: a call with one answer, and a call with many.
//!
//! ```text
//! POST /service/method    body: 0 | length (4 bytes) | message      answer: the same frames, then trailers
//!                                                                   grpc-status, grpc-message
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use env::Env;
use http::{HeaderMap, Request, Uri};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// An answer larger than this is refused.
    pub max_answer_bytes: usize,
    /// How often a server is asked for a sign of life while a call is open, and how long it has to give it.
    pub ping: Option<(Duration, Duration)>,
    /// With every request.
    pub headers: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// Nothing of the request has left this machine: it certainly did not happen.
    #[error("the server cannot be reached: {0}")]
    NotSent(String),
    /// The connection ended after the request was handed to it.
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("the server answered: {message} (gRPC code {code})")]
    Status { code: u32, message: String },
    #[error("the answer is larger than is allowed")]
    Oversized,
    #[error("the answer is not understood: {0}")]
    Protocol(String),
}

/// The codes a call can end with, by number.
pub mod code {
    pub const OK: u32 = 0;
    pub const INVALID_ARGUMENT: u32 = 3;
    pub const DEADLINE_EXCEEDED: u32 = 4;
    pub const NOT_FOUND: u32 = 5;
    pub const PERMISSION_DENIED: u32 = 7;
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    pub const FAILED_PRECONDITION: u32 = 9;
    pub const OUT_OF_RANGE: u32 = 11;
    pub const UNIMPLEMENTED: u32 = 12;
    pub const UNAVAILABLE: u32 = 14;
    pub const UNAUTHENTICATED: u32 = 16;

    /// As gRPC's libraries write it.
    pub fn name(code: u32) -> String {
        const NAMES: [&str; 17] = [
            "OK",
            "Canceled",
            "Unknown",
            "InvalidArgument",
            "DeadlineExceeded",
            "NotFound",
            "AlreadyExists",
            "PermissionDenied",
            "ResourceExhausted",
            "FailedPrecondition",
            "Aborted",
            "OutOfRange",
            "Unimplemented",
            "Internal",
            "Unavailable",
            "DataLoss",
            "Unauthenticated",
        ];
        let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
        name.map_or_else(|| format!("Code({code})"), |name| (*name).to_owned())
    }
}

impl CallError {
    /// Another endpoint, or the same a little later, may well answer.
    pub fn is_passing(&self) -> bool {
        match self {
            CallError::NotSent(_) | CallError::Lost(_) | CallError::Timeout(_) => true,
            CallError::Status { code, .. } => matches!(*code, code::UNAVAILABLE | code::DEADLINE_EXCEEDED),
            CallError::Oversized | CallError::Protocol(_) => false,
        }
    }
}

/// Why a connection ended, once it has. Held for a copy.
type Ended = Arc<Mutex<Option<String>>>;

/// One HTTP/2 connection. Its tasks end when it is dropped.
pub struct Connection {
    send: SendRequest<RequestBody>,
    /// Scheme and authority of every request.
    base: Uri,
    options: Options,
    ended: Ended,
    /// Never sent on: the tasks of this connection end when it goes away.
    _alive: watch::Sender<()>,
}

impl Connection {
    pub async fn handshake<Io>(
        env: &Env,
        io: Io,
        base: Uri,
        options: Options,
    ) -> Result<Connection, CallError>
    where
        Io: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (alive, _) = watch::channel(());
        let tasks = Tasks { env: env.clone(), alive: alive.subscribe() };
        let (send, connection) = http2::Builder::new(tasks.clone())
            .timer(TokioTimer::new())
            .keep_alive_interval(options.ping.map(|(every, _)| every))
            .keep_alive_timeout(options.ping.map_or(Duration::from_secs(20), |(_, limit)| limit))
            .keep_alive_while_idle(false)
            .initial_stream_window_size(2 << 20)
            .initial_connection_window_size(4 << 20)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|e| CallError::NotSent(describe(&e)))?;
        let ended: Ended = Arc::default();
        let note = ended.clone();
        hyper::rt::Executor::execute(&tasks, async move {
            // Whoever waits for an answer gets the same error; who comes later finds it noted, for the sender alone only
            // knows that the connection is closed. By reference: it is noted before the sender can know.
            let mut connection = std::pin::pin!(connection);
            if let Err(error) = connection.as_mut().await {
                *note.lock() = Some(describe(&error));
            }
        });
        Ok(Connection { send, base, options, ended, _alive: alive })
    }

    pub fn is_closed(&self) -> bool {
        self.send.is_closed()
    }

    /// One request, one answer.
    pub async fn unary<A: Message + Default>(
        &self,
        path: &str,
        message: &impl Message,
    ) -> Result<A, CallError> {
        let mut answers = self.start(path, RequestBody::once(frame(message))).await?;
        match answers.next::<A>().await? {
            // The status comes after the message: an answer without it may be half of something.
            Some(answer) => match answers.next::<A>().await? {
                None => Ok(answer),
                Some(_) => Err(CallError::Protocol("two messages where one was expected".into())),
            },
            None => Err(CallError::Protocol("no message, yet a status of success".into())),
        }
    }

    /// One request whose side of the stream stays open, and many answers. The stream ends with the connection,
    /// not before: give it one of its own.
    pub async fn stream(&self, path: &str, message: &impl Message) -> Result<Answers, CallError> {
        self.start(path, RequestBody::open(frame(message))).await
    }

    /// One request, and answers until the server ends them.
    pub async fn server_stream(&self, path: &str, message: &impl Message) -> Result<Answers, CallError> {
        self.start(path, RequestBody::once(frame(message))).await
    }

    async fn start(&self, path: &str, body: RequestBody) -> Result<Answers, CallError> {
        let mut send = self.send.clone();
        send.ready()
            .await
            .map_err(|e| CallError::NotSent(self.ended.lock().clone().unwrap_or_else(|| describe(&e))))?;
        let mut uri = self.base.clone().into_parts();
        uri.path_and_query = Some(path.parse().expect("the paths of methods are constants"));
        let uri = Uri::from_parts(uri).expect("scheme, authority and path are all there");
        let mut request = Request::post(uri)
            .header(http::header::TE, "trailers")
            .header(http::header::CONTENT_TYPE, "application/grpc");
        for (name, value) in self.options.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).expect("constants make a valid request");
        let response = send.try_send_request(request).await.map_err(|mut e| match e.take_message() {
            Some(_) => CallError::NotSent(describe(e.error())),
            None => CallError::Lost(describe(e.error())),
        })?;
        let (head, body) = response.into_parts();
        if head.status != http::StatusCode::OK {
            return Err(CallError::Protocol(format!("HTTP status {}", head.status)));
        }
        if let Some(failure) = status_of(&head.headers)? {
            return Err(failure);
        }
        Ok(Answers { body, buffer: BytesMut::new(), max: self.options.max_answer_bytes })
    }
}

/// The messages of one call, as they come.
pub struct Answers {
    body: Incoming,
    /// What has come of the next message. At most one message and one HTTP/2 frame.
    buffer: BytesMut,
    max: usize,
}

impl Answers {
    /// The next message; `None` after the status of success. Dropping the future loses nothing.
    pub async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, CallError> {
        loop {
            if let Some(message) = next_message(&mut self.buffer, self.max)? {
                return A::decode(message).map(Some).map_err(|e| CallError::Protocol(e.to_string()));
            }
            match self.body.frame().await {
                None => return Err(CallError::Lost("the answer ended without a status".into())),
                Some(Err(e)) => return Err(CallError::Lost(describe(&e))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => {
                        let trailers = frame.into_trailers().unwrap_or_default();
                        return match status_of(&trailers)? {
                            Some(failure) => Err(failure),
                            None => Ok(None),
                        };
                    }
                },
            }
        }
    }
}

/// Takes the next whole message out of what has come; `None` where part of it is still to come.
pub fn next_message(buffer: &mut BytesMut, max: usize) -> Result<Option<Bytes>, CallError> {
    let Some((head, _)) = buffer.split_first_chunk::<5>() else { return Ok(None) };
    if head[0] != 0 {
        return Err(CallError::Protocol("a compressed message that we did not ask for".into()));
    }
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if length > max {
        return Err(CallError::Oversized);
    }
    if buffer.len() < 5 + length {
        buffer.reserve(5 + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(5);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The failure that headers or trailers tell of; `None` where they tell of none.
fn status_of(headers: &HeaderMap) -> Result<Option<CallError>, CallError> {
    let Some(status) = headers.get("grpc-status") else { return Ok(None) };
    let code = status
        .to_str()
        .ok()
        .and_then(|s| s.parse::<u32>().ok())
        .ok_or_else(|| CallError::Protocol("grpc-status is not a number".into()))?;
    if code == code::OK {
        return Ok(None);
    }
    let message = headers.get("grpc-message").map(|m| m.as_bytes()).unwrap_or_default();
    let message = percent_encoding::percent_decode(message).decode_utf8_lossy().into_owned();
    Ok(Some(CallError::Status { code, message }))
}

fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut out = BytesMut::with_capacity(5 + length);
    out.put_u8(0);
    // Servers take requests of a few MiB at most; what does not fit 32 bits is refused there as too large.
    out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode(&mut out).expect("the buffer grows");
    out.freeze()
}

/// hyper's own text leaves out the cause, which is what people look for.
fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// A request's one message; afterwards the body ends, or stays open for as long as the connection lives.
struct RequestBody {
    message: Option<Bytes>,
    stays_open: bool,
}

impl RequestBody {
    fn once(message: Bytes) -> RequestBody {
        RequestBody { message: Some(message), stays_open: false }
    }

    fn open(message: Bytes) -> RequestBody {
        RequestBody { message: Some(message), stays_open: true }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.message.take() {
            Some(message) => Poll::Ready(Some(Ok(Frame::data(message)))),
            None if self.stays_open => Poll::Pending,
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.message.is_none() && !self.stays_open
    }
}

/// Runs what hyper wants to run in the background, for as long as the connection lives.
#[derive(Clone)]
struct Tasks {
    env: Env,
    alive: watch::Receiver<()>,
}

impl<F: Future + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let mut alive = self.alive.clone();
        // Not joined: each ends with the connection that owns it.
        drop(self.env.spawn("grpc-connection", async move {
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                _ = task => {}
            }
        }));
    }
}
