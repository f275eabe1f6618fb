//! The state a connection's tasks share: its user, requests in flight, unsent bytes and idle timeouts.
//!
//! ```text
//!  opened ──> waits for a head (32 s) ──> requests in flight ──> idle (90 s) ──first byte──> waits for the rest of the head (10 s)
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::Env;
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::accounting::{Exchange, HeldBytes, UserAccount};
use crate::connections::Connections;
use crate::pools::{Pool, PoolAssignment};
use crate::response_body::{ChunkedBody, FETCH_TIMEOUT};
use crate::upgrade::Session;

/// Upstream's timeouts: to read the head of a request, and between requests.
const HEADER: Duration = Duration::from_secs(32);
const IDLE: Duration = Duration::from_secs(90);
/// How long the head of a request may stay incomplete.
const PARTIAL_HEAD: Duration = Duration::from_secs(10);
/// Unsent bytes of one connection; fewer when the server has many.
const MAX_UNSENT: usize = 1 << 20;
const MAX_UNSENT_UNDER_PRESSURE: usize = 32 << 10;
const UNSENT_PRESSURE: usize = 64 << 20;

/// Concurrent requests on an unauthenticated connection; and when the server has too many of those.
const UNAUTHENTICATED_MOST: usize = 100;
const UNAUTHENTICATED_FEW: usize = 4;

#[derive(Default)]
struct Owner {
    account: Option<Arc<UserAccount>>,
    /// The connection is closed; its requests may still be in flight.
    closed: bool,
}

/// One connection.
pub struct Connection {
    env: Env,
    id: u64,
    connections: Arc<Connections>,
    http2: AtomicBool,
    pool_assignment: PoolAssignment,
    /// The client's address; none of a pipe.
    peer: OnceLock<IpAddr>,
    opened: Instant,
    under_way: AtomicUsize,
    /// A head is incomplete, or the first one has not arrived.
    heading: AtomicBool,
    /// Since when, or since when the connection is idle; milliseconds since it was opened.
    waiting_since: AtomicU64,
    /// Bytes of an incomplete head.
    head: AtomicUsize,
    authenticated: AtomicBool,
    /// Ends the connection at once.
    abort: Notify,
    /// Memory charged to it.
    held: HeldBytes,
    /// Bytes queued for the socket and not sent.
    unsent: AtomicUsize,
    /// When bytes were last sent, or first queued; milliseconds since it was opened.
    sent_at: AtomicU64,
    /// Guards the tasks that wait for unsent bytes to go; `anyone_waits` saves the lock.
    waiting: Mutex<Vec<Waker>>,
    anyone_waits: AtomicBool,
    /// Guards the user of the last request. Of other locks only that of the accounts is taken under it.
    owner: Mutex<Owner>,
    /// Guards the chunked answers over HTTP/1, by number: never more than there are requests in flight.
    chunked: Mutex<BTreeMap<u64, Arc<ChunkedBody>>>,
    /// The number of the next chunked answer.
    answers: AtomicU64,
    /// An answer was sent before its request was read to the end.
    unread: AtomicBool,
    /// Guards the session the connection is upgraded to once hyper has released it.
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
            pool_assignment: PoolAssignment::new(),
            peer: OnceLock::new(),
            under_way: AtomicUsize::new(0),
            heading: AtomicBool::new(true),
            waiting_since: AtomicU64::new(0),
            head: AtomicUsize::new(0),
            authenticated: AtomicBool::new(false),
            abort: Notify::new(),
            held: HeldBytes::default(),
            unsent: AtomicUsize::new(0),
            sent_at: AtomicU64::new(0),
            waiting: Mutex::default(),
            anyone_waits: AtomicBool::new(false),
            owner: Mutex::default(),
            chunked: Mutex::default(),
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
    pub fn held(&self) -> &HeldBytes {
        &self.held
    }

