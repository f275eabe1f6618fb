//! The API over HTTP: the chain every request takes, discovery, health, and the sockets.
//!
//! Read `chain.rs` first: it is the path of a request, top down. `server.rs` is what stands before it (TLS,
//! connections), `verbs.rs` what comes after it (the registry's verbs as HTTP answers).

mod aggregation;
mod authorize;
mod body;
mod bootstrap;
mod certificates;
mod chain;
mod discovery;
mod follow;
mod health;
mod info;
mod list_body;
mod metrics;
mod negotiate;
mod open_api;
mod quotas;
mod respond;
mod reviews;
mod server;
mod shutdown;
mod upkeep;
mod verbs;
mod views;
mod watch_body;

pub use admission::Choice as AdmissionChoice;
pub use body::{Body, RequestBody};
pub use chain::{Api, ApiConfig, Caller};
pub use server::{Server, ServerError, Tls};

/// What `/version` and `--version` say beside our own version: the API spoken here.
pub const KUBERNETES_VERSION: &str = "v1.36.4";
