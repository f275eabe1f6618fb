//! `setpoint diff`: the same requests to two API servers, and what they answer differently.
//!
//! ```text
//!  catalogue, samples, cases by hand ── generate ──> Scenario { Step, Step, … }
//!                                                        │
//!                    Player (one a server, no I/O): next request <─┴─> answer ── normalise ──> Outcome
//!                                                                                               │
//!                   setpoint diff: ours ── compare ── theirs ── explained.tsv ── report         │
//!                   the testkit:   ours ── compare ── golden/answers.jsonl ── known.tsv <───────┘   (each explained too)
//! ```
//!
//! What kube-apiserver answered is recorded with `--record` and kept in `golden/`, so that a test can hold Setpoint against it
//! in one process, without kube-apiserver. Everything is made the same way every time: no clock, no chance.
//!
//! Like `bench`, this crate looks at servers through sockets from another process, outside every world (ARCHITECTURE.md,
//! invariant 7): real clocks and threads are its business. Hence the `allow` below.
#![allow(clippy::disallowed_methods)]

mod case;
mod cli;
mod client;
mod compare;
mod error;
mod explained;
mod generate;
mod golden;
mod kinds;
mod normalise;
mod play;
mod report;
mod run;

#[cfg(test)]
mod tests;

pub use case::{Scenario, Step};
pub use cli::command;
pub use compare::{Difference, compare};
pub use error::DiffError;
pub use explained::{Against, Explained};
pub use generate::all as scenarios;
pub use golden::{Recorded, is_kept as golden_keeps, read as read_golden};
pub use play::{Answer, Outcome, Player, Request};
pub use run::run;
