//! HTTP/2: a task for each request, and answers that are encoded as their windows open.
//!
//! hyper takes the next chunk of an answer before it knows whether the client's window has room for it, and holds it until
//! then: a thousand watches with closed windows would hold a thousand events. Here the window is checked first.
//!
//! ```text
//!  accept ──> task: answer ──> head ──> loop { ready? window? room on the connection? ──> take as much ──> send }
//!                                              └ no window for a minute: the stream is reset, the connection stays open
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use env::Env;
use h2::server::SendResponse;
use h2::{Ping, PingPong, Reason, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, HeaderValue};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use crate::body::Incoming;
use crate::connection::Connection;
use crate::response_body::{Chunk, FETCH_TIMEOUT, FETCH_TIMEOUT_UNDER_PRESSURE, ResponseBody};
use crate::shutdown::Shutdown;

/// Concurrent requests on a connection.
// Differs from kube-apiserver, whose default is 100: an idle watch is a cursor here and holds no buffer, so one connection may carry
// all the watches of a client with many controllers.
const MAX_STREAMS: u32 = 1000;
/// Receive windows of one stream, and of the connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Upstream's bound on the headers of a request.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// The send buffer of a stream.
const SEND_BUFFER: usize = 256 * 1024;
/// The interval of pings, and how long a client may take to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// How long a connection may take to close gracefully.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a connection to its end; `answer` handles a request.
pub async fn serve<S, A, F>(
    io: S,
    connection: &Arc<Connection>,
    shutdown: &mut Shutdown,
    answer: A,
) -> Result<(), String>
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let env = connection.env();
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(MAX_STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_send_buffer_size(SEND_BUFFER);
    let mut overdue = std::pin::pin!(connection.overdue());
    let handshake = tokio::select! {
        biased;
        handshake = builder.handshake::<S, Chunk>(io) => handshake,
        () = shutdown.begun() => return Ok(()),
        () = &mut overdue => return Err("the client sent no request in time".to_owned()),
    };
    let mut served = handshake.map_err(|error| error.to_string())?;
    let mut alive = served.ping_pong().map(|pings| KeepAlive::new(env, pings));
    // Once it is closing: when it must be closed.
    let mut closing: Option<Pin<Box<Sleep>>> = None;
    let mut ending = false;
    loop {
        let step = std::future::poll_fn(|cx| {
            if alive.as_mut().is_some_and(|alive| alive.is_dead(env, cx)) {
                return Poll::Ready(Err(Interruption::Dead));
            }
            if !ending && shutdown.poll_begun(cx) {
                return Poll::Ready(Err(Interruption::Shutdown));
            }
            let late = match &mut closing {
                None => overdue.as_mut().poll(cx).map(|()| Interruption::Overdue),
                Some(closing) => closing.as_mut().poll(cx).map(|()| Interruption::Dead),
            };
            if late.is_ready() {
                return late.map(Err);
            }
            served.poll_accept(cx).map(Ok)
        });
        match step.await {
            Ok(None) => return Ok(()),
            Ok(Some(Err(error))) => return Err(error.to_string()),
            Ok(Some(Ok((_, mut reply)))) if connection.exceeds_unauthenticated_limit() => {
                reply.send_reset(Reason::REFUSED_STREAM);
            }
            Ok(Some(Ok((request, reply)))) => {
                let expected = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
                let expected = expected.and_then(|length| length.parse().ok()).unwrap_or(0);
                let answer = answer(request.map(|stream| Incoming::Http2 { stream, expected }));
                env.spawn("request", run(env.clone(), answer, reply));
            }
            Err(Interruption::Shutdown) => {
                ending = true;
                served.graceful_shutdown();
            }
            Err(Interruption::Overdue) => {
                ending = true;
                closing = Some(Box::pin(env.sleep_until(env.monotonic() + CLOSE_TIMEOUT)));
                served.graceful_shutdown();
            }
            Err(Interruption::Dead) => return Err("the client did not answer pings".to_owned()),
        }
    }
}

/// Why a connection accepts no more requests.
enum Interruption {
    Shutdown,
    Overdue,
    Dead,
}

/// Pings, to detect a client that is gone.
struct KeepAlive {
    pings: PingPong,
    timer: Pin<Box<Sleep>>,
    asked: bool,
}

impl KeepAlive {
    fn new(env: &Env, pings: PingPong) -> KeepAlive {
        let timer = Box::pin(env.sleep_until(env.monotonic() + PING_EVERY));
        KeepAlive { pings, timer, asked: false }
    }

