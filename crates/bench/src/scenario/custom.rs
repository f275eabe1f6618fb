//! create-custom, get-custom, list-custom, watch-custom, cel: custom resources of 1 KB; crd-install: many small definitions.

use std::time::{Duration, Instant};

use super::{Scenario, Settings, Unit, create, get, list, watch};
use crate::drive::{Load, Outcome, Phase};
use crate::error::BenchError;
use crate::request::{Body, NUMBER, STAMP};
use crate::site::Site;
use crate::stamps::STAMP_KEY;
use crate::tally::Tally;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECT_BYTES: usize = 1024;
/// How many crd-install installs.
const INSTALLED: u64 = 1_000;
/// Time for a server to settle before its memory is measured.
const SETTLE: Duration = Duration::from_secs(5);
/// How long a definition may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(60);

/// Scenarios with custom resources in place of ConfigMaps. The definition comes and goes with each round.
pub struct Custom {
    pub verb: Verb,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Create,
    /// Into a schema with a rule that every object is held against.
    CreateWithRule,
    Get,
    List,
    Watch,
}

impl Scenario for Custom {
    fn unit(&self) -> Unit {
        if self.verb == Verb::Watch { Unit::Events } else { Unit::Requests }
    }

    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let rule = self.verb == Verb::CreateWithRule;
        let plural = if rule { "checked" } else { "records" };
        let definition_path = format!("{DEFINITIONS}/{plural}.bench.setpoint.dev");
        site.post(DEFINITIONS, &definition(plural, "record", "Record", rule))?;
        let collection = site.path("").replacen("/api/v1/", "/apis/bench.setpoint.dev/v1/", 1) + plural;
        wait_until_served(site, &collection)?;
        let object = |name: &str| object("Record", name);
        let tally = match self.verb {
            Verb::Create | Verb::CreateWithRule => create::creates(site, settings, &collection, &object)?,
            Verb::Get => {
                get::objects(site, &collection, &object)?;
                get::gets(site, settings, &collection)?
            }
            Verb::List => {
                list::objects(site, &collection, &object)?;
                list::lists(site, settings, &collection)?
            }
            Verb::Watch => watch::events(site, settings, &collection, &object, None)?,
        };
        site.delete(&definition_path)?;
        wait_until_gone(site, &definition_path)?;
        Ok(tally)
    }
}

pub struct InstallDefinitions;

impl Scenario for InstallDefinitions {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let text = definition(
            &format!("things{NUMBER}"),
            &format!("thing{NUMBER}"),
            &format!("Thing{NUMBER}"),
            false,
        );
        let template = site.template("POST", DEFINITIONS, Some(Body::json(&text)), 1);
        let load = Load { max_requests: INSTALLED, ..site.load(&template, settings.connections) };
        let phase = Phase { warmup: Duration::ZERO, ..settings.phase() };
        let before = site.rss()?;
        let began = Instant::now();
        let Outcome { mut tally, numbers, .. } = site.drive(&load, phase)?;
        for number in numbers {
            wait_until_served(site, &format!("/apis/bench.setpoint.dev/v1/things{number:010}"))?;
        }
        let served = began.elapsed();
        site.progress.show("waiting for the memory to settle");
        std::thread::sleep(SETTLE);
        let resident = match (before, site.rss()?) {
            (Some(before), Some(after)) => format!(
                "; resident {} MB before, {} MB {} s after: {} KB each",
                before / 1_000_000,
                after / 1_000_000,
                SETTLE.as_secs(),
                after.saturating_sub(before) / 1_000 / tally.requests.max(1),
            ),
            _ => String::new(),
        };
        tally.notes.push(format!("all served after {:.1} s{resident}", served.as_secs_f64()));
        site.delete(DEFINITIONS)?;
        Ok(tally)
    }
}

/// A schema as operators have it: a few typed fields, a default, a status.
fn definition(plural: &str, singular: &str, kind: &str, rule: bool) -> String {
    let rules = match rule {
        true => {
            r#","x-kubernetes-validations":[{"rule":"self.replicas < 1 || self.mode in ['auto', 'manual']"}]"#
        }
        false => "",
    };
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.bench.setpoint.dev"}},"spec":{{"group":"bench.setpoint.dev","scope":"Namespaced","names":{{"plural":"{plural}","singular":"{singular}","kind":"{kind}"}},"versions":[{{"name":"v1","served":true,"storage":true,"subresources":{{"status":{{}}}},"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object"{rules},"properties":{{"bench-stamp":{{"type":"string"}},"padding":{{"type":"string"}},"replicas":{{"type":"integer","minimum":0,"default":1}},"mode":{{"type":"string","enum":["auto","manual"],"default":"auto"}}}}}},"status":{{"type":"object","properties":{{"phase":{{"type":"string"}}}}}}}}}}}}}}]}}}}"#
    )
}

fn object(kind: &str, name: &str) -> String {
    let text = |padding: &str| {
        format!(
            r#"{{"apiVersion":"bench.setpoint.dev/v1","kind":"{kind}","metadata":{{"name":"{name}"}},"spec":{{{STAMP_KEY}{STAMP}","padding":"{padding}"}}}}"#
        )
    };
    text(&"x".repeat(OBJECT_BYTES.saturating_sub(text("").len())))
}

fn wait_until_served(site: &mut Site<'_>, path: &str) -> Result<(), BenchError> {
    let began = Instant::now();
    while began.elapsed() < ESTABLISHED {
        match site.get(&format!("{path}?limit=1")) {
            Err(BenchError::Refused { status: 404, .. }) => std::thread::sleep(Duration::from_millis(20)),
            other => return other.map(|_| ()),
        }
    }
    Err(site.too_slow(format!("the definition of {path}"), ESTABLISHED))
}

fn wait_until_gone(site: &mut Site<'_>, path: &str) -> Result<(), BenchError> {
    let began = Instant::now();
    while began.elapsed() < ESTABLISHED {
        match site.get(path) {
            Err(BenchError::Refused { status: 404, .. }) => return Ok(()),
            Err(other) => return Err(other),
            Ok(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
    Err(site.too_slow(format!("the deletion of {path}"), ESTABLISHED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_keeps_the_stamp() {
        let name = STAMP_KEY.split('"').nth(1).unwrap();
        assert!(definition("a", "b", "C", true).contains(&format!("\"{name}\":{{\"type\":\"string\"}}")));
    }

    #[test]
    fn a_custom_resource_has_one_kilobyte() {
        assert_eq!(object("Record", &format!("c-{NUMBER}")).len(), OBJECT_BYTES);
    }
}
