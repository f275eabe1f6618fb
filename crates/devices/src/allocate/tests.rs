//! Allocation on one node: the rules one by one, what always holds, and what kube-scheduler answers.

mod answers;
mod cluster;
mod damaged;
mod invariants;
mod rules;
