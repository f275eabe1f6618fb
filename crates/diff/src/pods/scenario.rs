//! Pods to run, and what is done to them: a list in YAML.
//!
//! ```text
//! - name: exits                  the pod's name too
//!   objects: [{…}]               created before it
//!   metadata: {labels: …}        of the pod
//!   spec: {…}                    the node's name is added, and a grace of one second
//!   steps:
//!   - until: phase Succeeded     see until.rs
//!   - patch: {…}                 of the pod; `resize` and `ephemeral` are those of its subresources
//!   - create: {…}                another object
//!   - delete: 5                  the pod, with so many seconds of grace
//! ```
//! After the last step the pod comes to rest, is looked at, and is deleted.

use object::{Map, Value};

use super::until::Until;
use crate::error::DiffError;

pub struct Scenario {
    pub name: String,
    pub objects: Vec<Value>,
    pub metadata: Map,
    pub spec: Map,
    pub steps: Vec<Step>,
}

pub enum Step {
    Until(Until),
    /// The subresource, or nothing, and a strategic merge patch.
    Patch(&'static str, Value),
    Create(Value),
    Delete(i64),
}

pub fn read(text: &str) -> Result<Vec<Scenario>, DiffError> {
    let wrong = |problem: String| DiffError::Scenario { problem };
    let tree = codec::yaml::parse(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
    let mut all = Vec::new();
    for row in tree.as_list().ok_or_else(|| wrong("it is not a list".to_owned()))? {
        let name = row.str_at(&["name"]).ok_or_else(|| wrong("one has no name".to_owned()))?;
        let map = |field: &str| row.get(field).and_then(Value::as_map).cloned().unwrap_or_default();
        let list = |field: &str| row.get(field).and_then(Value::as_list).unwrap_or_default();
        let mut steps = Vec::new();
        for step in list("steps") {
            let read = read_step(step).ok_or_else(|| wrong(format!("{name} has a step nobody knows")))?;
            steps.push(read);
        }
        let objects = list("objects").to_vec();
        all.push(Scenario {
            name: name.to_owned(),
            objects,
            metadata: map("metadata"),
            spec: map("spec"),
            steps,
        });
    }
    Ok(all)
}

fn read_step(step: &Value) -> Option<Step> {
    let (verb, what) = step.as_map()?.iter().next()?;
    Some(match verb.as_str() {
        "until" => Step::Until(Until::read(what.as_str()?)?),
        "patch" => Step::Patch("", what.clone()),
        "resize" => Step::Patch("/resize", what.clone()),
        "ephemeral" => Step::Patch("/ephemeralcontainers", what.clone()),
        "create" => Step::Create(what.clone()),
        "delete" => Step::Delete(what.as_int()?),
        _ => return None,
    })
}
