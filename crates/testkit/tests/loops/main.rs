//! Control loops beside a whole server, in virtual time.

mod election;
mod informers;
<<<<<<< HEAD
<<<<<<< HEAD
mod triggers;
mod scheduling;
mod over_http;
mod counting;
mod workloads;
mod batch_steps;
mod budgets;
mod jobs;
mod podgc;
mod garbage;
mod interrupted;
#[allow(dead_code)]
#[path = "../api/kinds.rs"]
mod kinds;
mod namespaces;
=======
mod endpoints;
mod informers;
mod node_lifecycle;
mod nodes_and_pods;
>>>>>>> network
=======
mod nodes;
>>>>>>> node
