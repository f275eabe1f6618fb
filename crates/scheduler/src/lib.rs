//! The scheduler: which node each waiting pod goes to.
//!
//! ```text
//! informers ──> run (one task) ──> Engine: queue ── evaluate ── cluster ──> pods/binding, pods/status
//! ```
//! | where | what |
//! |---|---|
//! | [`cluster`] | the nodes in columns, and counters of pods by selector and topology, kept up to date |
//! | [`evaluate`] | filters, scores, the choice; preemption in `evaluate::preempt` |
//! | [`storage`] | claims, volumes and classes, as they are and as they are assumed to become |
//! | [`dynamic_resources`] | resource claims, slices and device classes, and the devices in flight |
//! | [`queue`] | who waits, who is next, which events wake whom |
//! | [`Engine`] | all of that together, pure: objects in, [`ScheduleResult`]s out, time and chance handed in |
//! | [`start`] | the task around it: informers in, API calls out |
//!
//! A pod is *assumed* on its node as soon as that is decided, and bound afterwards. Several schedulers may run: who binds
//! second is refused by the server, forgets what it assumed, and takes the pod as it finds it.

mod api_calls;
pub mod cluster;
mod config;
mod debugger;
pub mod dynamic_resources;
mod engine;
pub mod evaluate;
mod features;
mod inbox;
mod metrics;
mod node;
mod node_selector;
mod nominated;
pub mod plugin;
mod pod;
pub mod queue;
mod read;
mod run;
mod selectors;
pub mod storage;
mod taint;
mod verdict;

#[cfg(test)]
mod testing;

pub use config::{Config, ConfigError, Profile};
pub use debugger::Debugger;
pub use engine::{Engine, Failure, ScheduleResult};
pub use metrics::Metrics;
pub use node::Node;
pub use nominated::Nominated;
pub use pod::{Class, OwnerKind, Pod, Templates};
pub use run::{Scheduler, USER, start};
pub use selectors::Selectors;
pub use verdict::{Diagnosis, Verdict};
