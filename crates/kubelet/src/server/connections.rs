//! The connections of the node's port: how many there may be, and which one is closed for another.
//!
//! ```text
//!  accepted ──> in its handshake ──TLS──> unknown ──a request that is allowed──> known
//!     too many of one address: its oldest            all together too many: the oldest unknown one, handshakes among them,
//!                                                     else the known one that is idle longest
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use env::Env;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Handshakes of one address at a time: one takes milliseconds, and who is slower than so many others is not waited for.
const HANDSHAKES: usize = 256;

pub struct Connections {
    env: Env,
    /// Each has its buffers.
    limit: usize,
    /// Guards which there are; held for a few instructions.
    register: Mutex<Register>,
}

#[derive(Default)]
struct Register {
    opened: u64,
    unknown: BTreeMap<u64, Arc<Connection>>,
    known: BTreeMap<u64, Arc<Connection>>,
    handshakes: HashMap<IpAddr, BTreeSet<u64>>,
}

struct Connection {
    id: u64,
    peer: IpAddr,
    /// It has to make room.
    cut: Notify,
    busy: AtomicUsize,
    /// Guards when it was busy last.
    idle_since: Mutex<Instant>,
}

/// A connection that counts until this is dropped.
pub struct Open {
    all: Arc<Connections>,
    connection: Arc<Connection>,
}

/// A request under way, or a session.
pub struct Busy {
    all: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Connections {
    pub fn new(env: &Env, limit: usize) -> Arc<Connections> {
        Arc::new(Connections { env: env.clone(), limit, register: Mutex::default() })
    }

    /// `None`: there is no room, as all others are in use by clients that are known.
    pub fn open(self: &Arc<Connections>, peer: IpAddr) -> Option<Open> {
        // Of a socket for both versions.
        let peer = peer.to_canonical();
        let mut register = self.register.lock();
        let of_peer = register.handshakes.get(&peer);
        if let Some(oldest) =
            of_peer.filter(|all| all.len() >= HANDSHAKES).and_then(|all| all.first().copied())
        {
            register.cut(oldest);
        }
        if register.unknown.len() + register.known.len() >= self.limit && !register.make_room() {
            return None;
        }
        register.opened += 1;
        let connection = Arc::new(Connection {
            id: register.opened,
            peer,
            cut: Notify::new(),
            busy: AtomicUsize::new(0),
            idle_since: Mutex::new(self.env.monotonic()),
        });
        register.unknown.insert(connection.id, connection.clone());
        register.handshakes.entry(peer).or_default().insert(connection.id);
        Some(Open { all: self.clone(), connection })
    }

    /// Closes one, because file descriptors have run out.
    pub fn make_room(&self) {
        self.register.lock().make_room();
    }
}

impl Register {
    fn make_room(&mut self) -> bool {
        let idle = |connection: &&Arc<Connection>| connection.busy.load(Ordering::Acquire) == 0;
        let oldest = self.unknown.keys().next().copied();
        let victim = oldest.or_else(|| {
            let longest =
                self.known.values().filter(idle).min_by_key(|connection| *connection.idle_since.lock());
            longest.map(|connection| connection.id)
        });
        victim.inspect(|id| self.cut(*id)).is_some()
    }

    /// It no longer counts, though its task may take a moment to end.
    fn cut(&mut self, id: u64) {
        if let Some(connection) = self.remove(id) {
            connection.cut.notify_one();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Connection>> {
        let removed = self.unknown.remove(&id).or_else(|| self.known.remove(&id));
        if let Some(connection) = &removed {
            self.shaken(connection);
        }
        removed
    }

    fn shaken(&mut self, connection: &Connection) {
        if let Some(of_peer) = self.handshakes.get_mut(&connection.peer) {
            of_peer.remove(&connection.id);
            if of_peer.is_empty() {
                self.handshakes.remove(&connection.peer);
            }
        }
    }
}

impl Open {
    /// Until it has to make room for another.
    pub async fn cut(&self) {
        self.connection.cut.notified().await;
    }

    /// The handshake is over.
    pub fn shaken(&self) {
        self.all.register.lock().shaken(&self.connection);
    }

    /// Its client may do what it asked for.
    pub fn known(&self) {
        let mut register = self.all.register.lock();
        if let Some(connection) = register.unknown.remove(&self.connection.id) {
            register.known.insert(connection.id, connection);
        }
    }

    pub fn busy(&self) -> Busy {
        self.connection.busy.fetch_add(1, Ordering::AcqRel);
        Busy { all: self.all.clone(), connection: self.connection.clone() }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.all.register.lock().remove(self.connection.id);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.connection.idle_since.lock() = self.all.env.monotonic();
        self.connection.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    fn open(all: &Arc<Connections>, peer: &str) -> Open {
        all.open(peer.parse().unwrap()).expect("room")
    }

    fn is_cut(open: &Open) -> bool {
        open.cut().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_unknown_go_first_then_the_known_that_are_idle_longest_and_nobody_who_is_busy() {
        let env = Env::simulated(1);
        let all = Connections::new(&env, 3);
        let (known, later, unknown) =
            (open(&all, "10.0.0.1"), open(&all, "10.0.0.1"), open(&all, "10.0.0.2"));
        for one in [&known, &later] {
            one.known();
            env.sleep(Duration::from_secs(1)).await;
            drop(one.busy());
        }
        let new = open(&all, "10.0.0.3");
        assert!(is_cut(&unknown) && !is_cut(&known) && !is_cut(&later));
        let newer = open(&all, "10.0.0.3");
        assert!(is_cut(&new) && !is_cut(&known));
        newer.known();
        let session = known.busy();
        let newest = open(&all, "10.0.0.3");
        assert!(is_cut(&later) && !is_cut(&known), "it is in use");
        newest.known();
        let sessions = [newer.busy(), newest.busy()];
        assert!(all.open("10.0.0.4".parse().unwrap()).is_none(), "all are in use");
        drop((session, sessions));
        open(&all, "10.0.0.4");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_so_many_handshakes_and_takes_nobody_elses() {
        let all = Connections::new(&Env::simulated(1), 10 * HANDSHAKES);
        let honest = open(&all, "10.0.0.2");
        let flood: Vec<Open> = (0..2 * HANDSHAKES).map(|_| open(&all, "::ffff:10.0.0.1")).collect();
        assert!(!is_cut(&honest));
        let cut: Vec<bool> = flood.iter().map(is_cut).collect();
        let (first, last) = cut.split_at(HANDSHAKES);
        assert!(first.iter().all(|cut| *cut) && !last.iter().any(|cut| *cut), "the oldest went");
        // Those with a handshake behind them are limited by the number of all.
        flood[HANDSHAKES..].iter().for_each(Open::shaken);
        let after = open(&all, "10.0.0.1");
        assert!(!is_cut(&flood[HANDSHAKES]));
        drop((honest, flood, after));
        assert!(all.register.lock().handshakes.is_empty());
    }
}
