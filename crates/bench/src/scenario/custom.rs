//! create-custom, cel, crd-install: custom resources of 1 KB, with and without a validation rule; many small definitions.

use std::time::{Duration, Instant};

use super::{Scenario, Settings};
use crate::drive::Load;
use crate::error::BenchError;
use crate::request::{Body, NUMBER, STAMP};
use crate::site::Site;
use crate::stamps::STAMP_KEY;
use crate::tally::Tally;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECT_BYTES: usize = 1024;
/// As of create.
const MAX_CREATES: u64 = 1_000_000;
/// How many crd-install installs.
const INSTALLED: u64 = 1_000;
/// How long a definition may take until it is served.
const ESTABLISHED: Duration = Duration::from_secs(60);

pub struct CreateCustom {
    /// Its schema has a rule that every object is held against.
    pub rule: bool,
}

impl Scenario for CreateCustom {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let plural = if self.rule { "checked" } else { "records" };
        site.post(DEFINITIONS, &definition(plural, "Record", self.rule))?;
        let path = site.path("").replacen("/api/v1/", "/apis/bench.setpoint.dev/v1/", 1) + plural;
        wait_until_served(site, &path)?;
        let text = object("Record", &format!("c-{NUMBER}"));
        let template = site.template("POST", &path, Some(Body::json(&text)), 1);
        let load = Load { max_requests: MAX_CREATES, ..site.load(&template, settings.connections) };
        let outcome = site.drive(&load, settings.phase())?;
        site.delete_numbers_at(&path, "c-", outcome.numbers)?;
        site.delete(&format!("{DEFINITIONS}/{plural}.bench.setpoint.dev"))?;
        wait_until_gone(site, &format!("{DEFINITIONS}/{plural}.bench.setpoint.dev"))?;
        Ok(outcome.tally)
    }
}

pub struct InstallDefinitions;

impl Scenario for InstallDefinitions {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let text = definition(&format!("things{NUMBER}"), &format!("Thing{NUMBER}"), false);
        let template = site.template("POST", DEFINITIONS, Some(Body::json(&text)), 1);
        let load = Load { max_requests: INSTALLED, ..site.load(&template, settings.connections) };
        let phase = crate::drive::Phase { warmup: Duration::ZERO, ..settings.phase() };
        let outcome = site.drive(&load, phase)?;
        site.delete(DEFINITIONS)?;
        Ok(outcome.tally)
    }
}

/// A schema as operators have it: a few typed fields, a default, a status.
fn definition(plural: &str, kind: &str, rule: bool) -> String {
    let rules = match rule {
        true => {
            r#","x-kubernetes-validations":[{"rule":"self.replicas <= 10 || self.sent.startsWith('x')"}]"#
        }
        false => "",
    };
    format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{{"name":"{plural}.bench.setpoint.dev"}},"spec":{{"group":"bench.setpoint.dev","scope":"Namespaced","names":{{"plural":"{plural}","singular":"{singular}","kind":"{kind}"}},"versions":[{{"name":"v1","served":true,"storage":true,"subresources":{{"status":{{}}}},"schema":{{"openAPIV3Schema":{{"type":"object","properties":{{"spec":{{"type":"object"{rules},"properties":{{"sent":{{"type":"string","maxLength":4096}},"padding":{{"type":"string"}},"replicas":{{"type":"integer","minimum":0,"default":1}},"mode":{{"type":"string","enum":["auto","manual"],"default":"auto"}}}}}},"status":{{"type":"object","properties":{{"phase":{{"type":"string"}}}}}}}}}}}}}}]}}}}"#,
        singular = kind.to_lowercase(),
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
    fn a_custom_resource_has_one_kilobyte() {
        assert_eq!(object("Record", &format!("c-{NUMBER}")).len(), OBJECT_BYTES);
    }
}
