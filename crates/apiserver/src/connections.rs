//! All connections of a server: their limit, which one is closed when it is reached, and what they hold together.
//!
//! ```text
//!  accepted ──> unauthenticated ──an authenticated request──> authenticated
//!  full:        closes the oldest unauthenticated one; else the longest idle one; else one of the user with the most
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use env::Env;
use http::HeaderValue;
use parking_lot::Mutex;

use crate::accounting::{HeldBytes, UserAccount};
use crate::connection::Connection;
use crate::pools::Pools;

/// Concurrent connections, if the limit of file descriptors allows as many.
pub const MAX_CONNECTIONS: usize = 20_000;
/// Bytes of incomplete heads of all connections: no well-behaved clients have more.
const HEADS: usize = 16 << 20;
/// Unauthenticated requests in flight: one whose answer is never fetched costs a few kilobytes.
const MAX_UNAUTHENTICATED_REQUESTS: usize = 10_000;
/// How many unauthenticated connections are searched for an idle one.
const LOOKED_AT: usize = 32;

/// Connections to nodes, pods and other servers, however few descriptors there are.
const MIN_BACKENDS: usize = 16;

pub struct Connections {
    limit: AtomicUsize,
    /// Guards the connections; taken when one opens, is authenticated or closes.
    register: Mutex<Register>,
    /// Guards the accounts by user; each removes itself when it is dropped.
    accounts: Mutex<HashMap<Arc<str>, Weak<UserAccount>>>,
    /// The account of all unauthenticated requests.
    anonymous: Arc<UserAccount>,
    /// Memory charged to the server.
    pub(crate) held: Arc<HeldBytes>,
    /// Bytes queued on all connections and not sent.
    pub(crate) unsent: AtomicUsize,
    heads: AtomicUsize,
    /// Requests in flight on unauthenticated connections.
    pub(crate) unauthenticated_requests: AtomicUsize,
    /// Set if there are two thread pools.
    pools: OnceLock<Pools>,
    /// Guards the `Date` header, formatted once a second.
    date: Mutex<(u64, HeaderValue)>,
}

#[derive(Default)]
struct Register {
    opened: u64,
    unauthenticated: BTreeMap<u64, Arc<Connection>>,
    authenticated: BTreeMap<u64, Arc<Connection>>,
}

/// A connection that counts until this is dropped.
pub struct OpenConnection(Arc<Connection>);

impl Connections {
    pub fn new() -> Arc<Connections> {
        let held = Arc::new(HeldBytes::default());
        Arc::new_cyclic(|all| Connections {
            limit: AtomicUsize::new(MAX_CONNECTIONS),
            register: Mutex::default(),
            accounts: Mutex::default(),
            anonymous: UserAccount::new("".into(), all.clone()),
            held,
            unsent: AtomicUsize::new(0),
            heads: AtomicUsize::new(0),
            unauthenticated_requests: AtomicUsize::new(0),
            pools: OnceLock::new(),
            date: Mutex::new((0, http_date(0))),
        })
    }

    pub fn limit(&self, connections: usize) {
        self.limit.store(connections.clamp(1, MAX_CONNECTIONS), Ordering::Release);
    }

    /// Connections to nodes, pods and other servers: for each a descriptor is needed too.
    pub fn max_backends(&self) -> usize {
        (self.limit.load(Ordering::Acquire) / 8).max(MIN_BACKENDS)
    }

    /// Runs connections with critical requests on threads of their own.
    pub fn run_in(&self, pools: Pools) {
        // Set once.
        let _ = self.pools.set(pools);
    }
    pub fn pools(&self) -> Option<&Pools> {
        self.pools.get()
    }

    pub fn count(&self) -> usize {
        let register = self.register.lock();
        register.unauthenticated.len() + register.authenticated.len()
    }

    /// The number of connections closed so far.
    pub fn closed(&self) -> u64 {
        let register = self.register.lock();
        register.opened - (register.unauthenticated.len() + register.authenticated.len()) as u64
    }

    /// Opens a connection; at the limit another one is closed.
    pub fn open(self: &Arc<Connections>, env: &Env) -> OpenConnection {
        let mut register = self.register.lock();
        register.opened += 1;
        let connection = Connection::new(env.clone(), register.opened, self.clone());
        if register.unauthenticated.len() + register.authenticated.len() >= self.limit.load(Ordering::Acquire)
        {
            register.make_room();
        }
        register.unauthenticated.insert(connection.id(), connection.clone());
        OpenConnection(connection)
    }

    /// Closes one connection, because file descriptors have run out.
    pub fn make_room(&self) {
        self.register.lock().make_room();
    }

