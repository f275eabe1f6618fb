//! The API over whole requests: one cluster a test, no socket unless the test is about sockets.

// Everything here is a test: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod certificates;
mod clients;
mod concurrency;
mod determinism;
mod golden_errors;
mod golden_watches;
mod kinds;
mod lists;
mod nodes;
mod quotas;
mod rbac;
mod surface;
mod sweep;
mod text;
mod watches;
