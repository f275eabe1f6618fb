//! list: 5,000 pods of 2.5 KB, 12.7 MB an answer, over two connections.

use super::objects::create_pods;
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::site::Site;
use crate::tally::Tally;

const PODS: u64 = 5_000;
const CONNECTIONS: usize = 2;

pub struct List;

impl Scenario for List {
    fn prepare(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        create_pods(site, PODS)
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let template = site.template("GET", &site.path("pods"), None, 1);
        let load = site.load(&template, CONNECTIONS.min(settings.connections));
        Ok(site.drive(&load, settings.phase())?.tally)
    }
}
