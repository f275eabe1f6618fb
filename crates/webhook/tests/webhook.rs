//! Webhooks that behave, and those that do not, over TLS on the loopback interface.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "webhook/bounds.rs"]
mod bounds;
#[path = "webhook/connections.rs"]
mod connections;
#[path = "webhook/conversion.rs"]
mod conversion;
#[path = "webhook/failures.rs"]
mod failures;
#[path = "webhook/hook.rs"]
mod hook;
#[path = "webhook/this_server.rs"]
mod this_server;
#[path = "webhook/trust.rs"]
mod trust;
