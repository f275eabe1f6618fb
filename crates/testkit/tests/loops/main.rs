//! Control loops beside a whole server, in virtual time.

mod informers;
mod nodes;
