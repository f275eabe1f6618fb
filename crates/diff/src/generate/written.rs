//! Scenarios written by hand, as lines of JSON.
//!
//! ```text
//! {"scenario":"services of every type","resource":"v1 services"}
//! {"case":"node port","method":"POST","path":"/api/v1/namespaces/$NS/services","body":{…}}
//! {"case":"patched","method":"PATCH","path":"…","type":"application/merge-patch+json","accept":"…","body":{…} or "text"}
//! ```
//! `"until":{"status":200,"contains":"text"}` sends a request again until the answer is so (`contains` may be left out).
//! A line with `scenario` begins one; empty lines and lines that begin with `#` do not count.

use object::Value;

use crate::case::{JSON, Scenario, Step, Until, parse, text_of};
use crate::error::DiffError;

const BUILT_IN: &str = include_str!("../../data/cases.jsonl");
const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"];

pub fn built_in() -> Vec<Scenario> {
    read(BUILT_IN).expect("the embedded cases can be read: a test of this crate says so")
}

pub fn read(text: &str) -> Result<Vec<Scenario>, DiffError> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let problem = |problem: &str| DiffError::Case { line: number + 1, problem: problem.to_owned() };
        let row = parse(line).ok_or_else(|| problem("it is not JSON"))?;
        let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = text("scenario") {
            let resource = text("resource").unwrap_or_else(|| "other".to_owned());
            let name = format!("{resource} {name}");
            scenarios.push(Scenario { name, resource, custom: false, steps: Vec::new() });
            continue;
        }
        let scenario =
            scenarios.last_mut().ok_or_else(|| problem("a line with \"scenario\" must stand before it"))?;
        let method = text("method").unwrap_or_else(|| "GET".to_owned());
        let method =
            METHODS.iter().find(|m| **m == method).ok_or_else(|| problem("its method is unknown"))?;
        let body = row.get("body").map(|body| match body {
            Value::Str(text) => text.clone(),
            body => text_of(body),
        });
        scenario.steps.push(Step {
            name: text("case").ok_or_else(|| problem("it has no \"case\", its name"))?,
            method,
            path: text("path").ok_or_else(|| problem("it has no \"path\""))?,
            accept: text("accept"),
            content_type: body.is_some().then(|| text("type").unwrap_or_else(|| JSON.to_owned())),
            body,
            until: row.get("until").and_then(|until| {
                let status = u16::try_from(until.get("status")?.as_int()?).ok()?;
                let contains = until.str_at(&["contains"]).unwrap_or_default().to_owned();
                Some(Until { status, contains })
            }),
        });
    }
    Ok(scenarios)
}
