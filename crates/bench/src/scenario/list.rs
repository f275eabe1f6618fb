//! list: 5,000 pods of 2.5 KB, 12.7 MB an answer, over two connections; list-configmaps: the same with 5,000 of 1 KB.

use super::objects::{config_map, create_pods};
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 5_000;
const CONNECTIONS: usize = 2;

pub struct List {
    pub what: What,
}

#[derive(Clone, Copy)]
pub enum What {
    Pods,
    ConfigMaps,
}

impl What {
    fn collection(self, site: &Site<'_>) -> String {
        site.path(match self {
            What::Pods => "pods",
            What::ConfigMaps => "configmaps",
        })
    }
}

impl Scenario for List {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        match self.what {
            What::Pods => create_pods(site, OBJECTS),
            What::ConfigMaps => {
                let collection = self.what.collection(site);
                objects(site, &collection, &config_map)
            }
        }
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let collection = self.what.collection(site);
        lists(site, settings, &collection)
    }
}

/// What `lists` reads.
pub fn objects(
    site: &mut Site<'_>,
    collection: &str,
    object: &dyn Fn(&str) -> String,
) -> Result<(), BenchError> {
    site.create_all_at(collection, &object(&format!("l-{SLOT}")), OBJECTS)
}

pub fn lists(site: &mut Site<'_>, settings: &Settings, collection: &str) -> Result<Tally, BenchError> {
    let template = site.template("GET", collection, None, 1);
    let load = site.load(&template, CONNECTIONS.min(settings.connections));
    Ok(site.drive(&load, settings.phase())?.tally)
}