    fn is_dead(&mut self, env: &Env, cx: &mut Context<'_>) -> bool {
        loop {
            if self.asked && self.pings.poll_pong(cx).is_ready() {
                self.asked = false;
                self.timer.as_mut().reset(env.monotonic() + PING_EVERY);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            // A connection that cannot take a ping is ending already.
            if self.asked || self.pings.send_ping(Ping::opaque()).is_err() {
                return true;
            }
            self.asked = true;
            self.timer.as_mut().reset(env.monotonic() + PONG_WITHIN);
        }
    }
}

/// One request, to the last byte of its answer.
async fn run<F>(env: Env, answer: F, mut reply: SendResponse<Chunk>)
where
    F: Future<Output = Response<ResponseBody>>,
{
    let answer = {
        let mut answer = std::pin::pin!(answer);
        std::future::poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            // The client has cancelled the request.
            Poll::Pending => reply.poll_reset(cx).map(|_| None),
        })
        .await
    };
    let Some(answer) = answer else { return };
    let (mut head, body) = answer.into_parts();
    head.headers.remove(CONNECTION);
    head.headers.entry(DATE).or_insert_with(|| body.exchange().connection().connections().date(&env));
    let ended = body.is_end();
    if let Some(size) = body.exact_size().filter(|_| !ended) {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(size));
    }
    let Ok(stream) = reply.send_response(Response::from_parts(head, ()), ended) else {
        return reply.send_reset(Reason::INTERNAL_ERROR);
    };
    if ended {
        return;
    }
    let writer = StreamWriter { stream, body, fetch_timer: None };
    if writer.body.is_watch() || writer.body.is_proxied() {
        // A task of its own: this one has the size of a whole request, and these live long.
        let exchange = writer.body.exchange();
        let (pool, connections) = (exchange.pool(), exchange.connection().connections().clone());
        match connections.pools() {
            Some(pools) => pools.spawn(pool, writer),
            None => drop(env.spawn("stream", writer)),
        }
    } else {
        writer.await;
    }
}

/// Sends the body of an answer.
struct StreamWriter {
    stream: SendStream<Chunk>,
    body: ResponseBody,
    /// Runs while a chunk is ready and the window is closed; with how often it fired.
    fetch_timer: Option<(Pin<Box<Sleep>>, u32)>,
}

impl Future for StreamWriter {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let writer = self.get_mut();
        loop {
            if writer.stream.poll_reset(cx).is_ready() {
                return Poll::Ready(());
            }
            match writer.body.poll_ready(cx) {
                Poll::Pending => {
                    // Frees the reserved part of the connection's window.
                    writer.stream.reserve_capacity(0);
                    // A list waits for us here, which does not mean that its client reads.
                    if writer.body.is_watch() || writer.body.is_proxied() {
                        writer.fetch_timer = None;
                    }
                    return Poll::Pending;
                }
                Poll::Ready(false) if writer.body.is_broken() => {
                    writer.stream.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(());
                }
                Poll::Ready(false) => {
                    // Fails only if the stream is closed already.
                    let _ = writer.stream.send_data(Chunk::empty(), true);
                    return Poll::Ready(());
                }
                Poll::Ready(true) => {}
            }
            // Before the window: reserving and freeing it at once would wake this task again and again.
            if writer.body.exchange().connection().poll_room(cx).is_pending() {
                writer.stream.reserve_capacity(0);
                writer.body.rewind();
                ready!(writer.poll_fetch_timeout(cx, true));
                writer.stream.send_reset(Reason::CANCEL);
                return Poll::Ready(());
            }
            let window = match writer.poll_window(cx) {
                Poll::Ready(Some(window)) => window,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => {
                    writer.body.rewind();
                    ready!(writer.poll_fetch_timeout(cx, false));
                    writer.stream.send_reset(Reason::CANCEL);
                    return Poll::Ready(());
                }
            };
            writer.fetch_timer = None;
            let chunk = writer.body.take(window);
            let end = writer.body.is_end();
            if writer.stream.send_data(chunk, end).is_err() || end {
                return Poll::Ready(());
            }
        }
    }
}

impl StreamWriter {
    /// How many bytes the client's windows allow; `None` when the stream is gone.
    fn poll_window(&mut self, cx: &mut Context<'_>) -> Poll<Option<usize>> {
        self.stream.reserve_capacity(self.body.wanted());
        loop {
            match self.stream.capacity() {
                0 => {}
                window => return Poll::Ready(Some(window)),
            }
            match ready!(self.stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            }
        }
    }

    /// Ready when the chunk was not fetched in time. With `room` (the connection is full) time stands still while it sends.
    fn poll_fetch_timeout(&mut self, cx: &mut Context<'_>, room: bool) -> Poll<()> {
        let connection = self.body.exchange().connection();
        let env = connection.env();
        let soon = || env.monotonic() + FETCH_TIMEOUT_UNDER_PRESSURE;
        let (timer, times) = self.fetch_timer.get_or_insert_with(|| (Box::pin(env.sleep_until(soon())), 0));
        loop {
            ready!(timer.as_mut().poll(cx));
            if !(room && connection.has_sent(FETCH_TIMEOUT_UNDER_PRESSURE)) {
                *times += 1;
            }
            // A reader of logs may take its time: what it holds is small.
            let late = FETCH_TIMEOUT_UNDER_PRESSURE * *times >= FETCH_TIMEOUT && !self.body.is_proxied();
            if late || self.body.exchange().is_under_pressure() {
                return Poll::Ready(());
            }
            timer.as_mut().reset(soon());
        }
    }
}
