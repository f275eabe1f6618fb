//! Connections to one server, opened when needed and used again.
//!
//! ```text
//! send ── a place among those under way ── HTTP/2: a connection with a stream to spare
//!                                          HTTP/1.1: an idle connection, for this request alone
//!                                          else: a new one
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::dial::Dial;
use crate::url::Url;

/// Calls under way at once; more wait for their turn. It also bounds the connections.
const MAX_CALLS: usize = 256;
/// Watches stay, so they have places of their own: they must not use up those of calls.
const MAX_WATCHES: usize = 1024;
/// Streams on one connection: kube-apiserver allows 100, and we more.
const MAX_STREAMS: usize = 90;
/// Idle HTTP/1.1 connections kept.
const MAX_IDLE: usize = 32;
/// To connect and shake hands.
const DIAL_LIMIT: Duration = Duration::from_secs(10);
/// A server that answers before it has read the whole request may never read the rest: such a connection is not kept.
const FINISH_LIMIT: Duration = Duration::from_secs(1);
/// client-go's numbers: a connection that is silent this long is asked whether it lives, and has this long to say so.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(15);
/// What a stream may have on its way unread.
const STREAM_WINDOW: u32 = 1 << 20;

type Body = Full<Bytes>;

/// A request without the server's address; cheap to clone, for it may be sent again.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub method: Method,
    pub path: PathAndQuery,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// No answer came.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The server never saw the request.
    NotSent(String),
    /// The connection broke: the server may have seen it.
    Broken(String),
}

/// What a request holds while it lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Call,
    Watch,
}

pub(crate) struct Pool {
    env: Env,
    dial: Box<dyn Dial>,
    url: Url,
    calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    /// Guards the open connections; held to pick one or to put one back.
    open: Mutex<Open>,
    /// Held while dialling, on purpose: who waits can use the outcome of that same dial.
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Open {
    /// Of the client's certificate. Connections made under an earlier one are for those who use them already.
    generation: u64,
    shared: Vec<Shared>,
    idle: Vec<http1::SendRequest<Body>>,
}

#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Body>,
    /// Streams under way.
    used: Arc<AtomicUsize>,
}

/// A connection, for one request.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    sender: Sender,
    /// When its connection was asked for.
    generation: u64,
    _place: OwnedSemaphorePermit,
}

enum Sender {
    Stream(Shared),
    Alone(http1::SendRequest<Body>),
    /// Back in the pool.
    Given,
}

impl Pool {
    pub fn new(env: Env, dial: Box<dyn Dial>, url: Url) -> Arc<Pool> {
        Arc::new(Pool {
            env,
            dial,
            url,
            calls: Arc::new(Semaphore::new(MAX_CALLS)),
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            open: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
        })
    }

