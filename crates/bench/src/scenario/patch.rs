//! patch: a strategic merge patch of a pod's label, on 1,000 pods in turn so that no two patches meet.

use super::objects::{LABEL, create_pods};
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const PODS: u64 = 1_000;

pub struct Patch;

impl Scenario for Patch {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        create_pods(site, PODS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let path = format!("{}/pod-{SLOT}", site.path("pods"));
        let template = site.template("PATCH", &path, Some(LABEL), PODS);
        // Numbers go on from round to round: a label that is already there would be no change.
        let load = site.load(&template, settings.connections);
        Ok(site.drive(&load, settings.phase())?.tally)
    }
}
