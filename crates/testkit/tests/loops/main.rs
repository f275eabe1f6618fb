//! Control loops beside a whole server, in virtual time.

mod garbage;
mod informers;
mod interrupted;
#[allow(dead_code)]
#[path = "../api/kinds.rs"]
mod kinds;
mod namespaces;
