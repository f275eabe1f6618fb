//! Connections to one address, opened when needed and used again.
//!
//! ```text
//! lease ── HTTP/2: a stream of one that has some left   answered ── the connection stays
//!          HTTP/1.1: an idle connection, alone          given up ── it is not used again: it may be dead
//!          else: a new one
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::dial::Dialled;
use crate::go_errors::{self, Ends};

/// An idle connection is closed after so long, as by client-go.
pub const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// Idle HTTP/1.1 connections kept to one address, as by client-go.
const MAX_IDLE: usize = 25;
/// A server that answers before it has read the whole request may never read the rest: such a connection is not kept.
const FINISH_LIMIT: Duration = Duration::from_millis(50);
/// client-go's numbers: a connection that is silent this long is asked whether it lives, and has this long to say so.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(15);
/// A request that was given up sooner says nothing about its connection.
const PATIENCE: Duration = Duration::from_millis(250);
/// The head of an answer.
const MAX_HEAD: usize = 1 << 20;
/// Streams on one connection: kube-apiserver allows 100, other servers more.
const MAX_STREAMS: usize = 90;

pub type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A body that is known as a whole.
pub fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// Starts tasks that end when their owner does.
#[derive(Clone)]
pub struct Tasks {
    pub env: Env,
    /// What its tasks are called.
    pub name: &'static str,
    /// Every task holds a receiver, so that whoever ends them can wait for all.
    pub closing: Arc<watch::Sender<bool>>,
}

impl Tasks {
    pub fn new(env: Env, name: &'static str) -> Tasks {
        Tasks { env, name, closing: Arc::new(watch::Sender::new(false)) }
    }

    pub fn spawn(&self, work: impl Future<Output: Send> + Send + 'static) {
        let mut closing = self.closing.subscribe();
        drop(self.env.spawn(self.name, async move {
            tokio::select! {
                biased;
                _ = closing.wait_for(|closing| *closing) => {}
                _ = work => {}
            }
        }));
    }
}

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, work: F) {
        self.spawn(work);
    }
}

pub struct Connections {
    /// What a stream may have on its way unread.
    stream_window: u32,
    /// Guards the connections; held to pick one or to put one back.
    open: Mutex<Open>,
    /// Held while dialling what may become a connection for all: who waits can use it.
    dialling: tokio::sync::Mutex<()>,
}

struct Open {
    /// What was spoken on the last connection.
    http2: Option<bool>,
    shared: Vec<Shared>,
    /// The one used last at the end.
    idle: Vec<Idle>,
    used: Instant,
}

#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Body>,
    ends: Ends,
    /// Streams under way; also what tells one connection from another.
    used: Arc<AtomicUsize>,
}

struct Idle {
    sender: http1::SendRequest<Body>,
    ends: Ends,
    since: Instant,
}

/// A connection, for one request.
pub struct Lease {
    connections: Arc<Connections>,
    sender: Sender,
    pub ends: Ends,
    /// Opened for this request.
    pub fresh: bool,
    /// The server said something about the request: its connection is not dead.
    answered: bool,
    env: Env,
    begun: Instant,
}

enum Sender {
    Stream(Shared),
    Alone(http1::SendRequest<Body>),
    /// Back among the idle ones.
    Given,
}

/// The request got no answer.
pub struct Unanswered {
    pub why: String,
    /// The request, if the server never saw it.
    pub unsent: Option<Request<Body>>,
    /// It was the connection's end, not the server's word on this request.
    pub cut: bool,
    /// The server said that it has not looked at the request.
    pub refused: bool,
}

impl Connections {
    pub fn new(now: Instant, stream_window: u32) -> Arc<Connections> {
        let open = Open { http2: None, shared: Vec::new(), idle: Vec::new(), used: now };
        let dialling = tokio::sync::Mutex::default();
        Arc::new(Connections { stream_window, open: Mutex::new(open), dialling })
    }

    /// One that is open.
    fn pick(self: &Arc<Connections>, env: &Env) -> Option<Lease> {
        let now = env.monotonic();
        let mut open = self.open.lock();
        open.used = now;
        open.forget_closed(now);
        let spare = open.shared.iter().find(|shared| shared.used.load(Ordering::Relaxed) < MAX_STREAMS);
        let (sender, ends) = match spare {
            Some(shared) => {
                shared.used.fetch_add(1, Ordering::Relaxed);
                (Sender::Stream(shared.clone()), shared.ends)
            }
            None => {
                let at = open.idle.iter().rposition(|idle| idle.sender.is_ready())?;
                let idle = open.idle.remove(at);
                (Sender::Alone(idle.sender), idle.ends)
            }
        };
        Some(Lease {
            connections: self.clone(),
            sender,
            ends,
            fresh: false,
            answered: false,
            env: env.clone(),
            begun: now,
        })
    }

