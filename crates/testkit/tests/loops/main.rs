//! Control loops beside a whole server, in virtual time.

mod election;
mod informers;
mod library;
mod triggers;
