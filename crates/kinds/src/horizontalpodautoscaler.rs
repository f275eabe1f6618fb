//! Horizontal pod autoscalers: stored as autoscaling/v2; v1 carries the other fields in annotations.
//!
//! ```text
//! v1: targetCPUUtilizationPercentage · annotations metrics, current-metrics, behavior, conditions (JSON)
//!                       ⇅
//! v2: spec.metrics · status.currentMetrics · spec.behavior · status.conditions
//! ```

mod behavior;
mod columns;
mod defaults;
mod metrics;
mod validation;

#[cfg(test)]
mod tests;

use catalog::Resource;
use object::{Map, Status, Value};

use crate::check::Errors;
use crate::columns::Printer;
use crate::kind::{Defaults, Kind};
use crate::rules::{Rules, StatusMeta};
use crate::strategy::map_mut;
use crate::write::Write;

pub(crate) struct HorizontalPodAutoscaler;
pub(crate) static KIND: HorizontalPodAutoscaler = HorizontalPodAutoscaler;

const RULES: Rules = Rules::PLAIN.with_status(StatusMeta::Free);

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const SCALE_DOWN_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-down-tolerance";
const SCALE_UP_TOLERANCE: &str = "autoscaling.alpha.kubernetes.io/scale-up-tolerance";
const ROUND_TRIP: [&str; 6] =
    [METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR, SCALE_DOWN_TOLERANCE, SCALE_UP_TOLERANCE];

/// The default of v1 if there is no metric at all.
const DEFAULT_CPU_PERCENT: i64 = 80;

impl Kind for HorizontalPodAutoscaler {
    fn rules(&self) -> &Rules {
        &RULES
    }

    fn defaults(&self, version: &str) -> Option<&Defaults> {
        match version {
            "v1" => Some(&defaults::apply_v1),
            "v2" => Some(&defaults::apply_v2),
            _ => None,
        }
    }

    fn printer(&self, _version: &str) -> &dyn Printer {
        &columns::PRINTER
    }

    fn to_storage(&self, value: &mut Value, from: &Resource) -> Result<(), Status> {
        if from.version == "v1" {
            v1_to_v2(value);
        }
        drop_round_trip_annotations(value);
        Ok(())
    }

    fn reencoded(&self, value: &Value, resource: &Resource) -> Option<Value> {
        let mut value = value.clone();
        if resource.version == "v1" {
            v1_to_v2(&mut value);
            v2_to_v1(&mut value);
        } else {
            drop_round_trip_annotations(&mut value);
        }
        Some(value)
    }

    fn check(&self, write: &Write<'_>, errors: &mut Errors) {
        validation::check(write, errors);
    }

    fn from_storage(&self, value: &mut Value, to: &Resource) {
        if to.version == "v1" {
            v2_to_v1(value);
        }
    }
}

fn v1_to_v2(hpa: &mut Value) {
    hpa.make_map().set("apiVersion", "autoscaling/v2");
    let annotation = |hpa: &Value, name: &str| {
        let text = hpa.str_at(&["metadata", "annotations", name])?;
        codec::json::parse(text.as_bytes(), None).ok()
    };
    let mut specs: Vec<Value> = match annotation(hpa, METRICS) {
        Some(Value::List(list)) => list.iter().map(|m| metrics::to_v2(m, metrics::SPECS)).collect(),
        _ => Vec::new(),
    };
    let percent = hpa.map_at(&["spec"]).remove("targetCPUUtilizationPercentage").and_then(|p| p.as_int());
    let default = if specs.is_empty() { Some(DEFAULT_CPU_PERCENT) } else { None };
    if let Some(percent) = percent.or(default) {
        specs.push(metrics::cpu("target", percent));
    }
    hpa.map_at(&["spec"]).set("metrics", specs);
    if let Some(behavior) = annotation(hpa, BEHAVIOR).as_ref().and_then(behavior::to_v2) {
        hpa.map_at(&["spec"]).set("behavior", behavior);
    }
    let percent = map_mut(hpa, &["status"]).and_then(|s| s.remove("currentCPUUtilizationPercentage"));
    // The annotation is more specific than the field.
    let current = match annotation(hpa, CURRENT_METRICS) {
        Some(Value::List(list)) => Some(list.iter().map(|m| metrics::to_v2(m, metrics::STATUSES)).collect()),
        _ => percent.and_then(|p| p.as_int()).map(|p| vec![metrics::cpu("current", p)]),
    };
    if let Some(current) = current {
        hpa.map_at(&["status"]).set("currentMetrics", current);
    }
    if let Some(conditions @ Value::List(_)) = annotation(hpa, CONDITIONS) {
        hpa.map_at(&["status"]).set("conditions", conditions);
    }
}

fn v2_to_v1(hpa: &mut Value) {
    drop_round_trip_annotations(hpa);
    hpa.make_map().set("apiVersion", "autoscaling/v1");
    let taken = |hpa: &mut Value, parent: &'static str, member: &str| {
        map_mut(hpa, &[parent]).and_then(|m| m.remove(member)).filter(|v| !v.is_null())
    };
    if let Some(Value::List(specs)) = taken(hpa, "spec", "metrics") {
        let percents: Vec<Option<i64>> = specs.iter().map(|m| metrics::cpu_percent(m, "target")).collect();
        if let Some(percent) = percents.iter().flatten().next() {
            hpa.map_at(&["spec"]).set("targetCPUUtilizationPercentage", *percent);
        }
        let others = specs.iter().zip(&percents).filter(|(_, percent)| percent.is_none());
        let others: Vec<Value> = others.map(|(m, _)| metrics::to_v1(m, metrics::SPECS)).collect();
        annotate(hpa, METRICS, Value::List(others));
    }
    if let Some(Value::List(current)) = taken(hpa, "status", "currentMetrics") {
        if let Some(percent) = current.iter().filter_map(|m| metrics::cpu_percent(m, "current")).next_back() {
            hpa.map_at(&["status"]).set("currentCPUUtilizationPercentage", percent);
        }
        let all = current.iter().map(|m| metrics::to_v1(m, metrics::STATUSES)).collect();
        annotate(hpa, CURRENT_METRICS, Value::List(all));
    }
    if let Some(behavior) = taken(hpa, "spec", "behavior") {
        annotate(hpa, BEHAVIOR, behavior::to_v1(&behavior));
    }
    if let Some(conditions) = taken(hpa, "status", "conditions") {
        annotate(hpa, CONDITIONS, conditions);
    }
}

fn annotate(hpa: &mut Value, name: &'static str, value: Value) {
    if value.as_list().is_some_and(<[Value]>::is_empty) {
        return;
    }
    let text = String::from_utf8(codec::json::to_vec(&value)).unwrap_or_default();
    hpa.map_at(&["metadata", "annotations"]).set(name, text);
}

fn drop_round_trip_annotations(hpa: &mut Value) {
    if let Some(annotations) = map_mut(hpa, &["metadata", "annotations"]) {
        annotations.retain(|name, _| !ROUND_TRIP.contains(&&**name));
    }
}

/// A map of one member.
fn single(name: &'static str, value: impl Into<Value>) -> Value {
    let mut map = Map::default();
    map.set(name, value);
    Value::Map(map)
}
