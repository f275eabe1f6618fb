//! Control loops beside a whole server, in virtual time.

<<<<<<< HEAD
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
=======
mod batch_steps;
mod budgets;
mod informers;
mod jobs;
mod podgc;
>>>>>>> batch
