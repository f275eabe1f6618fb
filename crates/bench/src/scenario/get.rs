//! get: one of 1,000 ConfigMaps of 1 KB after the other.

use super::objects::config_map;
use super::{Scenario, Settings};
use crate::drive::Load;
use crate::error::BenchError;
use crate::meters::Progress;
use crate::request::{SLOT, Template};
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 1_000;

pub struct Get;

impl Scenario for Get {
    fn name(&self) -> &'static str {
        "get"
    }

    fn about(&self) -> &'static str {
        "one of 1,000 ConfigMaps of 1 KB"
    }

    fn prepare(&self, site: &mut Site<'_>, progress: &mut Progress) -> Result<(), BenchError> {
        site.create_all("configmaps", &config_map(&format!("g-{SLOT}")), OBJECTS, progress)
    }

    fn measure(
        &self,
        site: &mut Site<'_>,
        settings: &Settings,
        progress: &mut Progress,
    ) -> Result<Tally, BenchError> {
        let path = format!("{}/g-{SLOT}", site.path("configmaps"));
        let template = Template::new(site.endpoint(), "GET", &path, None, OBJECTS);
        let load = Load {
            template: &template,
            connections: settings.connections,
            first_number: 0,
            max_requests: u64::MAX,
            pace: None,
            window: None,
        };
        Ok(site.drive(&load, None, settings.phase(), progress)?.tally)
    }
}
