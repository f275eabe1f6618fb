//! A condition in the status of a Deployment, a ReplicaSet or a ReplicationController.

use object::{Map, Value, time};

/// Times are RFC 3339, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Condition {
    pub kind: String,
    pub status: String,
    /// Only Deployments have it.
    pub updated: String,
    pub changed: String,
    pub reason: String,
    pub message: String,
}

impl Condition {
    /// Changed now, without a time of the last update.
    pub fn new(kind: &str, status: &str, reason: &str, message: String, now: i64) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            updated: String::new(),
            changed: time::format_seconds(now),
            reason: reason.to_owned(),
            message,
        }
    }

    /// Updated when it changed.
    pub fn with_update(mut self) -> Condition {
        self.updated.clone_from(&self.changed);
        self
    }

    /// `conditions` of a status.
    pub fn read_all(status: &Value) -> Vec<Condition> {
        let list = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
        list.iter().map(Condition::read).collect()
    }

    /// Into a status, if there are any.
    pub fn write_all(conditions: &[Condition], status: &mut Map) {
        if !conditions.is_empty() {
            status.set("conditions", Value::List(conditions.iter().map(Condition::write).collect()));
        }
    }

    fn read(condition: &Value) -> Condition {
        let text = |name: &str| condition.str_at(&[name]).unwrap_or("").to_owned();
        Condition {
            kind: text("type"),
            status: text("status"),
            updated: text("lastUpdateTime"),
            changed: text("lastTransitionTime"),
            reason: text("reason"),
            message: text("message"),
        }
    }

    fn write(&self) -> Value {
        let mut condition = Map::default();
        condition.set("type", self.kind.clone());
        condition.set("status", self.status.clone());
        for (name, text) in [
            ("lastUpdateTime", &self.updated),
            ("lastTransitionTime", &self.changed),
            ("reason", &self.reason),
            ("message", &self.message),
        ] {
            if !text.is_empty() {
                condition.set(name, text.clone());
            }
        }
        Value::Map(condition)
    }
}
