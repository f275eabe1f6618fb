//! memory: what the server keeps resident for 100,000 ConfigMaps of 1 KB, against the bytes it stores.

use std::time::Duration;

use super::objects::config_map;
use super::{Scenario, Settings};
use crate::drive::{Load, Outcome, Phase};
use crate::error::BenchError;
use crate::request::{Body, NUMBER};
use crate::site::Site;
use crate::tally::Tally;

const OBJECTS: u64 = 100_000;
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Time for a server to settle after a burst of writes before its memory is measured.
const SETTLE: Duration = Duration::from_secs(5);

pub struct Memory;

impl Scenario for Memory {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let before = site.rss()?;
        let text = config_map(&format!("m-{NUMBER}"));
        let collection = site.path("configmaps");
        let template = site.template("POST", &collection, Some(Body::json(&text)), 1);
        let load = Load { max_requests: OBJECTS, ..site.load(&template, settings.connections) };
        let phase = Phase { name: "creating objects", warmup: Duration::ZERO, measured: TIME_LIMIT };
        let Outcome { mut tally, numbers: made, .. } = site.drive(&load, phase)?;
        site.progress.show("waiting for the memory to settle");
        std::thread::sleep(SETTLE);
        let object = site.get(&format!("{collection}/m-{:010}", made.start))?;
        if let (Some(before), Some(after)) = (before, site.rss()?) {
            let stored = tally.requests * object.len() as u64;
            tally.notes.push(format!(
                "{} objects of {} bytes, {} MB in all; resident {} MB before, {} MB {} s after: {:.2} times the objects",
                tally.requests,
                object.len(),
                stored / 1_000_000,
                before / 1_000_000,
                after / 1_000_000,
                SETTLE.as_secs(),
                after as f64 / stored.max(1) as f64,
            ));
        }
        site.delete_numbers("configmaps", "m-", made)?;
        Ok(tally)
    }
}
