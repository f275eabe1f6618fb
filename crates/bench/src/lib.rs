//! `setpoint bench`: a load generator for any Kubernetes API server.
//!
//! A load generator that shares two cores with the server must be lean, or it measures itself. So requests are byte templates with
//! digits patched in, responses are framed but not parsed, TLS records go straight between the socket and rustls, and one
//! thread drives every connection from one epoll loop.
//!
//! ```text
//!   kubeconfig ── Endpoint ── Site (own namespace) ── Scenario::prepare
//!                                                       │
//!               alternating rounds A and B: Scenario::measure ── drive (event loop) ── Tally
//!                                                       │            ├ Wire      TLS bytes
//!                                                       │            ├ Template  request bytes
//!                                                       │            └ Response  framing
//!                                                     table, JSON file
//! ```
//!
//! A new scenario is one file in `scenario/` and one row in `scenario::ALL`.
//!
//! This crate does not use `Env` (ARCHITECTURE.md, invariant 7): it measures a server through sockets from another
//! process, so it needs real clocks and blocking waits. Hence the `allow` below.
#![allow(clippy::disallowed_methods)]

#[macro_use]
pub mod output;

mod cli;
mod client;
mod drive;
mod endpoint;
mod error;
mod histogram;
mod meters;
mod report;
mod request;
mod response;
mod run;
mod scenario;
mod site;
mod stamps;
mod tally;
mod webhook_server;
mod wire;

pub use cli::command;
pub use client::{Answer, Client};
pub use endpoint::Endpoint;
pub use error::BenchError;
pub use run::run;
pub use webhook_server::WebhookServer;
