//! The machinery of control loops: read the state, change the world, write the status, until there is nothing left to do.
//!
//! ```text
//! server ── Reflector ── Fifo ── Indexer ── handlers ── WorkQueue ── workers ── Reconcile::reconcile(key)
//!            list, watch   order    state      map to keys   each key once       reads the Indexer, writes through a Client
//! ```

pub mod backoff;
pub mod batch;
mod board;
mod cause;
mod controller;
pub mod election;
mod expectations;
pub mod fifo;
pub mod finalizers;
mod indexer;
mod informer;
mod informers;
mod key;
mod metrics;
mod own_writes;
pub mod owners;
pub mod queue;
mod recorder;
mod reflector;
pub mod retry;
mod stop;
#[cfg(test)]
mod testing;
mod trigger;

use object::Value;
use table::Obj;

// What the signatures below are made of: a controller needs `client` and this crate, nothing else.
pub use env::Env;
pub use futures_util::future::BoxFuture;
pub use tokio::task::JoinHandle;

pub use board::Board;
pub use cause::{Cause, Causes};
pub use controller::{Controller, Failure, Next, Reconcile, Turn};
pub use election::Elector;
pub use expectations::Expectations;
pub use indexer::{IndexBy, Indexer};
pub use informer::{Handler, Informer, Notice, QueueKind};
pub use informers::{BY_CONTROLLER, Informers};
pub use key::Key;
pub use metrics::Histogram;
pub use own_writes::OwnWrites;
pub use queue::WorkQueue;
pub use recorder::{ObjectRef, Recorder, Severity};
pub use reflector::{Reflector, Scope};
pub use stop::{Stop, Stopper};
pub use trigger::{Change, Trigger};

/// An object as a tree, to read deep inside or to change; an empty map if it is no JSON (which the server never stores).
pub fn tree(obj: &Obj) -> Value {
    codec::json::parse(obj.body(), None).unwrap_or_else(|_| Value::map())
}

/// A tree from YAML (or JSON), for what a program writes down of its own.
pub fn parse(text: &str) -> Result<Value, Failure> {
    codec::yaml::parse(text.as_bytes())
        .map_err(|error| Failure::Other(format!("{text:?} is no YAML: {error}")))
}
