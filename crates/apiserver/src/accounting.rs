//! Memory held on behalf of clients: answers they have not fetched yet, and request bodies. It is charged to the connection, the
//! user and the server, each with a limit.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use auth::{UserInfo, groups};
use object::Status;

use crate::connection::Connection;
use crate::connections::Connections;
use crate::pools::Pool;

/// Limits of one connection, one user and the server. The first item may have any size.
struct Bounds {
    connection: usize,
    user: usize,
    all: usize,
}

/// Encoded answers that are not fetched. Beyond it reads get 429, lists and watches wait.
const ANSWERS: Bounds = Bounds { connection: 8 << 20, user: 64 << 20, all: 128 << 20 };
/// Request bodies, until the request is answered. Beyond it: 429.
const BODIES: Bounds = Bounds { connection: 16 << 20, user: 64 << 20, all: 256 << 20 };

/// An answer that is sent in one chunk.
const SMALL: usize = 64 << 10;

const UNFETCHED: &str = "Too many unread responses, please try again later.";
const UNREAD: &str = "Too many request bytes in flight, please try again later.";

/// Bytes held, at one of the three levels.
#[derive(Default)]
pub struct HeldBytes {
    answers: AtomicUsize,
    /// References to objects that lists and watches have yet to send. They do not count against the limit: sending is how they go away.
    items: AtomicUsize,
    bodies: AtomicUsize,
}

/// What is charged to one user.
pub struct UserAccount {
    name: Arc<str>,
    held: HeldBytes,
    /// Connections whose last request was this user's.
    connections: AtomicUsize,
    all: Weak<Connections>,
}

impl UserAccount {
    pub(crate) fn new(name: Arc<str>, all: Weak<Connections>) -> Arc<UserAccount> {
        Arc::new(UserAccount { name, held: HeldBytes::default(), connections: AtomicUsize::new(0), all })
    }
    pub fn name(&self) -> &str {
        &self.name
    }
    pub fn connections(&self) -> &AtomicUsize {
        &self.connections
    }
}

impl Drop for UserAccount {
    fn drop(&mut self) {
        if let Some(all) = self.all.upgrade() {
            all.forget(&self.name);
        }
    }
}

/// A request and its answer, in flight until the last byte is sent.
pub struct Exchange {
    connection: Arc<Connection>,
    /// Set once the user is authenticated.
    account: OnceLock<Arc<UserAccount>>,
    /// Bytes of the request body.
    body: AtomicUsize,
    /// Counted among the requests of unauthenticated connections.
    unauthenticated: AtomicBool,
    /// Its priority level is critical.
    critical: AtomicBool,
}

