//! The life of a custom resource, its values taken away and broken, and applied, for every definition of `data/custom.jsonl`.
//!
//! ```text
//! {"name":"with status","spec":{"versions":[…]},"version":"v1","body":{"spec":{…}},"status":{…}}
//! ```
//! `spec` has members of the definition's spec, `version` is the one requests go to, `body` and `status` are the object's.

use object::Value;

use super::definition::{close, open, widgets, with_spec};
use super::{RESOURCE, name_of, rows, scenario};
use crate::case::{Scenario, Step};
use crate::generate::{apply, leaves, life};
use crate::kinds::{Sample, Target};

const ROWS: &str = include_str!("../../../data/custom.jsonl");

pub fn scenarios() -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    for row in rows(ROWS) {
        let definition = with_spec(row.get("spec").unwrap_or(&Value::Null));
        let version = row.str_at(&["version"]).unwrap_or("v1");
        let target = target(&definition, version);
        let sample = Sample::new(
            RESOURCE,
            row.get("body").cloned().unwrap_or(Value::map()),
            row.get("status").cloned(),
        );
        let whole = |inner: Vec<Step>| {
            let opening = open(&definition, &target).into_iter();
            opening.chain(inner).chain([close()]).collect::<Vec<_>>()
        };
        let name = name_of(&row);
        scenarios.push(scenario(&format!("{name} life"), whole(life::steps(&sample, &target))));
        scenarios.push(scenario(&format!("{name} leaves"), whole(leaves::steps(&sample, &target))));
        scenarios.push(scenario(&format!("{name} apply"), whole(apply::steps(&sample, &target))));
        scenarios
            .push(scenario(&format!("{name} apply leaves"), whole(apply::leaves::steps(&sample, &target))));
    }
    scenarios
}

fn target(definition: &Value, version: &str) -> Target {
    let namespaced = definition.str_at(&["spec", "scope"]) == Some("Namespaced");
    let versions = definition.at(&["spec", "versions"]).and_then(Value::as_list).unwrap_or_default();
    let found = versions.iter().find(|v| v.str_at(&["name"]) == Some(version));
    let has = |name: &str| found.is_some_and(|v| v.at(&["subresources", name]).is_some());
    Target { status: has("status"), scale: has("scale"), ..widgets(version, namespaced) }
}
