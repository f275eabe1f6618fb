//! Horizontal pod autoscalers, each version its own: v1 names its metric in conversion, which sees the annotations.

use catalog::Name;
use object::{Map, Value};

use crate::defaults::fill::Literal::{Int, Text};
use crate::defaults::fill::{Default, at, fill, inside, is_empty, is_set, pointer};

const SPEC: &[Default] = &[pointer("minReplicas", Int(1))];
const UP: &[Default] = &[pointer("stabilizationWindowSeconds", Int(0)), pointer("selectPolicy", Text("Max"))];
/// How long to wait before scaling down is a flag of the controller.
const DOWN: &[Default] = &[pointer("selectPolicy", Text("Max"))];
/// Of the use of what a pod requests.
const CPU_PERCENT: i64 = 80;
const PERIOD_SECONDS: i64 = 15;

pub(crate) fn apply_v1(autoscaler: &mut Map) {
    if let Some(spec) = inside(autoscaler, "spec") {
        fill(spec, SPEC);
    }
}

pub(crate) fn apply_v2(autoscaler: &mut Map) {
    let Some(spec) = inside(autoscaler, "spec") else { return };
    fill(spec, SPEC);
    if is_empty(spec, "metrics") {
        spec.set("metrics", vec![cpu()]);
    }
    let Some(behavior) = at(spec, "behavior") else { return };
    rules(behavior, "scaleUp", UP, &[("Pods", 4), ("Percent", 100)]);
    rules(behavior, "scaleDown", DOWN, &[("Percent", 100)]);
}

fn rules(behavior: &mut Map, name: &'static str, defaults: &[Default], policies: &[(&'static str, i64)]) {
    let Some(rules) = inside(behavior, name) else { return };
    fill(rules, defaults);
    if !is_set(rules, "policies") {
        let policies = policies.iter().map(|(kind, value)| {
            structure([
                ("type", Value::from(*kind)),
                ("value", Value::Int(*value)),
                ("periodSeconds", Value::Int(PERIOD_SECONDS)),
            ])
        });
        rules.set("policies", Value::List(policies.collect()));
    }
}

fn cpu() -> Value {
    let target =
        structure([("type", Value::from("Utilization")), ("averageUtilization", Value::Int(CPU_PERCENT))]);
    let resource = structure([("name", Value::from("cpu")), ("target", target)]);
    structure([("type", Value::from("Resource")), ("resource", resource)])
}

fn structure<const N: usize>(members: [(&'static str, Value); N]) -> Value {
    Value::Map(members.into_iter().map(|(name, value)| (Name::Static(name), value)).collect())
}
