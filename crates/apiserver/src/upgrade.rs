//! HTTP/1.1 upgrades: from the request that asks for one to the session that follows the 101.
//!
//! ```text
//!  Connection: Upgrade ──> chain ──> verbs: 101, and a session in the PendingUpgrade
//!  hyper releases the connection ──> the session, in the connection's own task
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use http::request::Parts;
use parking_lot::Mutex;
use streaming::Io;

use crate::accounting::Exchange;
use crate::shutdown::Shutdown;

/// What is spoken after the 101. The exchange is charged with what it holds; it ends with the shutdown.
pub type Session = Box<dyn FnOnce(Io, Arc<Exchange>, Shutdown) -> BoxFuture<'static, ()> + Send>;

/// Travels with a request that may be upgraded, and holds the session once it is.
#[derive(Default)]
pub struct PendingUpgrade {
    /// Guards the session between the verb that opens it and the connection that runs it.
    session: Mutex<Option<Session>>,
    /// A token among the subprotocols authenticated the user, and no longer counts as one.
    token_used: AtomicBool,
}

impl PendingUpgrade {
    /// None if the connection cannot be upgraded.
    pub fn of(parts: &Parts) -> Option<&Arc<PendingUpgrade>> {
        parts.extensions.get()
    }

    /// The session to run once the 101 is sent.
    pub fn begin(&self, session: Session) {
        *self.session.lock() = Some(session);
    }

    pub fn take(&self) -> Option<Session> {
        self.session.lock().take()
    }

    pub fn token_used(&self) {
        self.token_used.store(true, Ordering::Release);
    }

    pub fn is_token_used(&self) -> bool {
        self.token_used.load(Ordering::Acquire)
    }
}
