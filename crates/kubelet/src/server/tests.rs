//! The whole server over TLS, with the clients kubectl and the API server use, and a runtime that runs processes of this machine.

mod access;
pub mod fixture;
mod flood;
mod logs;
mod runtime;
mod streams;
mod upstream;
mod usage;
