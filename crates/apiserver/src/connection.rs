//! One connection between and after its requests: how long it may say nothing, and what it reads before it closes.
//!
//! ```text
//!  opened ──> a header is awaited (32 s) ──> requests under way ──> idle (90 s) ──first byte──> its end is awaited (10 s)
//!  closing with a request unread: our side is shut, theirs is read and forgotten for a while, so that no reset
//!  overtakes the answer
//! ```

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use env::Env;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

use crate::connections::Connections;
use crate::frames::Frames;
use crate::ledger::{Account, Exchange, Held};
use crate::malformed;
use crate::sending::Pieces;
use crate::websocket::Session;

/// Upstream's limits: how long a request's header may take, and how long a connection may be kept between requests.
const HEADER: Duration = Duration::from_secs(32);
const IDLE: Duration = Duration::from_secs(90);
/// What is read of a request nobody wants, once it is answered. Bodies from there on are cut off upstream too.
pub const UNREAD_BYTES: usize = 10 << 20;
/// How long that may take in all, and how long it may stand still.
pub const UNREAD_TIME: Duration = Duration::from_secs(10);
const UNREAD_PAUSE: Duration = Duration::from_secs(1);

/// How long a connection may leave a head it has begun without its end.
const HALF_A_HEAD: Duration = Duration::from_secs(10);
/// What may be on its way to one client at once; less when there is much for all of them.
const IN_HAND: usize = 1 << 20;
const IN_HAND_PRESSED: usize = 32 << 10;
const IN_HAND_OF_ALL: usize = 64 << 20;

/// What a connection's tasks know together.
pub struct Connection {
    env: Env,
    id: u64,
    connections: Arc<Connections>,
    http2: AtomicBool,
    opened: Instant,
    under_way: AtomicUsize,
    /// Part of a header has come, or the first one is awaited.
    heading: AtomicBool,
    /// When that wait began, or the connection became idle; milliseconds since it was opened.
    waiting_since: AtomicU64,
    /// Bytes of a head that has not come to its end.
    head: AtomicUsize,
    known: AtomicBool,
    /// Told to end at once.
    cut: Notify,
    /// Bytes held because of it.
    held: Held,
    /// Bytes given to the socket's side and not sent.
    in_hand: AtomicUsize,
    /// Guards those who wait for some of them to be sent; and whether there is anyone.
    waiting: Mutex<Vec<Waker>>,
    anyone_waits: AtomicBool,
    /// Guards whose request was the last.
    account: Mutex<Option<Arc<Account>>>,
    /// Guards the answers that leave in pieces over HTTP/1, by number: never more than there are requests under way.
    in_pieces: Mutex<BTreeMap<u64, Arc<Pieces>>>,
    /// So many there were.
    answers: AtomicU64,
    /// An answer left before its request was read.
    unread: AtomicBool,
    /// Guards what the connection becomes once hyper has let go of it.
    upgrade: Mutex<Option<(Session, OnUpgrade)>>,
}

impl Connection {
    pub fn new(env: Env, id: u64, connections: Arc<Connections>) -> Arc<Connection> {
        Arc::new(Connection {
            opened: env.monotonic(),
            env,
            id,
            connections,
            http2: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            heading: AtomicBool::new(true),
            waiting_since: AtomicU64::new(0),
            head: AtomicUsize::new(0),
            known: AtomicBool::new(false),
            cut: Notify::new(),
            held: Held::default(),
            in_hand: AtomicUsize::new(0),
            waiting: Mutex::default(),
            anyone_waits: AtomicBool::new(false),
            account: Mutex::default(),
            in_pieces: Mutex::default(),
            answers: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            upgrade: Mutex::new(None),
        })
    }

    pub fn id(&self) -> u64 {
        self.id
    }
    pub fn env(&self) -> &Env {
        &self.env
    }
    pub fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Which protocol it turned out to speak; its first head is awaited from now on.
    pub fn speaks(&self, http2: bool) {
        self.http2.store(http2, Ordering::Release);
        self.wait_from_now();
    }

