//! What a connection's tasks know together: who asks, what is under way, and how long it may say nothing.
//!
//! ```text
//!  opened ──> a header is awaited (32 s) ──> requests under way ──> idle (90 s) ──first byte──> its end is awaited (10 s)
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
use crate::websocket::Session;

/// Upstream's limits: how long a request's header may take, and how long a connection may be kept between requests.
const HEADER: Duration = Duration::from_secs(32);
const IDLE: Duration = Duration::from_secs(90);
/// How long a connection may leave a head it has begun without its end.
const PARTIAL_HEAD: Duration = Duration::from_secs(10);
/// What may be on its way to one client at once; less when there is much for all of them.
const MAX_UNSENT: usize = 1 << 20;
const MAX_UNSENT_UNDER_PRESSURE: usize = 32 << 10;
const UNSENT_PRESSURE: usize = 64 << 20;

/// Requests at once on a connection of which nothing is known; and when there are too many of those in all.
const UNAUTHENTICATED_MOST: usize = 100;
const UNAUTHENTICATED_FEW: usize = 4;

#[derive(Default)]
struct Owner {
    account: Option<Arc<UserAccount>>,
    /// Nobody's any more: its requests may still end.
    closed: bool,
}

/// What a connection's tasks know together.
pub struct Connection {
    env: Env,
    id: u64,
    connections: Arc<Connections>,
    http2: AtomicBool,
    pool_assignment: PoolAssignment,
    opened: Instant,
    under_way: AtomicUsize,
    /// Part of a header has come, or the first one is awaited.
    heading: AtomicBool,
    /// When that wait began, or the connection became idle; milliseconds since it was opened.
    waiting_since: AtomicU64,
    /// Bytes of a head that has not come to its end.
    head: AtomicUsize,
    authenticated: AtomicBool,
    /// Told to end at once.
    abort: Notify,
    /// Bytes held because of it.
    held: HeldBytes,
    /// Bytes given to the socket's side and not sent.
    unsent: AtomicUsize,
    /// When some were sent last, or began to be; milliseconds since it was opened.
    sent_at: AtomicU64,
    /// Guards those who wait for some of them to be sent; and whether there is anyone.
    waiting: Mutex<Vec<Waker>>,
    anyone_waits: AtomicBool,
    /// Guards whose request was the last. No other lock is taken under it but that of the accounts.
    owner: Mutex<Owner>,
    /// Guards the answers that leave in pieces over HTTP/1, by number: never more than there are requests under way.
    chunked: Mutex<BTreeMap<u64, Arc<ChunkedBody>>>,
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
            pool_assignment: PoolAssignment::new(),
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

    pub fn pool_assignment(&self) -> &PoolAssignment {
        &self.pool_assignment
    }

    /// A request on it is to be run there.
    pub fn prefer_pool(&self, pool: Pool) {
        self.pool_assignment.request_move(pool, || self.env.monotonic() - self.opened);
    }

    /// Which protocol it turned out to speak; its first head is awaited from now on.
    pub fn set_protocol(&self, http2: bool) {
        self.http2.store(http2, Ordering::Release);
        self.wait_from_now();
    }

    pub fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Ends it at once, whatever is under way.
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

    /// The account of who asks; looked up when that is another one than before.
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

    /// Nothing is known of who asks, and they ask for more at once than a stranger needs; or, where there is much of that
    /// already, for more than a few things.
    pub fn exceeds_unauthenticated_limit(&self) -> bool {
        let most = if self.connections.has_too_many_unauthenticated() {
            UNAUTHENTICATED_FEW
        } else {
            UNAUTHENTICATED_MOST
        };
        !self.is_authenticated() && self.under_way() >= most
    }

    /// A request on it was somebody's.
    pub fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// How many connections its user has.
    pub fn of_same_user(&self) -> usize {
        self.owner.lock().account.as_ref().map_or(0, |account| account.connections().load(Ordering::Relaxed))
    }

    /// The answer under way is the last one: after it the connection speaks another protocol.
    pub fn upgrade_to(&self, session: Session, upgrade: OnUpgrade) {
        *self.upgrade.lock() = Some((session, upgrade));
    }

    pub fn upgraded(&self) -> Option<(Session, OnUpgrade)> {
        self.upgrade.lock().take()
    }

    /// A request has come; it is under way until what is given is dropped.
    pub fn begin(self: &Arc<Connection>) -> Arc<Exchange> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.heading.store(false, Ordering::Release);
        if !self.is_http2() {
            self.head_is(0);
        }
        Exchange::new(self.clone())
    }

    /// What follows the last request is under way too, and its user's.
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

    /// The larger, the shorter ago.
    pub fn idle_since(&self) -> Instant {
        self.opened + Duration::from_millis(self.waiting_since.load(Ordering::Acquire))
    }

    /// The rest of a request stays unread: what still comes is waited for when the connection closes.
    pub fn leave_unread(&self) {
        self.unread.store(true, Ordering::Release);
    }

    pub fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// Resolves once the client has let us wait too long. Looks now and then instead of setting a timer for each
    /// request, so it may be late by as much as a header may take.
    pub async fn overdue(&self) {
        loop {
            let now = self.env.monotonic();
            let mut look = now + PARTIAL_HEAD;
            // Nothing can follow half an answer; and who takes nothing of what was sent is gone, or wants it to lie here.
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

    /// Bytes have come over HTTP/1. Whether they are a request's head, and whether they begin it.
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

    /// So much of a head is there, without its end.
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

    /// An answer that leaves in pieces; with its number.
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

    /// Whether more may be given to the socket's side; if not, the task is woken when it may.
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
        // Some may have been sent in between.
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

    /// Whether some of what was given to it was sent within that time.
    pub fn has_sent(&self, within: Duration) -> bool {
        self.age().saturating_sub(self.sent_at.load(Ordering::Acquire)) < within.as_millis() as u64
    }

    /// When some was sent last, in milliseconds of the connection's time.
    pub fn sent_at(&self) -> u64 {
        self.sent_at.load(Ordering::Acquire)
    }

    pub fn sent(&self, bytes: usize) {
        self.sent_at.store(self.age(), Ordering::Release);
        self.connections.unsent.fetch_sub(bytes, Ordering::Relaxed);
        let left = self.unsent.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        // Either this sees who waits, or they see what was sent.
        if left < MAX_UNSENT / 2 && self.anyone_waits.swap(false, Ordering::SeqCst) {
            let waiting = std::mem::take(&mut *self.waiting.lock());
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// What bytes over HTTP/1 belong to.
pub(crate) enum ReceivedBytes {
    NewHead,
    Head,
    Other,
}
