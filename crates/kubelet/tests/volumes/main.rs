//! Objects and volumes of pods, with a real API and real directories.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod claims;
mod files;
mod node;
mod objects;
mod removal;
