//! Control loops beside a whole server, in virtual time.

mod election;
mod informers;
<<<<<<< HEAD
mod triggers;
mod scheduling;
mod over_http;
=======
mod counting;
mod informers;
mod workloads;
>>>>>>> workloads
