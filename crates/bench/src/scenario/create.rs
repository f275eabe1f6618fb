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
        let (plural, object): (_, &dyn Fn(&str) -> String) = match self.what {
            What::ConfigMaps => ("configmaps", &config_map),
            What::Pods => {
                site.create_one("pods", &pod("probe-pod0", "", true))?;
                site.delete(&format!("{}/probe-pod0?gracePeriodSeconds=0", site.path("pods")))?;
                ("pods", &|name| pod(name, "", true))
            }
        };
        let connections = if self.sequential { 1 } else { settings.connections };
        let settings = Settings { connections, ..settings.clone() };
        let collection = site.path(plural);
        creates(site, &settings, &collection, object)
    }
}

/// Objects made in a collection of our namespace, as many as the phase allows.
pub fn creates(
    site: &mut Site<'_>,
    settings: &Settings,
    collection: &str,
    object: &dyn Fn(&str) -> String,
) -> Result<Tally, BenchError> {
    let text = object(&format!("c-{NUMBER}"));
    let template = site.template("POST", collection, Some(Body::json(&text)), 1);
    let load = Load { max_requests: MAX_CREATES, ..site.load(&template, settings.connections) };
    let outcome = site.drive(&load, settings.phase())?;
    site.delete_numbers_at(collection, "c-", outcome.numbers)?;
    Ok(outcome.tally)
}
