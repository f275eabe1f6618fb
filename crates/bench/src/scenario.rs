//! The list of scenarios, and what one is. A new one is a file beside these and a row in `ALL`.

mod create;
mod get;
mod hold;
mod list;
mod memory;
mod objects;
mod patch;
mod place;
mod watch;

use std::time::Duration;

use crate::drive::Phase;
use crate::error::BenchError;
use crate::meters::Progress;
use crate::site::Site;
use crate::tally::Tally;

pub const ALL: &[&dyn Scenario] = &[
    &create::Create {
        name: "create",
        about: "1 KB ConfigMaps",
        sequential: false,
        what: create::What::ConfigMaps,
    },
    &create::Create {
        name: "create-sequential",
        about: "the same over one connection",
        sequential: true,
        what: create::What::ConfigMaps,
    },
    &create::Create {
        name: "create-pods",
        about: "pods, through every admission plugin",
        sequential: false,
        what: create::What::Pods,
    },
    &get::Get,
    &list::List,
    &watch::FanOut {
        name: "watch",
        about: "100 watchers of one namespace, creates as fast as they follow; rate and lag of events",
        pace: None,
    },
    &watch::FanOut { name: "watch-paced", about: "the same at 4,000 creates/s", pace: Some(4_000) },
    &patch::Patch,
    &memory::Memory,
    &place::Place {
        name: "schedule",
        about: "5,000 pods created and bound on 1,000 nodes; needs a scheduler, runs only when named",
        what: place::What::Pods,
    },
    &place::Place {
        name: "deploy",
        about: "ten Deployments of 500 replicas until every pod is bound; needs controllers, runs only when named",
        what: place::What::Deployments,
    },
    &hold::Hold,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Requests,
    Events,
}

#[derive(Debug, Clone)]
pub struct Settings {
    pub connections: usize,
    pub warmup: Duration,
    pub measured: Duration,
    /// How many are held.
    pub pods: u64,
}

impl Settings {
    pub fn phase(&self) -> Phase {
        Phase { name: "measuring", warmup: self.warmup, measured: self.measured }
    }
}

pub trait Scenario: Sync {
    fn name(&self) -> &'static str;

    /// Half a line for the help.
    fn about(&self) -> &'static str;

    /// Whether it runs when none is named; one that takes long does not.
    fn runs_by_default(&self) -> bool {
        true
    }

    /// What the rate, the times and the CPU are counted by.
    fn unit(&self) -> Unit {
        Unit::Requests
    }

    /// Once for each server, before the rounds.
    fn prepare(&self, _site: &mut Site<'_>, _progress: &mut Progress) -> Result<(), BenchError> {
        Ok(())
    }

    /// One round. It leaves the site as it found it.
    fn measure(
        &self,
        site: &mut Site<'_>,
        settings: &Settings,
        progress: &mut Progress,
    ) -> Result<Tally, BenchError>;
}

pub fn find(name: &str) -> Option<&'static dyn Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, scenario) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name() != scenario.name()));
            assert!(find(scenario.name()).is_some());
        }
        assert!(find("nothing").is_none());
    }
}
