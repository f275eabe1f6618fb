//! The API over whole requests: one cluster a test, no socket unless the test is about sockets.

mod clients;
mod golden_errors;
mod golden_watches;
mod text;
mod kinds;
mod sweep;
