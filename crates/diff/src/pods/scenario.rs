//! Pods to run, and what is done to them: a list in YAML.
//!
//! ```text
//! - name: exits                  the pod's name too
//!   objects: [{…}]               created before it
//!   metadata: {labels: …}        of the pod
//!   spec: {…}                    the node's name is added, and a grace of one second
//!   static: true                 a file in the node's staticPodPath instead of a pod of the API
//!   patience: 200                seconds that a step waits, if more than usual
//!   steps:
//!   - until: phase Succeeded     see until.rs
//!   - patch: {…}                 of the pod; `resize` and `ephemeral` are those of its subresources
//!   - create: {…}                another object
//!   - delete: 5                  the pod, with so many seconds of grace; of a static pod that is its mirror
//!   - manifest: {…}              another spec in the file of a static pod
//! ```
//! After the last step the pod comes to rest, is looked at, and is deleted; a static pod by its file.

use object::{Map, Value};

use super::until::Until;
use crate::error::DiffError;

pub struct Scenario {
    pub name: String,
    pub objects: Vec<Value>,
    pub metadata: Map,
    pub spec: Map,
    pub is_static: bool,
    pub patience_seconds: Option<u64>,
    pub steps: Vec<Step>,
}

impl Scenario {
    pub fn has_own_users(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }
}

pub enum Step {
    Until(Until),
    /// The subresource, or nothing, and a strategic merge patch.
    Patch(&'static str, Value),
    Create(Value),
    Delete(i64),
    Manifest(Map),
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
            is_static: row.get("static").and_then(Value::as_bool) == Some(true),
            patience_seconds: row.get("patience").and_then(Value::as_int).and_then(|s| u64::try_from(s).ok()),
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
        "manifest" => Step::Manifest(what.as_map()?.clone()),
        _ => return None,
    })
}