impl Exchange {
    pub fn new(connection: Arc<Connection>) -> Arc<Exchange> {
        let unauthenticated = !connection.is_authenticated();
        if unauthenticated {
            connection.connections().unauthenticated_requests.fetch_add(1, Ordering::Relaxed);
        }
        let (account, body) = (OnceLock::new(), AtomicUsize::new(0));
        let (unauthenticated, critical) = (AtomicBool::new(unauthenticated), AtomicBool::new(false));
        Arc::new(Exchange { connection, account, body, unauthenticated, critical })
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// The pool it should run in, with its connection.
    pub fn prefer_pool(&self, pool: Pool) {
        self.critical.store(pool == Pool::Priority, Ordering::Relaxed);
        self.connection.prefer_pool(pool);
    }

    pub fn pool(&self) -> Pool {
        if self.critical.load(Ordering::Relaxed) { Pool::Priority } else { Pool::Ordinary }
    }

    /// Charges what the request holds to its user from here on. A user over the limit cannot write until they fetch: the answer to
    /// a write is always sent, whatever its size.
    pub fn charge_to(&self, user: &UserInfo, writes: bool) -> Result<(), Status> {
        if !user.is_in(groups::UNAUTHENTICATED) {
            self.set_account(self.connection.account(&user.name));
        }
        if writes && self.is_over_limit() { Err(Status::too_many_requests(UNFETCHED, 1)) } else { Ok(()) }
    }

    pub fn set_account(&self, account: Arc<UserAccount>) {
        let _ = self.account.set(account);
        self.count_as_authenticated();
    }

    fn count_as_authenticated(&self) {
        if self.unauthenticated.swap(false, Ordering::Relaxed) {
            self.connection.connections().unauthenticated_requests.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn account(&self) -> &UserAccount {
        self.account.get().unwrap_or_else(|| self.connection.connections().anonymous())
    }

    fn levels(&self) -> [&HeldBytes; 3] {
        [self.connection.held(), &self.account().held, &self.connection.connections().held]
    }

    fn unfetched(&self) -> [usize; 3] {
        self.levels().map(|held| held.answers.load(Ordering::Relaxed))
    }

    /// Whether the connection or the user has too much unfetched: nothing more is encoded for them then.
    pub fn is_over_limit(&self) -> bool {
        let [connection, user, _] = self.unfetched();
        connection > ANSWERS.connection || self.is_authenticated() && user > ANSWERS.user
    }

    /// Whether the server is near its limit: slow clients get a shorter timeout then.
    pub fn is_under_pressure(&self) -> bool {
        let items = self.connection.connections().held.items.load(Ordering::Relaxed);
        self.unfetched()[2] + items > ANSWERS.all / 2
    }

    /// Whether the server is over its limit, and takes no further large answer.
    pub fn is_server_full(&self) -> bool {
        self.unfetched()[2] > ANSWERS.all
    }

    /// Whether an answer of that size may be held until it is fetched. Small ones count only for their user: what others do not
    /// fetch must not keep a node from renewing its lease.
    pub fn check_hold(&self, bytes: usize) -> Result<(), Status> {
        let full = |held: usize, bound: usize| held > 0 && held + bytes > bound;
        let [connection, user, all] = self.unfetched();
        if full(connection, ANSWERS.connection)
            || self.is_authenticated() && full(user, ANSWERS.user)
            || bytes > SMALL && full(all, ANSWERS.all)
        {
            return Err(Status::too_many_requests(UNFETCHED, 1));
        }
        Ok(())
    }

    /// Anonymous users share one account, which has no limit: one of them would lock out the others.
    fn is_authenticated(&self) -> bool {
        self.account.get().is_some()
    }

    /// Charges bytes of the request body.
    pub fn received(&self, bytes: usize) -> Result<(), Status> {
        let bounds = [BODIES.connection, BODIES.user, BODIES.all];
        self.body.fetch_add(bytes, Ordering::Relaxed);
        let mut full = false;
        // A body is read only once its user is known.
        for (held, bound) in self.levels().into_iter().zip(bounds) {
            let before = held.bodies.fetch_add(bytes, Ordering::Relaxed);
            full |= before > 0 && before + bytes > bound;
        }
        if full { Err(Status::too_many_requests(UNREAD, 1)) } else { Ok(()) }
    }

    /// The request is answered and its body dropped.
    pub fn release_body(&self) {
        let bytes = self.body.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            self.levels().into_iter().for_each(|held| _ = held.bodies.fetch_sub(bytes, Ordering::Relaxed));
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.release_body();
        self.count_as_authenticated();
        self.connection.ended();
    }
}

/// The charge for one answer, released on drop.
pub struct Charge {
    exchange: Arc<Exchange>,
    made: usize,
    items: usize,
}

impl Charge {
    pub fn new(exchange: Arc<Exchange>) -> Charge {
        Charge { exchange, made: 0, items: 0 }
    }

    pub fn exchange(&self) -> &Arc<Exchange> {
        &self.exchange
    }

    /// Sets the encoded bytes, and those of references to objects that are not encoded yet.
    pub fn set(&mut self, made: usize, items: usize) {
        for held in self.exchange.levels() {
            change(&held.answers, self.made, made);
        }
        change(&self.exchange.connection.connections().held.items, self.items, items);
        (self.made, self.items) = (made, items);
    }
}

fn change(count: &AtomicUsize, before: usize, now: usize) {
    match now.cmp(&before) {
        std::cmp::Ordering::Greater => _ = count.fetch_add(now - before, Ordering::Relaxed),
        std::cmp::Ordering::Less => _ = count.fetch_sub(before - now, Ordering::Relaxed),
        std::cmp::Ordering::Equal => {}
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}
