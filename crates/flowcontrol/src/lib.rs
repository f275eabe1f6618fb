//! API Priority and Fairness: which request is executed now, which is queued, which is rejected.
//!
//! ```text
//! request ── FlowSchema ── PriorityLevelConfiguration ── flow ── a hand of queues ── seats
//!            who and what   how many seats, and            by user or    the shortest    held while it
//!            it asks for    what happens when they         namespace     of the hand     is executed
//!                           are taken
//! ```
//! A *seat* is the unit of concurrency: most requests take one, a large list or a write with many watchers takes
//! more ([`estimate`]). The server's seats are divided among the priority levels by their shares; idle levels lend
//! ([`level`]). Within a level fair queuing isolates the flows ([`queue_set`]): a flow that floods its queues only delays
//! itself. Behaviour and numbers are kube-apiserver's v1.36; differences are marked.
//!
//! Everything here is synchronous and takes the time as an argument; only [`Ticket`] waits.

mod allocate;
mod config;
mod control;
mod dealer;
mod demand;
mod dump;
pub mod estimate;
mod families;
mod level;
mod matching;
mod queue_set;
mod retry_after;
mod spec;
mod watches;

pub use control::{Classified, FlowControl, Limits, Rejected, Seat, Ticket};
pub use dump::{LevelDump, QueueDump, RequestDump};
pub use estimate::WorkEstimate;
pub use matching::{RequestDigest, ResourceDigest};
pub use queue_set::{About, Flow, Totals};
pub use spec::{Distinguisher, FlowSchema, PriorityLevel, Response};
pub use watches::{WatchCounts, WatchGuard};

/// Nanoseconds of the monotonic clock since flow control was created.
pub type Nanos = u64;

pub(crate) const SECOND: Nanos = 1_000_000_000;
