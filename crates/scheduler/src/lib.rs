//! The scheduler: which node each waiting pod goes to.
//!
//! Decisions are pure and synchronous ([`evaluate`] over [`cluster`]); what waits, and until when, is [`queue`]'s.
pub mod cluster;
mod config;
mod engine;
pub mod evaluate;
mod node;
mod node_selector;
mod nominated;
pub mod plugin;
mod pod;
pub mod queue;
mod read;
mod selectors;
mod taint;
mod verdict;

pub use config::{Config, ConfigError, Profile};
pub use engine::{Engine, Failure, Step};
pub use node::Node;
pub use nominated::Nominated;
pub use pod::{Class, Pod, Templates};
pub use selectors::Selectors;
pub use verdict::{Diagnosis, Verdict};

#[cfg(test)]
mod testing;