    pub fn set_peer(&self, peer: IpAddr) {
        // Set once.
        let _ = self.peer.set(peer);
    }
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.get().copied()
    }

    pub fn pool_assignment(&self) -> &PoolAssignment {
        &self.pool_assignment
    }

    /// A request prefers to run in that pool.
    pub fn prefer_pool(&self, pool: Pool) {
        self.pool_assignment.request_move(pool, || self.env.monotonic() - self.opened);
    }

    /// The negotiated protocol; the timeout of the first head starts now.
    pub fn set_protocol(&self, http2: bool) {
        self.http2.store(http2, Ordering::Release);
        self.wait_from_now();
    }

    pub fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Ends it at once, whatever is in flight.
    pub fn abort(&self) {
        self.abort.notify_one();
    }
    pub async fn aborted(&self) {
        self.abort.notified().await;
    }

    pub fn closed(&self) {
        self.head_is(0);
        let mut owner = self.owner.lock();
        owner.closed = true;
        if let Some(account) = owner.account.take() {
            account.connections().fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The account of a user; looked up only when the user changes.
    pub fn account(&self, user: &str) -> Arc<UserAccount> {
        let mut owner = self.owner.lock();
        if let Some(account) = &owner.account
            && account.name() == user
        {
            return account.clone();
        }
        let account = self.connections.account(user);
        if owner.closed {
            // A request that outlives its connection.
            return account;
        }
        account.connections().fetch_add(1, Ordering::Relaxed);
        let before = owner.account.replace(account.clone());
        drop(owner);
        match before {
            Some(before) => _ = before.connections().fetch_sub(1, Ordering::Relaxed),
            None => {
                self.authenticated.store(true, Ordering::Relaxed);
                self.connections.move_to_authenticated(self.id);
            }
        }
        account
    }

    /// Unauthenticated, with too many requests in flight; the limit is lower when the server has many such requests.
    pub fn exceeds_unauthenticated_limit(&self) -> bool {
        let most = if self.connections.has_too_many_unauthenticated() {
            UNAUTHENTICATED_FEW
        } else {
            UNAUTHENTICATED_MOST
        };
        !self.is_authenticated() && self.under_way() >= most
    }

    /// A request on it was authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// The number of connections its user has.
    pub fn of_same_user(&self) -> usize {
        self.owner.lock().account.as_ref().map_or(0, |account| account.connections().load(Ordering::Relaxed))
    }

    /// The answer in flight is the last one over HTTP: the session follows.
    pub fn upgrade_to(&self, session: Session, upgrade: OnUpgrade) {
        *self.upgrade.lock() = Some((session, upgrade));
    }

    pub fn upgraded(&self) -> Option<(Session, OnUpgrade)> {
        self.upgrade.lock().take()
    }

    /// A request has arrived; it is in flight until the exchange is dropped.
    pub fn begin(self: &Arc<Connection>) -> Arc<Exchange> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.heading.store(false, Ordering::Release);
        if !self.is_http2() {
            self.head_is(0);
        }
        Exchange::new(self.clone())
    }

    /// The session after an upgrade, charged to the user of the upgrade request.
    pub fn begin_session(self: &Arc<Connection>) -> Arc<Exchange> {
        let exchange = self.begin();
        if let Some(account) = &self.owner.lock().account {
            exchange.set_account(account.clone());
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

    pub fn idle_since(&self) -> Instant {
        self.opened + Duration::from_millis(self.waiting_since.load(Ordering::Acquire))
    }

    /// The rest of a request stays unread: closing lingers for it.
    pub fn leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// Resolves when the client exceeds a timeout. Polls instead of setting a timer for each request, so it may be late by as much
    /// as a head may take.
    pub async fn overdue(&self) {
        loop {
            let now = self.env.monotonic();
            let mut look = now + PARTIAL_HEAD;
            // Nothing can follow a truncated answer; and a client that reads nothing is gone, or wants to hold our memory.
            let stuck = self.unsent.load(Ordering::Acquire) > 0 && !self.has_sent(FETCH_TIMEOUT);
            if self.drop_unfetched() || stuck {
                return;
            }
            let partial_head = self.head_bytes() > 0;
            if self.under_way() == 0 || partial_head {
                let limit = match self.heading.load(Ordering::Acquire) {
                    _ if partial_head => PARTIAL_HEAD,
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

    /// Bytes arrived over HTTP/1: the head of a request, or something else.
    pub(crate) fn receive(&self, bytes: usize) -> ReceivedBytes {
        if self.under_way() > 0 {
            return ReceivedBytes::Other;
        }
        let begun = self.head.load(Ordering::Relaxed);
        if begun == 0 {
            self.wait_from_now();
        }
        self.head_is(begun + bytes);
        if self.heading.swap(true, Ordering::AcqRel) { ReceivedBytes::Head } else { ReceivedBytes::NewHead }
    }

    pub fn head_bytes(&self) -> usize {
        self.head.load(Ordering::Relaxed)
    }

    /// The size of the incomplete head.
    pub(crate) fn head_is(&self, bytes: usize) {
        let before = self.head.swap(bytes, Ordering::Relaxed);
        if bytes > before {
            self.connections.heads_grow(bytes - before);
        } else if bytes < before {
            self.connections.heads_shrink(before - bytes);
        }
    }

    pub(crate) fn wait_from_now(&self) {
        self.waiting_since.store(self.age(), Ordering::Release);
    }

    /// In milliseconds.
    pub fn age(&self) -> u64 {
        self.env.monotonic().duration_since(self.opened).as_millis() as u64
    }

    /// Registers a chunked answer, and returns its number.
    pub fn register_chunked(&self, chunked: &Arc<ChunkedBody>) -> u64 {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        self.chunked.lock().insert(number, chunked.clone());
        number
    }
    pub fn answered(&self, number: u64) {
        self.chunked.lock().remove(&number);
    }

    fn drop_unfetched(&self) -> bool {
        let now = self.age();
        let chunked: Vec<Arc<ChunkedBody>> = self.chunked.lock().values().cloned().collect();
        chunked.iter().filter(|chunked| chunked.drop_if_unfetched(now)).count() > 0
    }

    /// Ready when more may be queued for the socket.
    pub fn poll_room(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_room() {
            return Poll::Ready(());
        }
        {
            let mut waiting = self.waiting.lock();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
        }
        self.anyone_waits.store(true, Ordering::SeqCst);
        // Bytes may have been sent in between.
        if self.has_room() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn has_room(&self) -> bool {
        let pressed = self.connections.unsent.load(Ordering::Relaxed) > UNSENT_PRESSURE;
        self.unsent.load(Ordering::SeqCst) < if pressed { MAX_UNSENT_UNDER_PRESSURE } else { MAX_UNSENT }
    }

    pub fn queue_for_send(&self, bytes: usize) {
        if self.unsent.fetch_add(bytes, Ordering::AcqRel) == 0 {
            self.sent_at.store(self.age(), Ordering::Release);
        }
        self.connections.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether any bytes were sent within that time.
    pub fn has_sent(&self, within: Duration) -> bool {
        self.age().saturating_sub(self.sent_at.load(Ordering::Acquire)) < within.as_millis() as u64
    }

    /// When bytes were last sent, in milliseconds since it was opened.
    pub fn sent_at(&self) -> u64 {
        self.sent_at.load(Ordering::Acquire)
    }

    pub fn sent(&self, bytes: usize) {
        self.sent_at.store(self.age(), Ordering::Release);
        self.connections.unsent.fetch_sub(bytes, Ordering::Relaxed);
        let left = self.unsent.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        // Either this sees the waiting task, or the task sees the bytes sent.
        if left < MAX_UNSENT / 2 && self.anyone_waits.swap(false, Ordering::SeqCst) {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// What bytes received over HTTP/1 belong to.
pub(crate) enum ReceivedBytes {
    NewHead,
    Head,
    Other,
}