    /// Ends all connections.
    pub fn abort_all(&self) {
        self.register.lock().all().for_each(|connection| connection.abort());
    }

    /// The current `Date` header.
    pub(crate) fn date(&self, env: &Env) -> HeaderValue {
        let now = env.now_seconds();
        let mut date = self.date.lock();
        if date.0 != now {
            *date = (now, http_date(now));
        }
        date.1.clone()
    }

    pub(crate) fn move_to_authenticated(&self, id: u64) {
        let mut register = self.register.lock();
        if let Some(connection) = register.unauthenticated.remove(&id) {
            register.authenticated.insert(id, connection);
        }
    }

    pub(crate) fn anonymous(&self) -> &Arc<UserAccount> {
        &self.anonymous
    }

    pub(crate) fn account(self: &Arc<Connections>, user: &str) -> Arc<UserAccount> {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(user).and_then(Weak::upgrade) {
            return account;
        }
        let name: Arc<str> = user.into();
        let account = UserAccount::new(name.clone(), Arc::downgrade(self));
        accounts.insert(name, Arc::downgrade(&account));
        account
    }

    pub(crate) fn forget(&self, user: &str) {
        let mut accounts = self.accounts.lock();
        // Another request may have created it anew meanwhile.
        if accounts.get(user).is_some_and(|account| account.strong_count() == 0) {
            accounts.remove(user);
        }
    }

    pub(crate) fn has_too_many_unauthenticated(&self) -> bool {
        self.unauthenticated_requests.load(Ordering::Relaxed) > MAX_UNAUTHENTICATED_REQUESTS
    }

    /// Incomplete heads have grown by that many bytes.
    pub(crate) fn heads_grow(&self, bytes: usize) {
        if self.heads.fetch_add(bytes, Ordering::AcqRel) + bytes > HEADS {
            self.drop_largest_heads();
        }
    }
    pub(crate) fn heads_shrink(&self, bytes: usize) {
        self.heads.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Down to half of the limit, so that it is not needed again for every further byte.
    fn drop_largest_heads(&self) {
        let register = self.register.lock();
        // They grow and shrink meanwhile: read once.
        let mut heads: Vec<(usize, &Arc<Connection>)> = register
            .all()
            .map(|connection| (connection.head_bytes(), connection))
            .filter(|(bytes, _)| *bytes > 0)
            .collect();
        heads.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let mut left: usize = heads.iter().map(|(bytes, _)| bytes).sum();
        let mut dropped = 0;
        for (bytes, connection) in heads {
            if left <= HEADS / 2 {
                break;
            }
            left -= bytes;
            connection.abort();
            dropped += 1;
        }
        tracing::warn!(dropped, "closed connections with large incomplete requests");
    }
}

impl Register {
    fn all(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.unauthenticated.values().chain(self.authenticated.values())
    }

    fn make_room(&mut self) {
        let idle = |connection: &&Arc<Connection>| connection.under_way() == 0;
        let unauthenticated = self.unauthenticated.values().take(LOOKED_AT).find(idle);
        let unauthenticated = unauthenticated.or_else(|| self.unauthenticated.values().next());
        let victim = unauthenticated.or_else(|| {
            let longest =
                self.authenticated.values().filter(idle).min_by_key(|connection| connection.idle_since());
            longest.or_else(|| self.authenticated.values().max_by_key(|connection| connection.of_same_user()))
        });
        if let Some(victim) = victim.cloned() {
            victim.abort();
            // It no longer counts, though its task may take a moment to end.
            self.remove(victim.id());
        }
    }

    fn remove(&mut self, id: u64) {
        if self.unauthenticated.remove(&id).is_none() {
            self.authenticated.remove(&id);
        }
    }
}

impl OpenConnection {
    pub fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        // First, so that nobody who holds the register looks for its owner.
        self.0.connections().register.lock().remove(self.0.id());
        self.0.closed();
    }
}