    /// Ends it at once, whatever is under way.
    pub fn cut(&self) {
        self.cut.notify_one();
    }
    pub async fn was_cut(&self) {
        self.cut.notified().await;
    }

    pub fn closed(&self) {
        self.head_is(0);
        if let Some(account) = self.account.lock().take() {
            account.connections().fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The account of who asks; looked up when that is another one than before.
    pub fn account(&self, user: &str) -> Arc<Account> {
        let mut last = self.account.lock();
        if let Some(account) = &*last
            && account.name() == user
        {
            return account.clone();
        }
        let account = self.connections.account(user);
        account.connections().fetch_add(1, Ordering::Relaxed);
        match last.replace(account.clone()) {
            Some(before) => _ = before.connections().fetch_sub(1, Ordering::Relaxed),
            None => {
                self.known.store(true, Ordering::Relaxed);
                self.connections.becomes_known(self.id);
            }
        }
        account
    }

    /// A request on it was somebody's.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// How many connections its user has.
    pub fn of_same_user(&self) -> usize {
        self.account.lock().as_ref().map_or(0, |account| account.connections().load(Ordering::Relaxed))
    }

    /// The answer under way is the last one: after it the connection speaks another protocol.
    pub fn becomes(&self, session: Session, upgrade: OnUpgrade) {
        *self.upgrade.lock() = Some((session, upgrade));
    }

    pub fn upgraded(&self) -> Option<(Session, OnUpgrade)> {
        self.upgrade.lock().take()
    }

    /// A request has come; it is under way until what is given is dropped.
    pub fn begin(self: &Arc<Connection>) -> Arc<Exchange> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.heading.store(false, Ordering::Release);
        if !self.http2.load(Ordering::Relaxed) {
            self.head_is(0);
        }
        Exchange::new(self.clone())
    }

    /// What follows the last request is under way too, and its user's.
    pub fn begin_session(self: &Arc<Connection>) -> Arc<Exchange> {
        let exchange = self.begin();
        if let Some(account) = &*self.account.lock() {
            exchange.of(account.clone());
        }
        exchange
    }

    pub fn ended(&self) {
        self.wait_from_now();
        self.under_way.fetch_sub(1, Ordering::AcqRel);
    }

    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
    }

    /// The larger, the shorter ago.
    pub fn idle_since(&self) -> Instant {
        self.opened + Duration::from_millis(self.waiting_since.load(Ordering::Acquire))
    }

    /// The rest of a request stays unread: what still comes is waited for when the connection closes.
    pub fn leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    /// Resolves once the client has let us wait too long. Looks now and then instead of setting a timer for each
    /// request, so it may be late by as much as a header may take.
    pub async fn overdue(&self) {
        loop {
            let now = self.env.monotonic();
            let mut look = now + HALF_A_HEAD;
            // Nothing can follow half an answer.
            if self.let_go_of_unfetched() {
                return;
            }
            let half_a_head = self.head_bytes() > 0;
            if self.under_way() == 0 || half_a_head {
                let limit = match self.heading.load(Ordering::Acquire) {
                    _ if half_a_head => HALF_A_HEAD,
                    true => HEADER,
                    false => IDLE,
                };
                let deadline = self.idle_since() + limit;
                if now >= deadline {
                    return;
                }
                look = look.min(deadline);
            }
            self.env.sleep_until(look).await;
        }
    }

    /// Bytes have come over HTTP/1. Whether they are a request's head, and whether they begin it.
    fn heard(&self, bytes: usize) -> Heard {
        if self.under_way() > 0 {
            return Heard::Other;
        }
        let begun = self.head.load(Ordering::Relaxed);
        if begun == 0 {
            self.wait_from_now();
        }
        self.head_is(begun + bytes);
        if self.heading.swap(true, Ordering::AcqRel) { Heard::Head } else { Heard::NewHead }
    }