    /// The answer's head; its body comes through the lease's connection, so keep that.
    pub async fn send(
        self: &Arc<Pool>,
        request: &Outgoing,
        lifetime: Lifetime,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        loop {
            let places = match lifetime {
                Lifetime::Call => &self.calls,
                Lifetime::Watch => &self.watches,
            };
            let place = places.clone().acquire_owned().await.expect("nobody closes it");
            let (sender, generation, fresh) = self.sender().await.map_err(SendError::NotSent)?;
            let mut lease = Lease { pool: self.clone(), sender, generation, _place: place };
            match lease.send(self.addressed(request, &lease.sender)).await {
                Ok(response) => return Ok((response, lease)),
                // The connection was closed while nobody looked: that is what keeping it is worth.
                Err(SendError::NotSent(_)) if !fresh => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// With its generation, and whether it is a new connection.
    async fn sender(self: &Arc<Pool>) -> Result<(Sender, u64, bool), String> {
        if let Some((sender, generation)) = self.pick() {
            return Ok((sender, generation, false));
        }
        let _turn = self.dialling.lock().await;
        if let Some((sender, generation)) = self.pick() {
            return Ok((sender, generation, false));
        }
        // Asked before dialling: which certificate is shown is decided on the way.
        let generation = self.open.lock().generation;
        let sender = self.env.timeout(DIAL_LIMIT, self.connect(generation)).await;
        let sender = sender.unwrap_or_else(|_| Err(format!("no connection within {DIAL_LIMIT:?}")));
        sender
            .map(|sender| (sender, generation, true))
            .map_err(|why| format!("{}: {why}", self.url.authority))
    }

    /// Connections made before this generation of the client's certificate are for those who use them already.
    pub fn renew(&self, generation: u64) {
        let mut open = self.open.lock();
        if open.generation < generation {
            *open = Open { generation, ..Open::default() };
        }
    }

    fn pick(&self) -> Option<(Sender, u64)> {
        let mut open = self.open.lock();
        let generation = open.generation;
        open.shared.retain(|shared| !shared.sender.is_closed());
        for shared in &open.shared {
            if shared.used.load(Ordering::Relaxed) < MAX_STREAMS {
                shared.used.fetch_add(1, Ordering::Relaxed);
                return Some((Sender::Stream(shared.clone()), generation));
            }
        }
        open.idle.retain(|sender| sender.is_ready());
        open.idle.pop().map(|sender| (Sender::Alone(sender), generation))
    }

    async fn connect(&self, generation: u64) -> Result<Sender, String> {
        let dialled = self.dial.dial().await.map_err(|error| error.to_string())?;
        let io = TokioIo::new(dialled.wire);
        if !dialled.http2 {
            let (sender, connection) = http1::handshake(io).await.map_err(|error| describe(&error))?;
            // Ends with its sender; whoever waits for an answer gets the same error.
            drop(self.env.spawn("http1-connection", async move { connection.await.is_ok() }));
            return Ok(Sender::Alone(sender));
        }
        let (sender, connection) = http2::Builder::new(Tasks(self.env.clone()))
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            // Room for all streams: a watch that is not read must not hold up the others.
            .initial_connection_window_size(STREAM_WINDOW * MAX_STREAMS as u32)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_LIMIT)
            .handshake(io)
            .await
            .map_err(|error| describe(&error))?;
        drop(self.env.spawn("http2-connection", async move { connection.await.is_ok() }));
        let shared = Shared { sender, used: Arc::new(AtomicUsize::new(1)) };
        let mut open = self.open.lock();
        if open.generation == generation {
            open.shared.push(shared.clone());
        }
        Ok(Sender::Stream(shared))
    }

    /// HTTP/2 says the whole address, HTTP/1.1 the path and a Host.
    fn addressed(&self, request: &Outgoing, sender: &Sender) -> Request<Body> {
        let mut out = Request::new(Full::new(request.body.clone()));
        *out.method_mut() = request.method.clone();
        *out.headers_mut() = request.headers.clone();
        let mut uri = http::uri::Parts::default();
        uri.path_and_query = Some(request.path.clone());
        match sender {
            Sender::Stream(_) => {
                uri.scheme = Some(self.url.scheme.clone());
                uri.authority = Some(self.url.authority.clone());
            }
            Sender::Alone(_) | Sender::Given => {
                if let Ok(host) = HeaderValue::from_str(self.url.authority.as_str()) {
                    out.headers_mut().insert(HOST, host);
                }
            }
        }
        *out.uri_mut() = Uri::from_parts(uri).expect("scheme and authority come together, the path is one");
        out
    }
}

impl Lease {
    async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, SendError> {
        let sent = match &mut self.sender {
            Sender::Stream(shared) => shared.sender.clone().try_send_request(request).await,
            Sender::Alone(sender) => {
                // A new connection may still be getting ready.
                sender.ready().await.map_err(|error| SendError::NotSent(describe(&error)))?;
                sender.try_send_request(request).await
            }
            Sender::Given => return Err(SendError::NotSent("the connection was given back".to_owned())),
        };
        sent.map_err(|error| match error.message() {
            Some(_) => SendError::NotSent(describe(error.error())),
            None => SendError::Broken(describe(error.error())),
        })
    }

    /// On HTTP/2 pings tell whether the other side lives; alone on HTTP/1.1, nothing but what it sends does.
    pub fn is_pinged(&self) -> bool {
        matches!(self.sender, Sender::Stream(_))
    }

    /// The answer was read to its end: the connection can be used again.
    pub async fn finish(mut self) {
        // A stream is given back when the lease goes.
        let mut sender = match std::mem::replace(&mut self.sender, Sender::Given) {
            Sender::Alone(sender) => sender,
            other => return self.sender = other,
        };
        let ready = self.pool.env.timeout(FINISH_LIMIT, sender.ready()).await;
        if matches!(ready, Ok(Ok(()))) {
            let mut open = self.pool.open.lock();
            if open.generation == self.generation && open.idle.len() < MAX_IDLE {
                open.idle.push(sender);
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Sender::Stream(shared) = &self.sender {
            shared.used.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// hyper's own tasks, in our world. Not joined: each ends with its connection.
#[derive(Clone)]
struct Tasks(Env);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, task: F) {
        drop(self.0.spawn("http2-stream", task));
    }
}

/// hyper says what it did, its source what went wrong.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
