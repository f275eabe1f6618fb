//! Connections to one address, opened when needed and used again.
//!
//! ```text
//! lease ── HTTP/2: a stream of the one connection       answered ── the connection stays
//!          HTTP/1.1: an idle connection, alone          given up ── it is not used again: it may be dead
//!          else: a new one
//! ```

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::dial::Dialled;
use crate::go_errors::{self, Ends};

/// An idle connection is closed after so long, as by client-go.
pub(crate) const IDLE_LIMIT: Duration = Duration::from_secs(90);
/// Idle HTTP/1.1 connections kept to one address, as by client-go.
const MAX_IDLE: usize = 25;
/// A server that answers before it has read the whole request may never read the rest: such a connection is not kept.
const FINISH_LIMIT: Duration = Duration::from_millis(50);
/// client-go's numbers: a connection that is silent this long is asked whether it lives, and has this long to say so.
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_LIMIT: Duration = Duration::from_secs(15);
/// What a stream, and all of them, may have on their way unread.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;

pub(crate) type Body = Full<Bytes>;

/// Starts tasks that end when the client does.
#[derive(Clone)]
pub(crate) struct Tasks {
    pub env: Env,
    /// Every task holds a receiver, so that whoever ends them can wait for all.
    pub closing: Arc<watch::Sender<bool>>,
}

impl Tasks {
    pub fn spawn(&self, name: &'static str, work: impl Future<Output: Send> + Send + 'static) {
        let mut closing = self.closing.subscribe();
        drop(self.env.spawn(name, async move {
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
        self.spawn("webhook-stream", work);
    }
}

pub(crate) struct Connections {
    /// Guards the connections; held to pick one or to put one back.
    open: Mutex<Open>,
    /// Held while dialling what may become a connection for all: who waits can use it.
    pub dialling: tokio::sync::Mutex<()>,
}

struct Open {
    /// What was spoken on the last connection.
    http2: Option<bool>,
    shared: Option<Shared>,
    /// The one used last at the end.
    idle: Vec<Idle>,
    used: Instant,
}

#[derive(Clone)]
struct Shared {
    sender: http2::SendRequest<Body>,
    ends: Ends,
    number: u64,
}

struct Idle {
    sender: http1::SendRequest<Body>,
    ends: Ends,
    since: Instant,
}

/// A connection, for one request.
pub(crate) struct Lease {
    connections: Arc<Connections>,
    sender: Sender,
    pub ends: Ends,
    /// Opened for this request.
    pub fresh: bool,
    answered: bool,
}

enum Sender {
    Stream(Shared),
    Alone(http1::SendRequest<Body>),
    /// Back among the idle ones.
    Given,
}

/// The request got no answer.
pub(crate) struct Unanswered {
    pub why: String,
    /// The server never saw it.
    pub unsent: bool,
    /// It was the connection's end, not the server's word on this request.
    pub cut: bool,
}

impl Connections {
    pub fn new(now: Instant) -> Arc<Connections> {
        let open = Open { http2: None, shared: None, idle: Vec::new(), used: now };
        Arc::new(Connections { open: Mutex::new(open), dialling: tokio::sync::Mutex::default() })
    }

    /// One that is open.
    pub fn pick(self: &Arc<Connections>, now: Instant) -> Option<Lease> {
        let mut open = self.open.lock();
        open.used = now;
        open.forget_closed(now);
        let (sender, ends) = match &open.shared {
            Some(shared) => (Sender::Stream(shared.clone()), shared.ends),
            None => {
                let at = open.idle.iter().rposition(|idle| idle.sender.is_ready())?;
                let idle = open.idle.remove(at);
                (Sender::Alone(idle.sender), idle.ends)
            }
        };
        Some(Lease { connections: self.clone(), sender, ends, fresh: false, answered: false })
    }

    /// Whether a new connection could serve others too.
    pub fn may_share(&self) -> bool {
        self.open.lock().http2 != Some(false)
    }

    pub async fn begin(self: &Arc<Connections>, tasks: &Tasks, dialled: Dialled) -> Result<Lease, String> {
        let Dialled { wire, ends, http2 } = dialled;
        let io = TokioIo::new(wire);
        let sender = if http2 {
            let (sender, connection) = http2::Builder::new(tasks.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .keep_alive_interval(PING_AFTER)
                .keep_alive_timeout(PING_LIMIT)
                .handshake(io)
                .await
                .map_err(|error| go_errors::no_answer(&error, ends))?;
            // Ends with its senders; whoever waits for an answer gets its error.
            tasks.spawn("webhook-connection", connection);
            let shared = Shared { sender, ends, number: tasks.env.random() };
            self.open.lock().shared = Some(shared.clone());
            Sender::Stream(shared)
        } else {
            let (sender, connection) =
                http1::handshake(io).await.map_err(|error| go_errors::no_answer(&error, ends))?;
            tasks.spawn("webhook-connection", connection);
            Sender::Alone(sender)
        };
        self.open.lock().http2 = Some(http2);
        Ok(Lease { connections: self.clone(), sender, ends, fresh: true, answered: false })
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
        if self.shared.as_ref().is_some_and(|shared| shared.sender.is_closed()) {
            self.shared = None;
        }
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
                sender.ready().await.map_err(|error| Unanswered {
                    why: go_errors::no_answer(&error, ends),
                    unsent: true,
                    cut: true,
                })?;
                sender.try_send_request(request).await
            }
            Sender::Given => unreachable!("a lease is given back last of all"),
        };
        let response = sent.map_err(|error| Unanswered {
            why: go_errors::no_answer(error.error(), ends),
            unsent: error.message().is_some(),
            cut: go_errors::is_cut(error.error()),
        })?;
        self.answered = true;
        Ok(response)
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
        if self.answered {
            return;
        }
        // Nothing came in time: perhaps nothing ever comes on this connection. Others who wait on it may go on.
        let mut open = self.connections.open.lock();
        if open.shared.as_ref().is_some_and(|shared| shared.number == mine.number) {
            open.shared = None;
        }
    }
}
