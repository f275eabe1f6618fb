//! What a `KubeSchedulerConfiguration` says: profiles, the plugins of each and their arguments, backoff.

mod parse;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::node::{HOSTNAME, ZONE};
use crate::node_selector::{Preferred, Terms};
use crate::plugin::{ALL, Plugin, Plugins};
use crate::pod::{Constraint, Inclusion, Unsatisfiable, is_extended};
use object::selector::LabelSelector;

#[derive(Clone, Debug)]
pub struct Config {
    /// At least one; pods choose by name.
    pub profiles: Vec<Profile>,
    /// Of the nodes, how many must fit before the search ends; zero adapts to their number.
    pub percentage_of_nodes_to_score: i64,
    pub initial_backoff: Duration,
    pub max_backoff: Duration,
}

#[derive(Clone, Debug)]
pub struct Profile {
    pub scheduler_name: Arc<str>,
    pub percentage_of_nodes_to_score: Option<i64>,
    pub pre_enqueue: Plugins,
    pub filter: Plugins,
    pub post_filter: Plugins,
    /// By plugin; zero is not scored.
    pub weights: [i64; ALL.len()],
    pub fit: FitArgs,
    /// Resources whose use shall stay in balance.
    pub balanced: Vec<(String, i64)>,
    pub spread: SpreadArgs,
    pub inter_pod: InterPodArgs,
    pub added_affinity: AddedAffinity,
    pub preemption: PreemptionArgs,
    /// How long a pod waits for its volumes to be bound.
    pub bind_timeout: Duration,
    /// How long devices are looked for on one node; zero is without end.
    pub device_filter_timeout: Duration,
    /// How long a pod waits for its devices to become ready.
    pub device_binding_timeout: Duration,
}

#[derive(Clone, Debug)]
pub struct FitArgs {
    pub ignored_resources: Vec<String>,
    pub ignored_groups: Vec<String>,
    pub strategy: Strategy,
    /// With weights.
    pub resources: Vec<(String, i64)>,
}

impl FitArgs {
    /// A resource that a device plugin or an administrator added, and that somebody else looks after.
    pub fn ignores(&self, resource: &str) -> bool {
        let group = resource.split('/').next().unwrap_or("");
        is_extended(resource)
            && (self.ignored_resources.iter().any(|r| r == resource)
                || self.ignored_groups.iter().any(|g| g == group))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    LeastAllocated,
    MostAllocated,
    /// Points of utilization (0 to 100) and score (0 to 100), by utilization.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

#[derive(Clone, Debug)]
pub struct SpreadArgs {
    /// For pods that name none of their own.
    pub defaults: Vec<Constraint>,
    /// The defaults are the built-in ones, which do not ask that a node has all labels.
    pub system: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct InterPodArgs {
    pub hard_pod_affinity_weight: i64,
    pub ignore_preferred_terms_of_existing_pods: bool,
}

/// What the configuration asks of nodes besides what pods do.
#[derive(Clone, Debug, Default)]
pub struct AddedAffinity {
    pub required: Option<Terms>,
    pub preferred: Preferred,
}

#[derive(Clone, Copy, Debug)]
pub struct PreemptionArgs {
    pub min_candidate_nodes_percentage: i64,
    pub min_candidate_nodes_absolute: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("{path}: {problem}")]
    Invalid { path: String, problem: String },
}

impl Default for Config {
    fn default() -> Self {
        Config {
            profiles: vec![Profile::default()],
            percentage_of_nodes_to_score: 0,
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
        }
    }
}

impl Default for Profile {
    fn default() -> Self {
        let cpu_and_memory = || vec![("cpu".to_owned(), 1), ("memory".to_owned(), 1)];
        Profile {
            scheduler_name: "default-scheduler".into(),
            percentage_of_nodes_to_score: None,
            pre_enqueue: Plugins::all(),
            filter: Plugins::all(),
            post_filter: Plugins::all(),
            weights: ALL.map(Plugin::default_weight),
            fit: FitArgs {
                ignored_resources: Vec::new(),
                ignored_groups: Vec::new(),
                strategy: Strategy::LeastAllocated,
                resources: cpu_and_memory(),
            },
            balanced: cpu_and_memory(),
            spread: SpreadArgs { defaults: system_constraints(), system: true },
            inter_pod: InterPodArgs {
                hard_pod_affinity_weight: 1,
                ignore_preferred_terms_of_existing_pods: false,
            },
            added_affinity: AddedAffinity::default(),
            preemption: PreemptionArgs {
                min_candidate_nodes_percentage: 10,
                min_candidate_nodes_absolute: 100,
            },
            bind_timeout: Duration::from_secs(600),
            device_filter_timeout: Duration::from_secs(10),
            device_binding_timeout: Duration::from_secs(600),
        }
    }
}

impl Config {
    pub fn profile(&self, scheduler_name: &str) -> Option<usize> {
        self.profiles.iter().position(|p| p.scheduler_name.as_ref() == scheduler_name)
    }
}

impl Profile {
    pub fn weight(&self, plugin: Plugin) -> i64 {
        self.weights[plugin as usize]
    }
}

/// Spread over nodes, and less strictly over zones, wherever it costs nothing else.
fn system_constraints() -> Vec<Constraint> {
    let one = |key: &str, max_skew: i64| Constraint {
        max_skew,
        topology_key: key.into(),
        when: Unsatisfiable::ScheduleAnyway,
        selector: Arc::new(LabelSelector::nothing()),
        min_domains: 1,
        affinity_policy: Inclusion::Honor,
        taints_policy: Inclusion::Ignore,
    };
    vec![one(HOSTNAME, 3), one(ZONE, 5)]
}

#[cfg(test)]
mod tests;