/// As RFC 9110 writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(seconds: u64) -> HeaderValue {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    // `1994-11-06T08:49:37Z`
    let text = object::time::format_seconds(seconds as i64);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("");
    let day = DAYS[(seconds / 86_400 % 7) as usize];
    let month = part(5..7).parse::<usize>().ok().and_then(|month| MONTHS.get(month - 1)).unwrap_or(&"Jan");
    let date = format!("{day}, {} {month} {} {} GMT", part(8..10), part(0..4), part(11..19));
    HeaderValue::try_from(date).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::Charge;

    #[test]
    fn the_date_is_the_rfcs() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    }

    fn open(all: &Arc<Connections>, env: &Env) -> OpenConnection {
        all.open(env)
    }

    async fn is_cut(open: &OpenConnection) -> bool {
        std::future::poll_fn(|cx| {
            let cut = std::pin::pin!(open.connection().aborted()).poll(cx).is_ready();
            std::task::Poll::Ready(cut)
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_unauthenticated_go_first_then_the_longest_idle_then_one_of_the_user_with_most()
    {
        let env = Env::simulated(1);
        let all = Connections::new();
        all.limit(4);
        let jane = auth::UserInfo::new("jane", &[]);
        let joe = auth::UserInfo::new("joe", &[]);
        // Joe's has a request in flight; of Jane's two, the second is idle longer.
        let (a, b, c) = (open(&all, &env), open(&all, &env), open(&all, &env));
        let busy = a.connection().begin();
        busy.charge_to(&joe, false).unwrap();
        for known in [&c, &b] {
            env.sleep(std::time::Duration::from_secs(1)).await;
            known.connection().begin().charge_to(&jane, false).unwrap();
        }
        let unauthenticated = open(&all, &env);
        let newer = open(&all, &env);
        assert!(is_cut(&unauthenticated).await, "unauthenticated ones go first");
        newer.connection().begin().charge_to(&joe, false).unwrap();
        let newest = open(&all, &env);
        assert!(is_cut(&c).await, "then the longest idle one");
        let under_way: Vec<_> = [&b, &newer, &newest].iter().map(|open| open.connection().begin()).collect();
        under_way.iter().for_each(|exchange| exchange.charge_to(&joe, true).unwrap());
        assert_eq!(all.count(), 4);
        let last = open(&all, &env);
        let cut = [is_cut(&a).await, is_cut(&b).await, is_cut(&newer).await, is_cut(&newest).await];
        assert_eq!(cut.iter().filter(|cut| **cut).count(), 1, "somebody goes even if all are busy");
        assert!(!is_cut(&last).await);
        drop((a, b, c, unauthenticated, newer, newest, last));
        assert_eq!(all.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn objects_yet_to_be_encoded_do_not_count_against_the_limit() {
        let env = Env::simulated(1);
        let all = Connections::new();
        let connection = all.open(&env);
        let exchange = connection.connection().begin();
        exchange.charge_to(&auth::UserInfo::new("jane", &[]), false).unwrap();
        let mut charge = Charge::new(exchange.clone());
        charge.set(0, 200 << 20);
        assert!(!exchange.is_over_limit() && !exchange.is_server_full() && exchange.is_under_pressure());
        charge.set(9 << 20, 0);
        assert!(exchange.is_over_limit() && !exchange.is_under_pressure());
        drop(charge);
        assert!(!exchange.is_over_limit());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unauthenticated_connection_has_a_hundred_requests_and_locks_out_no_other() {
        let env = Env::simulated(1);
        let all = Connections::new();
        let (rude, polite) = (all.open(&env), all.open(&env));
        let mut asked: Vec<_> = (0..100).map(|_| rude.connection().begin()).collect();
        assert!(rude.connection().exceeds_unauthenticated_limit());
        assert!(!polite.connection().exceeds_unauthenticated_limit());
        while !all.has_too_many_unauthenticated() {
            asked.push(rude.connection().begin());
        }
        assert!(!polite.connection().exceeds_unauthenticated_limit(), "its first request is answered");
        asked[0].charge_to(&auth::UserInfo::new("jane", &[]), false).unwrap();
        assert!(!rude.connection().exceeds_unauthenticated_limit(), "now it is authenticated");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_outlives_its_connection_is_not_counted_as_another() {
        let env = Env::simulated(1);
        let all = Connections::new();
        let jane = auth::UserInfo::new("jane", &[]);
        let (gone, stays) = (all.open(&env), all.open(&env));
        stays.connection().begin().charge_to(&jane, false).unwrap();
        let late = gone.connection().begin();
        drop(gone);
        late.charge_to(&jane, false).unwrap();
        assert_eq!(stays.connection().of_same_user(), 1);
        assert_eq!(all.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_heads_are_limited_and_the_largest_go_first() {
        let env = Env::simulated(1);
        let all = Connections::new();
        let open: Vec<OpenConnection> = (0..20).map(|_| all.open(&env)).collect();
        open.iter().take(16).for_each(|open| open.connection().head_is(1 << 20));
        open[16].connection().head_is(1000);
        open[17].connection().head_is(1000);
        assert!(!is_cut(&open[16]).await && !is_cut(&open[17]).await, "small ones stay");
        let mut cut = 0;
        for open in &open {
            cut += usize::from(is_cut(open).await);
        }
        assert_eq!(cut, 9, "down to half of the bound");
    }
}
