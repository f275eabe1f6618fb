//! `setpoint diff`: sends the same requests to two API servers and compares their responses.
//!
//! ```text
//!  catalogue, samples, schemas, cases by hand, published CRDs ── generate ──> Scenario { Step, Step, … }
//!                                                        │
//!                    Player (one a server, no I/O): next request <─┴─> answer ── normalise ──> Outcome
//!                                                                                               │
//!                   setpoint diff: ours ── compare ── theirs ── explained.tsv ── report         │
//!                   the testkit:   ours ── compare ── golden/answers.jsonl ── known.tsv <───────┘   (each explained too)
//! ```
//!
//! kube-apiserver's responses are recorded with `--record` in `golden/`, so that a test can compare Setpoint with them
//! in one process, without kube-apiserver. Generation is deterministic: no clock, no randomness.
//!
//! Like `bench`, this crate talks to servers through sockets from another process and does not use `Env` (ARCHITECTURE.md,
//! invariant 7): it needs real clocks and threads. Hence the `allow` below.
#![allow(clippy::disallowed_methods)]

#[macro_use(println)]
extern crate bench;

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
pub mod pods;
mod report;
mod run;
mod webhook;

#[cfg(test)]
mod tests;

pub use case::{Scenario, Step};
pub use cli::command;
pub use compare::{Difference, compare};
pub use error::DiffError;
pub use explained::{Against, Explained};
pub use generate::admission::all as admission_scenarios;
pub use generate::all as scenarios;
pub use golden::{Recorded, is_kept as golden_keeps, read as read_golden};
pub use play::{Answer, Outcome, Player, Request};
pub use run::run;
pub use webhook::Webhook;
