//! The engine against a real etcd: the contract, several servers, losses, compaction, leases.
//!
//! One etcd serves all tests that only need a prefix of their own; those that kill or compact it start another.

// All of this crate is a test, also what clippy does not recognise as one.
// A real etcd has a real clock.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

#[path = "engine/foreign.rs"]
mod foreign;
#[path = "engine/losses.rs"]
mod losses;
#[path = "engine/rewinds.rs"]
mod rewinds;
#[path = "engine/server.rs"]
mod server;
#[path = "engine/sharing.rs"]
mod sharing;
#[path = "engine/tls.rs"]
mod tls;
