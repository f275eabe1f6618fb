//! patch: a strategic merge patch of a pod's label, on 1,000 pods in turn so that no two patches meet.

use super::objects::create_pods;
use super::{Scenario, Settings};
use crate::drive::Load;
use crate::error::BenchError;
use crate::meters::Progress;
use crate::request::{Body, NUMBER, SLOT, Template};
use crate::site::Site;
use crate::tally::Tally;

const PODS: u64 = 1_000;

pub struct Patch;

impl Scenario for Patch {
    fn name(&self) -> &'static str {
        "patch"
    }

    fn about(&self) -> &'static str {
        "strategic merge of a label of one of 1,000 pods"
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
        let text = format!(r#"{{"metadata":{{"labels":{{"bench":"{NUMBER}"}}}}}}"#);
        let body = Body { content_type: "application/strategic-merge-patch+json", text: &text };
        let path = format!("{}/pod-{SLOT}", site.path("pods"));
        let template = Template::new(site.endpoint(), "PATCH", &path, Some(body), PODS);
        let load = Load {
            template: &template,
            connections: settings.connections,
            // Numbers go on from round to round: a label that is already there would be no change.
            first_number: site.next_number,
            max_requests: u64::MAX,
            pace: None,
            window: None,
        };
        let outcome = site.drive(&load, None, settings.phase(), progress)?;
        site.next_number = outcome.next_number;
        Ok(outcome.tally)
    }
}
