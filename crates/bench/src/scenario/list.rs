//! list: 5,000 pods of 2.5 KB, 12.7 MB an answer, over two connections.

use super::objects::create_pods;
use super::{Scenario, Settings};
use crate::drive::Load;
use crate::error::BenchError;
use crate::meters::Progress;
use crate::request::Template;
use crate::site::Site;
use crate::tally::Tally;

const PODS: u64 = 5_000;
const CONNECTIONS: usize = 2;

pub struct List;

impl Scenario for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn about(&self) -> &'static str {
        "5,000 pods of 2.5 KB (12.7 MB), 2 connections"
    }

    fn prepare(&self, site: &mut Site<'_>, progress: &mut Progress) -> Result<(), BenchError> {
        create_pods(site, PODS, progress)
    }

    fn measure(
        &self,
        site: &mut Site<'_>,
        settings: &Settings,
        progress: &mut Progress,
    ) -> Result<Tally, BenchError> {
        let template = Template::new(site.endpoint(), "GET", &site.path("pods"), None, 1);
        let load = Load {
            template: &template,
            connections: CONNECTIONS.min(settings.connections),
            first_number: 0,
            max_requests: u64::MAX,
            pace: None,
            window: None,
        };
        Ok(site.drive(&load, None, settings.phase(), progress)?.tally)
    }
}
