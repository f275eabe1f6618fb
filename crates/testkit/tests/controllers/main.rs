//! Controllers beside a whole server, in virtual time.

mod accounts;
mod applies;
mod batch_steps;
mod budgets;
mod clock_jumps;
mod component_statuses;
mod converged;
mod custom_resources;
mod debug_controllers;
mod definitions;
mod deployments;
mod election;
mod endpoints;
mod faults;
mod flow_control;
mod garbage_collector;
mod garbage_collector_histories;
mod informers;
mod interrupted;
mod jobs;
// Samples of every kind; not all of it is used here.
mod concurrent_schedulers;
mod deployment_lifecycle;
#[allow(dead_code)]
#[path = "../api/kinds.rs"]
mod kinds;
mod leader_fence;
mod library;
mod mirroring;
mod namespaces;
mod node_lifecycle;
mod node_pods;
mod node_ttl;
mod nodes;
mod nodes_and_pods;
mod over_http;
mod podgc;
mod profiles;
mod resource_claims;
mod rollouts;
mod scheduler_faults;
mod scheduler_reads;
mod schedulers;
mod scheduling;
mod scheduling_volumes;
mod seeds;
mod selectors;
mod served;
mod stale_reads;
mod status_writes;
mod triggers;
mod workloads;
