//! node-watches: watches by `spec.nodeName`, as every kubelet has one, while bound pods are created.
//!
//! Each create notifies one watch. Its cost should not depend on the number of other watches.

use super::objects::pod;
use super::{Scenario, Settings, Unit};
use crate::drive::{Load, Watch};
use crate::error::BenchError;
use crate::report::thousands;
use crate::request::{Body, NUMBER, SLOT};
use crate::scenario::watch::list_revision;
use crate::site::Site;
use crate::tally::Tally;

const WATCHES: [usize; 3] = [100, 1_000, 10_000];
/// The same for all: it is the CPU that is compared.
const CREATES_PER_SECOND: u64 = 1_000;

pub struct NodeWatches;

impl Scenario for NodeWatches {
    fn unit(&self) -> Unit {
        Unit::Requests
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let mut notes = Vec::new();
        let mut last = Tally::new();
        for watches in WATCHES {
            last = with_watches(site, settings, watches)?;
            let each = last.server_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / last.requests.max(1) as f64);
            notes.push(format!(
                "{} watches: {:.0} creates/s, {} events{}",
                thousands(watches as f64),
                last.requests as f64 / last.seconds.max(0.001),
                thousands(last.events as f64),
                each.map(|micros| format!(", {micros:.1} us of CPU a create")).unwrap_or_default()
            ));
        }
        last.notes = notes;
        Ok(last)
    }
}

fn with_watches(site: &mut Site<'_>, settings: &Settings, watches: usize) -> Result<Tally, BenchError> {
    let collection = site.path("pods");
    let revision = list_revision(&site.get(&format!("{collection}?limit=1"))?);
    let of_node = format!("fieldSelector=spec.nodeName%3Dnode-{SLOT}");
    let path = format!("/api/v1/pods?watch=true&{of_node}&resourceVersion={revision}");
    let watch_template = site.template("GET", &path, None, watches as u64);
    let text = pod(&format!("n-{NUMBER}"), "", false).replacen(
        r#""spec":{"#,
        &format!(r#""spec":{{"nodeName":"node-{SLOT}","#),
        1,
    );
    let template = site.template("POST", &collection, Some(Body::json(&text)), watches as u64);
    let load = Load {
        pace: Some(CREATES_PER_SECOND),
        watch: Some(Watch { template: &watch_template, watchers: watches }),
        ..site.load(&template, settings.connections)
    };
    let outcome = site.drive(&load, settings.phase())?;
    site.delete_numbers("pods", "n-", outcome.numbers)?;
    Ok(outcome.tally)
}
