//! get: one of 1,000 ConfigMaps of 1 KB after the other.

use super::objects::config_map;
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 1_000;

pub struct Get;

impl Scenario for Get {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        site.create_all("configmaps", &config_map(&format!("g-{SLOT}")), OBJECTS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let path = format!("{}/g-{SLOT}", site.path("configmaps"));
        let template = site.template("GET", &path, None, OBJECTS);
        let load = site.load(&template, settings.connections);
        Ok(site.drive(&load, settings.phase())?.tally)
    }
}