    pub fn head_bytes(&self) -> usize {
        self.head.load(Ordering::Relaxed)
    }

    /// So much of a head is there, without its end.
    pub(crate) fn head_is(&self, bytes: usize) {
        let before = self.head.swap(bytes, Ordering::Relaxed);
        if bytes > before {
            self.connections.heads_grow(bytes - before);
        } else if bytes < before {
            self.connections.heads_shrink(before - bytes);
        }
    }

    fn wait_from_now(&self) {
        self.waiting_since.store(self.age(), Ordering::Release);
    }

    /// In milliseconds.
    pub fn age(&self) -> u64 {
        self.env.monotonic().duration_since(self.opened).as_millis() as u64
    }

    /// An answer that leaves in pieces; with its number.
    pub fn answers_in_pieces(&self, pieces: &Arc<Pieces>) -> u64 {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        self.in_pieces.lock().insert(number, pieces.clone());
        number
    }
    pub fn answered(&self, number: u64) {
        self.in_pieces.lock().remove(&number);
    }

    fn let_go_of_unfetched(&self) -> bool {
        let now = self.age();
        let in_pieces: Vec<Arc<Pieces>> = self.in_pieces.lock().values().cloned().collect();
        in_pieces.iter().filter(|pieces| pieces.let_go(now)).count() > 0
    }

