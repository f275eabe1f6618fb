//! watch, watch-paced: 100 watchers of the ConfigMaps of one namespace while others create there.
//!
//! Without a pace the writers stop when they are 128 creates ahead of the slowest watcher. So the rate is what the server can
//! deliver to all, and the lag is not merely how much a backlog has grown. With a pace the lag is what an unhurried user sees.

use super::objects::config_map;
use super::{Scenario, Settings, Unit};
use crate::drive::{Load, Watch};
use crate::error::BenchError;
use crate::request::{Body, NUMBER};
use crate::site::Site;
use crate::tally::Tally;

const WATCHERS: usize = 100;
const WRITERS: usize = 16;
const WINDOW: u64 = 128;
const MAX_CREATES: u64 = 1_000_000;

pub struct FanOut {
    pub pace: Option<u64>,
}

impl Scenario for FanOut {
    fn unit(&self) -> Unit {
        Unit::Events
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let collection = site.path("configmaps");
        events(site, settings, &collection, &config_map, self.pace)
    }
}

/// Watchers of a collection of our namespace, and writers that create in it.
pub fn events(
    site: &mut Site<'_>,
    settings: &Settings,
    collection: &str,
    object: &dyn Fn(&str) -> String,
    pace: Option<u64>,
) -> Result<Tally, BenchError> {
    let revision = list_revision(&site.get(&format!("{collection}?limit=1"))?);
    let path = format!("{collection}?watch=true&resourceVersion={revision}");
    let watch_template = site.template("GET", &path, None, 1);
    let text = object(&format!("w-{NUMBER}"));
    let template = site.template("POST", collection, Some(Body::json(&text)), 1);
    let writers = if pace.is_some() { usize::MAX } else { WRITERS };
    let load = Load {
        max_requests: MAX_CREATES,
        pace,
        window: pace.is_none().then_some(WINDOW),
        watch: Some(Watch { template: &watch_template, watchers: WATCHERS }),
        ..site.load(&template, writers.min(settings.connections))
    };
    let outcome = site.drive(&load, settings.phase())?;
    site.delete_numbers_at(collection, "w-", outcome.numbers)?;
    Ok(outcome.tally)
}

/// The resourceVersion of a list, which stands before those of its items in every server's JSON; "0" if there is none.
pub fn list_revision(body: &[u8]) -> String {
    const KEY: &[u8] = b"\"resourceVersion\":\"";
    let digits = memchr::memmem::find(body, KEY).map(|at| &body[at + KEY.len()..]).unwrap_or_default();
    let digits: String =
        digits.iter().take_while(|byte| byte.is_ascii_digit()).map(|&byte| byte as char).collect();
    if digits.is_empty() { "0".to_string() } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_of_a_list_is_found() {
        let body =
            br#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"815"},"items":[]}"#;
        assert_eq!(list_revision(body), "815");
        assert_eq!(list_revision(b"{}"), "0");
    }
}
