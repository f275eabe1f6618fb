//! What an autoscaler says of itself: conditions, and what it measured.

use object::quantity::{Format, Quantity};
use object::{Map, Value};

use super::metrics::show_selector;
use super::replicas::Proposal;
use super::spec::{Metric, Source};
use crate::condition::Condition;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    pub current: i64,
    pub desired: i64,
    /// RFC 3339; empty: never scaled.
    pub last_scale: String,
    pub metrics: Vec<Value>,
    pub conditions: Vec<Condition>,
}

impl Status {
    pub fn read(hpa: &Value) -> Status {
        let Some(status) = hpa.get("status") else { return Status::default() };
        let number = |name: &str| status.get(name).and_then(Value::as_int).unwrap_or(0);
        Status {
            current: number("currentReplicas"),
            desired: number("desiredReplicas"),
            last_scale: status.str_at(&["lastScaleTime"]).unwrap_or("").to_owned(),
            metrics: status.get("currentMetrics").and_then(Value::as_list).unwrap_or_default().to_vec(),
            conditions: Condition::read_all(status),
        }
    }

    pub fn to_value(&self) -> Value {
        let mut status = Map::default();
        if !self.last_scale.is_empty() {
            status.set("lastScaleTime", self.last_scale.clone());
        }
        status.set("currentReplicas", self.current);
        status.set("desiredReplicas", self.desired);
        if !self.metrics.is_empty() {
            status.set("currentMetrics", Value::List(self.metrics.clone()));
        }
        Condition::write_all(&self.conditions, &mut status);
        Value::Map(status)
    }

    pub fn set(&mut self, kind: &str, yes: bool, reason: &str, message: impl Into<String>, now: i64) {
        let status = if yes { "True" } else { "False" };
        let new = Condition::new(kind, status, reason, message.into(), now);
        match self.conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(there) => {
                let changed =
                    if there.status == new.status { there.changed.clone() } else { new.changed.clone() };
                *there = Condition { changed, ..new };
            }
            None => self.conditions.push(new),
        }
    }
}

/// What was measured for a metric, and what to call it.
pub struct Measured {
    pub status: Value,
    pub name: String,
}

/// A metric without a value: it failed.
pub fn unmeasured() -> Value {
    let mut status = Value::map();
    status.make_map().set("type", "");
    status
}

pub fn measured(metric: &Metric, proposal: &Proposal) -> Measured {
    let plain = |value: i64| Quantity::from_milli(value, Format::DecimalSi).to_string();
    let mut current = Map::default();
    let mut body = Map::default();
    let (kind, field, name) = match &metric.source {
        Source::Resource { name, container } => {
            let format = if name == "memory" { Format::BinarySi } else { Format::DecimalSi };
            current.set("averageValue", Quantity::from_milli(proposal.value, format).to_string());
            let by_value = metric.target.average_value.is_some();
            if !by_value {
                current.set("averageUtilization", i64::from(proposal.utilization));
            }
            body.set("name", name.clone());
            let (kind, field, which) = match container {
                None => ("Resource", "resource", ""),
                Some(_) => ("ContainerResource", "containerResource", "container "),
            };
            body.set("current", current);
            if let Some(container) = container {
                body.set("container", container.clone());
            }
            let said = match by_value {
                true => format!("{name} resource"),
                false => format!("{name} {which}resource utilization (percentage of request)"),
            };
            (kind, field, said)
        }
        Source::Pods(id) => {
            body.set("metric", identifier(id));
            current.set("averageValue", plain(proposal.value));
            body.set("current", current);
            ("Pods", "pods", format!("pods metric {}", id.name))
        }
        Source::Object { described, metric: id } => {
            body.set("metric", identifier(id));
            let by_value = metric.target.kind == "Value";
            current.set(if by_value { "value" } else { "averageValue" }, plain(proposal.value));
            body.set("current", current);
            body.set("describedObject", described.clone());
            let said = match by_value {
                true => format!("{} metric {}", described.str_at(&["kind"]).unwrap_or(""), id.name),
                false => format!("external metric {}({})", id.name, show_selector(id.selector.as_ref())),
            };
            ("Object", "object", said)
        }
        Source::External(id) => {
            body.set("metric", identifier(id));
            let by_average = metric.target.average_value.is_some();
            current.set(if by_average { "averageValue" } else { "value" }, plain(proposal.value));
            body.set("current", current);
            let said = format!("external metric {}({})", id.name, show_selector(id.selector.as_ref()));
            ("External", "external", said)
        }
        Source::Unknown(_) => return Measured { status: unmeasured(), name: String::new() },
    };
    let mut status = Map::default();
    status.set("type", kind);
    status.set(field, body);
    Measured { status: Value::Map(status), name }
}

fn identifier(id: &super::spec::MetricId) -> Map {
    let mut metric = Map::default();
    metric.set("name", id.name.clone());
    if let Some(selector) = &id.selector {
        metric.set("selector", selector.clone());
    }
    metric
}
