//! What the controllers about nodes read of a Node: conditions, taints, zone.

use std::sync::Arc;

use object::{Map, Obj, Value, time};

pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub const NO_SCHEDULE: &str = "NoSchedule";
pub const NO_EXECUTE: &str = "NoExecute";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub heartbeat: String,
    pub transition: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
    pub time_added: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub name: String,
    pub uid: String,
    /// Unix seconds, and as written.
    pub created: i64,
    pub created_text: String,
    pub conditions: Vec<Condition>,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    /// Region and zone; nodes that say neither are together in one.
    pub zone: String,
    /// Its health says nothing about its zone's.
    pub excluded: bool,
}

impl NodeFacts {
    pub fn of(node: &Obj) -> Arc<NodeFacts> {
        Arc::new(NodeFacts::read(&runtime::tree(node)))
    }

    pub fn read(node: &Value) -> NodeFacts {
        let text = |path: &[&str]| node.str_at(path).unwrap_or("").to_owned();
        let list = |path: &[&str]| node.at(path).and_then(Value::as_list).unwrap_or_default();
        let label = |name: &str| node.str_at(&["metadata", "labels", name]);
        let region = label("topology.kubernetes.io/region")
            .or_else(|| label("failure-domain.beta.kubernetes.io/region"))
            .unwrap_or("");
        let zone = label("topology.kubernetes.io/zone")
            .or_else(|| label("failure-domain.beta.kubernetes.io/zone"))
            .unwrap_or("");
        let created_text = text(&["metadata", "creationTimestamp"]);
        NodeFacts {
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            created: time::parse(&created_text).map_or(0, |(seconds, _)| seconds),
            created_text,
            conditions: list(&["status", "conditions"]).iter().map(Condition::read).collect(),
            taints: list(&["spec", "taints"]).iter().map(Taint::read).collect(),
            unschedulable: node.at(&["spec", "unschedulable"]).and_then(Value::as_bool).unwrap_or(false),
            zone: if region.is_empty() && zone.is_empty() {
                String::new()
            } else {
                format!("{region}:\0:{zone}")
            },
            excluded: label("node.kubernetes.io/exclude-disruption").is_some(),
        }
    }

    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
    pub fn ready(&self) -> Option<&Condition> {
        self.condition("Ready")
    }
    pub fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.taints.iter().any(|taint| taint.is(key, effect))
    }
}

impl Condition {
    fn read(condition: &Value) -> Condition {
        let text = |name: &str| condition.str_at(&[name]).unwrap_or("").to_owned();
        Condition {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            heartbeat: text("lastHeartbeatTime"),
            transition: text("lastTransitionTime"),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut condition = Map::default();
        for (name, value) in [
            ("type", &self.kind),
            ("status", &self.status),
            ("lastHeartbeatTime", &self.heartbeat),
            ("lastTransitionTime", &self.transition),
            ("reason", &self.reason),
            ("message", &self.message),
        ] {
            if !value.is_empty() {
                condition.set(name, value.clone());
            }
        }
        Value::Map(condition)
    }
}

impl Taint {
    pub fn new(key: &str, effect: &str) -> Taint {
        Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
    }
    pub fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
    pub fn same(&self, other: &Taint) -> bool {
        self.is(&other.key, &other.effect)
    }

    pub fn read(taint: &Value) -> Taint {
        let text = |name: &str| taint.str_at(&[name]).unwrap_or("").to_owned();
        Taint {
            key: text("key"),
            value: text("value"),
            effect: text("effect"),
            time_added: taint.str_at(&["timeAdded"]).map(str::to_owned),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut taint = Map::default();
        taint.set("key", self.key.clone());
        if !self.value.is_empty() {
            taint.set("value", self.value.clone());
        }
        taint.set("effect", self.effect.clone());
        if let Some(at) = &self.time_added {
            taint.set("timeAdded", at.clone());
        }
        Value::Map(taint)
    }
}