    /// Whether more may be given to the socket's side; if not, the task is woken when it may.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        self.waiting.lock().push(cx.waker().clone());
        self.anyone_waits.store(true, Ordering::SeqCst);
        // Some may have been sent in between.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn has_room(&self) -> bool {
        let pressed = self.connections.in_hand.load(Ordering::Relaxed) > IN_HAND_OF_ALL;
        self.in_hand.load(Ordering::SeqCst) < if pressed { IN_HAND_PRESSED } else { IN_HAND }
    }

    pub fn handed_over(&self, bytes: usize) {
        self.in_hand.fetch_add(bytes, Ordering::AcqRel);
        self.connections.in_hand.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sent(&self, bytes: usize) {
        self.connections.in_hand.fetch_sub(bytes, Ordering::Relaxed);
        let left = self.in_hand.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        // Either this sees who waits, or they see what was sent.
        if left < IN_HAND_PRESSED && self.anyone_waits.swap(false, Ordering::SeqCst) {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

enum Heard {
    NewHead,
    Head,
    Other,
}

/// A connection's bytes. To shut it down is to let the other side finish first, where that is owed.
pub struct Wire<S> {
    io: S,
    connection: Arc<Connection>,
    lingering: Option<Box<Lingering>>,
    /// The start of the head that is being read, for words about it should it be none.
    head: Vec<u8>,
    /// What goes out instead of hyper's own words, and how much of it has.
    reworded: Option<(Vec<u8>, usize)>,
    /// What comes over HTTP/2.
    frames: Option<Box<Frames>>,
}

/// Our side is shut; theirs is read and forgotten, within limits.
struct Lingering {
    left: usize,
    ends: Pin<Box<Sleep>>,
    pause: Pin<Box<Sleep>>,
    buffer: [u8; 16 << 10],
}

impl<S> Wire<S> {
    pub fn new(io: S, connection: Arc<Connection>) -> Wire<S> {
        let http2 = connection.http2.load(Ordering::Relaxed);
        let frames = http2.then(|| Box::new(Frames::new(&connection.env)));
        Wire { io, connection, lingering: None, head: Vec::new(), reworded: None, frames }
    }

    /// What goes out is answered by updates of windows.
    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let (Some(frames), Poll::Ready(Ok(bytes))) = (&mut self.frames, &written) {
            frames.sent(*bytes);
        }
        written
    }

    /// Keeps the start of a head, and changes the two things in it that hyper takes otherwise than Go does.
    fn note(&mut self, bytes: &mut [u8], begins: bool) {
        if begins {
            self.head.clear();
        }
        let (before, room) = (self.head.len(), malformed::KEPT_HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if before == 0 && !begins && matches!(bytes.first(), Some(b'\r' | b'\n')) {
            // Before the first request there is no empty line to be forgiven; nor is this a method.
            bytes[0] = 0;
        }
        let line_ends = memchr::memchr(b'\n', &self.head).filter(|end| *end >= before);
        let minor = line_ends.and_then(|end| malformed::minor_version(&self.head[..end]));
        if let Some(digit) = minor.and_then(|at| bytes.get_mut(at.checked_sub(before)?)) {
            *digit = b'1';
        }
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Writes Go's words where `answer` is hyper's own refusal, which counts as written when they are.
    fn poll_reworded(&mut self, cx: &mut Context<'_>, answer: &[u8]) -> Option<Poll<io::Result<()>>> {
        if self.frames.is_some() {
            return None;
        }
        if self.reworded.is_none() {
            self.reworded = Some((malformed::reworded(answer, &self.head)?, 0));
        }
        let (words, sent) = self.reworded.as_mut()?;
        while *sent < words.len() {
            match Pin::new(&mut self.io).poll_write(cx, &words[*sent..]) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Ok(written)) => *sent += written,
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        self.reworded = None;
        Some(Poll::Ready(Ok(())))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let outcome = Pin::new(&mut self.io).poll_read(cx, buf);
        let came = &mut buf.filled_mut()[before..];
        if came.is_empty() {
            return outcome;
        }
        let Wire { connection, frames, .. } = &mut *self;
        if let Some(frames) = frames {
            let head = frames.received(came, &connection.env).map_err(io::Error::other)?;
            if head > 0 && connection.head_bytes() == 0 {
                connection.wait_from_now();
            }
            connection.head_is(head);
            return outcome;
        }
        match connection.heard(came.len()) {
            Heard::Other => {}
            heard => self.note(came, matches!(heard, Heard::NewHead)),
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(done) = self.poll_reworded(cx, buf) {
            return done.map_ok(|()| buf.len());
        }
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.count(written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(done) = bufs.first().and_then(|head| self.poll_reworded(cx, head)) {
            return done.map_ok(|()| bufs.iter().map(|buf| buf.len()).sum());
        }
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.count(written)
    }
    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        let lingering = match &mut wire.lingering {
            Some(lingering) => lingering,
            none => {
                ready!(Pin::new(&mut wire.io).poll_shutdown(cx))?;
                if !wire.connection.unread.load(Ordering::Acquire) {
                    return Poll::Ready(Ok(()));
                }
                none.insert(Lingering::new(&wire.connection.env))
            }
        };
        lingering.poll(&wire.connection.env, Pin::new(&mut wire.io), cx).map(Ok)
    }
}

impl Lingering {
    fn new(env: &Env) -> Box<Lingering> {
        let now = env.monotonic();
        Box::new(Lingering {
            left: UNREAD_BYTES,
            ends: Box::pin(env.sleep_until(now + UNREAD_TIME)),
            pause: Box::pin(env.sleep_until(now + UNREAD_PAUSE)),
            buffer: [0; 16 << 10],
        })
    }

    /// However it ends, the connection closes then.
    fn poll(&mut self, env: &Env, mut io: Pin<&mut impl AsyncRead>, cx: &mut Context<'_>) -> Poll<()> {
        while self.left > 0 && self.ends.as_mut().poll(cx).is_pending() {
            let mut buf = ReadBuf::new(&mut self.buffer);
            match io.as_mut().poll_read(cx, &mut buf) {
                Poll::Pending => return self.pause.as_mut().poll(cx),
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.left = self.left.saturating_sub(buf.filled().len());
                    self.pause.as_mut().reset(env.monotonic() + UNREAD_PAUSE);
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}
