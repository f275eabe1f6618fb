//! Cases about custom resources. Every scenario has an API group of its own, so that its definitions meet no others.
//!
//! ```text
//! data/schemas.jsonl ──────┬─ schemas      every schema with values that fit and values that do not
//! data/definitions.jsonl ──┼─ definitions  definitions that are refused, and every keyword in every place of a schema
//! data/custom.jsonl ───────┼─ lives        definitions with an object: the life of one, its values taken away and broken
//! data/custom-cases.jsonl ─┴─ written      scenarios by hand
//! ```

pub mod definition;
mod definitions;
mod lives;
mod schemas;

use object::Value;

use super::written;
use crate::case::{Scenario, parse};

pub const RESOURCE: &str = "custom resources";

const WRITTEN: &str = include_str!("../../data/custom-cases.jsonl");

pub fn all() -> Vec<Scenario> {
    let mut scenarios = schemas::scenarios();
    scenarios.extend(definitions::scenarios());
    scenarios.extend(lives::scenarios());
    let written =
        written::read(WRITTEN).expect("the embedded cases can be read: a test of this crate says so");
    scenarios.extend(written.into_iter().map(|scenario| Scenario { custom: true, ..scenario }));
    scenarios
}

fn scenario(name: &str, steps: Vec<crate::case::Step>) -> Scenario {
    Scenario { name: format!("{RESOURCE} {name}"), resource: RESOURCE.to_owned(), custom: true, steps }
}

/// The rows of an embedded file.
fn rows(text: &str) -> impl Iterator<Item = Value> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
        parse(line).unwrap_or_else(|| panic!("the embedded rows are JSON, a test says so: {line}"))
    })
}

/// What a row is called.
fn name_of(row: &Value) -> String {
    row.str_at(&["name"]).expect("every embedded row has a name, a test says so").to_owned()
}
