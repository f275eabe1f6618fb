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
        let collection = site.path("configmaps");
        objects(site, &collection, &config_map)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let collection = site.path("configmaps");
        gets(site, settings, &collection)
    }
}

/// What `gets` reads.
pub fn objects(
    site: &mut Site<'_>,
    collection: &str,
    object: &dyn Fn(&str) -> String,
) -> Result<(), BenchError> {
    site.create_all_at(collection, &object(&format!("g-{SLOT}")), OBJECTS)
}

pub fn gets(site: &mut Site<'_>, settings: &Settings, collection: &str) -> Result<Tally, BenchError> {
    let template = site.template("GET", &format!("{collection}/g-{SLOT}"), None, OBJECTS);
    let load = site.load(&template, settings.connections);
    Ok(site.drive(&load, settings.phase())?.tally)
}
