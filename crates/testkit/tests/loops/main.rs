//! Control loops beside a whole server, in virtual time.

mod accounts;
mod batch_steps;
mod board;
mod budgets;
mod clock_jumps;
mod component_statuses;
mod converged;
mod definitions;
mod deployments;
mod election;
mod endpoints;
mod faults;
mod flow_control;
mod garbage;
mod garbage_histories;
mod informers;
mod interrupted;
mod jobs;
// Samples of every kind; not all of it is used here.
#[allow(dead_code)]
#[path = "../api/kinds.rs"]
mod kinds;
mod library;
mod mirroring;
mod namespaces;
mod node_lifecycle;
mod node_pods;
mod node_ttl;
mod nodes;
mod nodes_and_pods;
mod old_answers;
mod over_http;
mod podgc;
mod profiles;
mod rivals;
mod rollouts;
mod scheduler_faults;
mod scheduler_reads;
mod schedulers;
mod scheduling;
mod seeds;
mod selectors;
mod served;
mod status_writes;
mod story;
mod terms;
mod triggers;
mod workloads;
