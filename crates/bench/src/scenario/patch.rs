//! patch: a strategic merge patch of a pod's label, or of its status, on 1,000 pods in turn so that no two patches meet.

use super::objects::{LABEL, STATUS, create_pods};
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const PODS: u64 = 1_000;

pub struct Patch {
    /// As a node does it.
    pub status: bool,
}

impl Scenario for Patch {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        create_pods(site, PODS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let (subresource, body) =
            if self.status { ("/status?fieldManager=kubelet", STATUS) } else { ("", LABEL) };
        let path = format!("{}/pod-{SLOT}{subresource}", site.path("pods"));
        let template = site.template("PATCH", &path, Some(body), PODS);
        // Numbers go on from round to round: a label that is already there would be no change.
        let load = site.load(&template, settings.connections);
        Ok(site.drive(&load, settings.phase())?.tally)
    }
}
