//! create, create-sequential, create-pods: new objects, deleted again after each round.

use super::objects::{config_map, pod};
use super::{Scenario, Settings};
use crate::drive::Load;
use crate::error::BenchError;
use crate::request::{Body, NUMBER};
use crate::site::Site;
use crate::tally::Tally;

/// Bounds the memory that a round takes on the server: about 1 GB.
const MAX_CREATES: u64 = 1_000_000;

pub struct Create {
    pub sequential: bool,
    pub what: What,
}

/// What is created.
#[derive(Clone, Copy)]
pub enum What {
    ConfigMaps,
    /// With defaults, validation and every admission plugin on their way, the token's volume included.
    Pods,
}

impl Scenario for Create {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let name = format!("c-{NUMBER}");
        let (plural, text) = match self.what {
            What::ConfigMaps => ("configmaps", config_map(&name)),
            What::Pods => {
                site.create_one("pods", &pod("probe-pod0", "", true))?;
                site.delete(&format!("{}/probe-pod0?gracePeriodSeconds=0", site.path("pods")))?;
                ("pods", pod(&name, "", true))
            }
        };
        let path = site.path(plural);
        let template = site.template("POST", &path, Some(Body::json(&text)), 1);
        let connections = if self.sequential { 1 } else { settings.connections };
        let load = Load { max_requests: MAX_CREATES, ..site.load(&template, connections) };
        let outcome = site.drive(&load, settings.phase())?;
        site.delete_numbers(plural, "c-", outcome.numbers)?;
        Ok(outcome.tally)
    }
}