    /// One that is open, or a new one.
    pub async fn lease(
        self: &Arc<Connections>,
        tasks: &Tasks,
        dial: impl Future<Output = Result<Dialled, String>> + Send,
    ) -> Result<Lease, String> {
        let env = &tasks.env;
        if let Some(lease) = self.pick(env) {
            return Ok(lease);
        }
        // Whoever comes while somebody dials may use that connection. Where it came to nothing nobody waits for the next one.
        let may_share = self.open.lock().http2 != Some(false);
        let _turn = match self.dialling.try_lock() {
            Ok(turn) => may_share.then_some(turn),
            Err(_) if may_share => {
                drop(self.dialling.lock().await);
                None
            }
            Err(_) => None,
        };
        if let Some(lease) = self.pick(env) {
            return Ok(lease);
        }
        self.begin(tasks, dial.await?).await
    }

    async fn begin(self: &Arc<Connections>, tasks: &Tasks, dialled: Dialled) -> Result<Lease, String> {
        let Dialled { wire, ends, http2, held } = dialled;
        let io = TokioIo::new(wire);
        let sender = if http2 {
            let (sender, connection) = http2::Builder::new(tasks.clone())
                .timer(TokioTimer::new())
                .max_header_list_size(MAX_HEAD as u32)
                .initial_stream_window_size(self.stream_window)
                // Room for all streams: one that is not read must not hold up the others.
                .initial_connection_window_size(self.stream_window * MAX_STREAMS as u32)
                .keep_alive_interval(PING_AFTER)
                .keep_alive_timeout(PING_LIMIT)
                .handshake(io)
                .await
                .map_err(|error| go_errors::no_answer(&error, ends))?;
            // Ends with its senders; whoever waits for an answer gets its error.
            tasks.spawn(async move {
                let ended = connection.await;
                drop(held);
                ended
            });
            let shared = Shared { sender, ends, used: Arc::new(AtomicUsize::new(1)) };
            self.open.lock().shared.push(shared.clone());
            Sender::Stream(shared)
        } else {
            let (sender, connection) = http1::Builder::new()
                .max_buf_size(MAX_HEAD)
                .handshake(io)
                .await
                .map_err(|error| go_errors::no_answer(&error, ends))?;
            tasks.spawn(connection);
            Sender::Alone(sender)
        };
        self.open.lock().http2 = Some(http2);
        let (env, begun) = (tasks.env.clone(), tasks.env.monotonic());
        Ok(Lease { connections: self.clone(), sender, ends, fresh: true, answered: false, env, begun })
    }

    /// Closes what has been idle for long; whether the address itself has not been used for that long.
    pub fn is_idle(&self, now: Instant) -> bool {
        let mut open = self.open.lock();
        open.forget_closed(now);
        now.saturating_duration_since(open.used) >= IDLE_LIMIT
    }
}

impl Open {
    fn forget_closed(&mut self, now: Instant) {
        self.shared.retain(|shared| !shared.sender.is_closed());
        let fresh = |since: Instant| now.saturating_duration_since(since) < IDLE_LIMIT;
        self.idle.retain(|idle| !idle.sender.is_closed() && fresh(idle.since));
    }
}

impl Lease {
    pub fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Stream(_))
    }

    pub async fn send(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unanswered> {
        let ends = self.ends;
        let sent = match &mut self.sender {
            Sender::Stream(shared) => shared.sender.clone().try_send_request(request).await,
            Sender::Alone(sender) => {
                // A new connection may still be getting ready.
                if let Err(error) = sender.ready().await {
                    let why = go_errors::no_answer(&error, ends);
                    return Err(Unanswered { why, unsent: Some(request), cut: true, refused: false });
                }
                sender.try_send_request(request).await
            }
            Sender::Given => unreachable!("a lease is given back last of all"),
        };
        // A reset is an answer too, as far as the connection is concerned: it is not dead.
        self.answered = match &sent {
            Ok(_) => true,
            Err(error) => go_errors::is_reset(error.error()),
        };
        sent.map_err(|mut error| Unanswered {
            unsent: error.take_message(),
            why: go_errors::no_answer(error.error(), ends),
            cut: go_errors::is_cut(error.error()),
            refused: go_errors::is_refused(error.error()),
        })
    }

    /// The answer was read to its end: the connection can be used again.
    pub async fn finish(mut self, env: &Env) {
        let mut sender = match std::mem::replace(&mut self.sender, Sender::Given) {
            Sender::Alone(sender) => sender,
            other => return self.sender = other,
        };
        let ready = env.timeout(FINISH_LIMIT, sender.ready()).await;
        if matches!(ready, Ok(Ok(()))) {
            let mut open = self.connections.open.lock();
            if open.idle.len() < MAX_IDLE {
                let since = env.monotonic();
                open.idle.push(Idle { sender, ends: self.ends, since });
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Sender::Stream(mine) = &self.sender else { return };
        mine.used.fetch_sub(1, Ordering::Relaxed);
        // Who gives up at once knows nothing about the connection.
        if self.answered || self.env.monotonic().saturating_duration_since(self.begun) < PATIENCE {
            return;
        }
        // Nothing came in time: perhaps nothing ever comes on this connection. Others who wait on it may go on.
        self.connections.open.lock().shared.retain(|shared| !Arc::ptr_eq(&shared.used, &mine.used));
    }
}
