//! watch, watch-paced: 100 watchers of the ConfigMaps of one namespace while others create there.
//!
//! Without a pace the writers stop when they are 128 creates ahead of the slowest watcher. So the rate is what the server can
//! deliver to all, and the lag is not merely how much a backlog has grown. With a pace the lag is what an unhurried user sees.

use super::objects::config_map;
use super::{Scenario, Settings, Unit};
use crate::drive::{Load, Watch};
use crate::error::BenchError;
use crate::meters::Progress;
use crate::request::{Body, NUMBER, Template};
use crate::site::Site;
use crate::tally::Tally;

const WATCHERS: usize = 100;
const WRITERS: usize = 16;
const WINDOW: u64 = 128;
const MAX_CREATES: u64 = 1_000_000;

pub struct FanOut {
    pub name: &'static str,
    pub about: &'static str,
    pub pace: Option<u64>,
}

impl Scenario for FanOut {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn unit(&self) -> Unit {
        Unit::Events
    }

    fn measure(
        &self,
        site: &mut Site<'_>,
        settings: &Settings,
        progress: &mut Progress,
    ) -> Result<Tally, BenchError> {
        let collection = site.path("configmaps");
        let revision = list_revision(&site.get(&format!("{collection}?limit=1"))?);
        let path = format!("{collection}?watch=true&resourceVersion={revision}");
        let watch_template = Template::new(site.endpoint(), "GET", &path, None, 1);
        let text = config_map(&format!("w-{NUMBER}"));
        let template = Template::new(site.endpoint(), "POST", &collection, Some(Body::json(&text)), 1);
        let load = Load {
            template: &template,
            connections: if self.pace.is_some() {
                settings.connections
            } else {
                WRITERS.min(settings.connections)
            },
            first_number: site.next_number,
            max_requests: MAX_CREATES,
            pace: self.pace,
            window: self.pace.is_none().then_some(WINDOW),
        };
        let watch = Watch { template: &watch_template, watchers: WATCHERS };
        let outcome = site.drive(&load, Some(&watch), settings.phase(), progress)?;
        let made = site.next_number..outcome.next_number;
        site.next_number = made.end;
        site.delete_numbers("configmaps", "w-", made, progress)?;
        Ok(outcome.tally)
    }
}

/// The resourceVersion of a list, which stands before those of its items in every server's JSON; "0" if there is none.
fn list_revision(body: &[u8]) -> String {
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
