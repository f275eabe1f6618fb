//! Recorded outcomes as lines of text: one JSON object a case, bodies too large for a file kept as a hash.
//!
//! `{"case":"…","request":"fingerprint","status":201,"warnings":["…"],"body":{…}}`: `body` is the normalised answer; a failure's
//! Status is kept as `failure` without the members all of them share; `hash` stands for a large one. `calls` are the webhooks
//! that were asked, `reviews` the hash of what.

use object::{Map, Value};

use crate::case::{Fnv, Scenario, Step, parse, text_of};
use crate::compare::{Difference, calls, compare};
use crate::play::Outcome;
use crate::webhook;

/// Larger bodies are kept as a hash: whether they are equal is still known, where they differ `setpoint diff` shows.
const LARGEST: usize = 1500;
/// In cases about admission, of which there are many with answers that differ little.
const LARGEST_OF_ADMISSION: usize = 240;
const JSON: &str = "application/json";

#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    pub case: String,
    pub request: String,
    outcome: Outcome,
    hash: Option<String>,
    /// Names of webhooks, and the hash of what they were asked.
    calls: String,
    reviews: String,
}

/// Whether a case is worth its line: all that are written by hand, and of those made from the catalogue so many that
/// the file stays below 4 MB. `setpoint diff` compares them all.
pub fn is_kept(scenario: &Scenario, step: &Step) -> bool {
    let ends = |end: &str| scenario.name.ends_with(end);
    let every = match () {
        () if ends(" life") => 3,
        () if ends(" apply") && !scenario.custom => 4,
        () if ends(" apply fields") || ends(" apply leaves") => 12,
        () if ends(" fields") || ends(" leaves") => 6,
        () if scenario.is_admission() => 2,
        () if scenario.custom => 8,
        () => 1,
    };
    Fnv::of(&format!("{} {}", scenario.name, step.name)).number().is_multiple_of(every)
}

pub fn line(case: &str, scenario: &Scenario, step: &Step, outcome: &Outcome) -> String {
    let mut row = Map::default();
    row.set("case", case.to_owned());
    row.set("request", step.fingerprint());
    row.set("status", i64::from(outcome.status));
    if outcome.content_type != JSON {
        row.set("type", outcome.content_type.clone());
    }
    if !outcome.warnings.is_empty() {
        row.set("warnings", outcome.warnings.iter().map(|w| w.as_str().into()).collect::<Vec<Value>>());
    }
    if !outcome.calls.is_empty() {
        row.set("calls", webhook::names(&outcome.calls));
        row.set("reviews", Fnv::of(&webhook::text(&outcome.calls)).text());
    }
    let largest = if scenario.is_admission() { LARGEST_OF_ADMISSION } else { LARGEST };
    let text = text_of(&outcome.body);
    if text.len() > largest {
        row.set("hash", Fnv::of(&text).text());
    } else if let Some(failure) = failure_of(outcome) {
        row.set("failure", failure);
    } else {
        row.set("body", outcome.body.clone());
    }
    text_of(&Value::Map(row))
}

/// `None` for a line that is none.
pub fn read(line: &str) -> Option<Recorded> {
    let row = parse(line)?;
    let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
    let status = u16::try_from(row.get("status")?.as_int()?).ok()?;
    let body = match (row.get("body"), row.get("failure")) {
        (Some(body), _) => body.clone(),
        (None, Some(failure)) => whole_failure(failure, status),
        (None, None) => Value::Null,
    };
    let warnings = row.get("warnings").and_then(Value::as_list).unwrap_or_default();
    Some(Recorded {
        case: text("case")?,
        request: text("request")?,
        hash: text("hash"),
        calls: text("calls").unwrap_or_default(),
        reviews: text("reviews").unwrap_or_default(),
        outcome: Outcome {
            status,
            content_type: text("type").unwrap_or_else(|| JSON.to_owned()),
            warnings: warnings.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            body,
            calls: Vec::new(),
        },
    })
}

impl Recorded {
    /// Where an outcome differs from the recorded one.
    pub fn difference(&self, outcome: &Outcome) -> Option<Difference> {
        let uncalled = Outcome { calls: Vec::new(), ..outcome.clone() };
        self.body_difference(uncalled).or_else(|| {
            calls(&webhook::names(&outcome.calls), &self.calls).or_else(|| {
                let asked = match outcome.calls.is_empty() {
                    true => String::new(),
                    false => Fnv::of(&webhook::text(&outcome.calls)).text(),
                };
                let (place, theirs) = ("(reviews)".to_owned(), self.reviews.clone());
                (asked != theirs).then_some(Difference { place, ours: asked, theirs })
            })
        })
    }

    fn body_difference(&self, outcome: Outcome) -> Option<Difference> {
        let Some(hash) = &self.hash else { return compare(&outcome, &self.outcome) };
        let own = Fnv::of(&text_of(&outcome.body)).text();
        let bodiless = Outcome { body: Value::Null, ..outcome };
        compare(&bodiless, &self.outcome).or_else(|| {
            let place = "(large body)".to_owned();
            (own != *hash).then(|| Difference { place, ours: own, theirs: hash.clone() })
        })
    }
}

fn failure_of(outcome: &Outcome) -> Option<Value> {
    let mut body = outcome.body.as_map()?.clone();
    let shared = whole_failure(&Value::map(), outcome.status);
    for (name, value) in shared.as_map()?.iter() {
        if body.remove(name)? != *value {
            return None;
        }
    }
    Some(Value::Map(body))
}

fn whole_failure(failure: &Value, status: u16) -> Value {
    let mut body = failure.as_map().cloned().unwrap_or_default();
    body.set("apiVersion", "v1");
    body.set("code", i64::from(status));
    body.set("kind", "Status");
    body.set("metadata", Value::map());
    body.set("status", "Failure");
    body.entries_mut().sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Value::Map(body)
}
