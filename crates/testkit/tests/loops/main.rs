//! Control loops beside a whole server, in virtual time.

mod counting;
mod informers;
mod rollouts;
mod workloads;
