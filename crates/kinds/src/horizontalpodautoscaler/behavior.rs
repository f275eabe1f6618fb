//! Scaling behaviour in v1's annotation: upstream writes its internal type there, with Go's names and explicit nulls.

use object::{Map, Value};

const RULES: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
const RULE: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

pub(super) fn to_v1(behavior: &Value) -> Value {
    let rule = |rule: &Value| {
        go_names(rule, &RULE, |name, value| match (name, value) {
            ("policies", Value::List(policies)) => {
                Value::List(policies.iter().map(|p| go_names(p, &POLICY, |_, v| v.clone())).collect())
            }
            (_, value) => value.clone(),
        })
    };
    go_names(behavior, &RULES, |_, value| rule(value))
}

/// `None` when there is nothing in it.
pub(super) fn to_v2(behavior: &Value) -> Option<Value> {
    let rule = |rule: &Value| {
        json_names(rule, &RULE, |name, value| match (name, value) {
            ("policies", Value::List(policies)) => {
                Value::List(policies.iter().map(|p| json_names(p, &POLICY, |_, v| v.clone())).collect())
            }
            (_, value) => value.clone(),
        })
    };
    let converted = json_names(behavior, &RULES, |_, value| rule(value));
    Some(converted).filter(|b| b.as_map().is_some_and(|m| !m.is_empty()))
}

fn go_names(
    from: &Value,
    names: &[(&'static str, &'static str)],
    convert: impl Fn(&str, &Value) -> Value,
) -> Value {
    let mut out = Map::default();
    for (go, json) in names {
        let value = from.get(json).filter(|v| !v.is_null());
        out.set(*go, value.map_or(Value::Null, |v| convert(json, v)));
    }
    Value::Map(out)
}

/// Go reads member names in any case.
fn json_names(
    from: &Value,
    names: &[(&'static str, &'static str)],
    convert: impl Fn(&str, &Value) -> Value,
) -> Value {
    let mut out = Map::default();
    for (name, value) in from.as_map().into_iter().flat_map(|m| m.iter()) {
        let known = names.iter().find(|(go, _)| go.eq_ignore_ascii_case(name));
        if let Some((_, json)) = known.filter(|_| !value.is_null()) {
            out.set(*json, convert(json, value));
        }
    }
    Value::Map(out)
}
