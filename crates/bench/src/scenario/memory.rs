//! memory: what the server keeps resident for 100,000 ConfigMaps of 1 KB, against the bytes it stores.

use std::time::Duration;

use super::objects::config_map;
use super::{Scenario, Settings};
use crate::drive::{Load, Phase};
use crate::error::BenchError;
use crate::meters::Progress;
use crate::request::{Body, NUMBER, Template};
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 100_000;
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// For what a server puts away after a burst of writes before its memory counts.
const SETTLE: Duration = Duration::from_secs(5);

pub struct Memory;

impl Scenario for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn about(&self) -> &'static str {
        "resident memory with 100,000 ConfigMaps of 1 KB; needs --pids, runs only when named"
    }

    fn runs_by_default(&self) -> bool {
        false
    }

    fn measure(
        &self,
        site: &mut Site<'_>,
        settings: &Settings,
        progress: &mut Progress,
    ) -> Result<Tally, BenchError> {
        let before = site.rss()?;
        let text = config_map(&format!("m-{NUMBER}"));
        let collection = site.path("configmaps");
        let template = Template::new(site.endpoint(), "POST", &collection, Some(Body::json(&text)), 1);
        let load = Load {
            template: &template,
            connections: settings.connections,
            first_number: site.next_number,
            max_requests: OBJECTS,
            pace: None,
            window: None,
        };
        let phase = Phase { name: "creating objects", warmup: Duration::ZERO, measured: TIME_LIMIT };
        let mut outcome = site.drive(&load, None, phase, progress)?;
        let made = site.next_number..outcome.next_number;
        site.next_number = made.end;
        progress.show("waiting for the memory to settle");
        std::thread::sleep(SETTLE);
        let object = site.get(&format!("{collection}/m-{:010}", made.start))?;
        if let (Some(before), Some(after)) = (before, site.rss()?) {
            let stored = outcome.tally.requests * object.len() as u64;
            outcome.tally.notes.push(format!(
                "{} objects of {} bytes, {} MB in all; resident {} MB before, {} MB {} s after: {:.2} times the objects",
                outcome.tally.requests,
                object.len(),
                stored / 1_000_000,
                before / 1_000_000,
                after / 1_000_000,
                SETTLE.as_secs(),
                after as f64 / stored.max(1) as f64,
            ));
        }
        site.delete_numbers("configmaps", "m-", made, progress)?;
        Ok(outcome.tally)
    }
}
