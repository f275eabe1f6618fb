//! Control loops beside a whole server, in virtual time.

mod election;
mod informers;
<<<<<<< HEAD
mod triggers;
mod scheduling;
=======
mod over_http;
>>>>>>> clienthttp
