//! The API over whole requests: one cluster a test, no socket unless the test is about sockets.

mod bad_input;
mod clients;
mod concurrency;
mod determinism;
mod golden_errors;
mod golden_watches;
mod kinds;
mod lists;
mod rbac;
mod sweep;
mod text;
mod watches;
