//! Control loops beside a whole server, in virtual time.

mod batch_steps;
mod budgets;
mod informers;
mod jobs;
mod podgc;
