//! Control loops beside a whole server, in virtual time.

mod endpoints;
mod informers;
mod node_lifecycle;
mod nodes_and_pods;
