//! Metrics, in v1's annotations and in v2's fields.

use object::quantity::Quantity;
use object::{Map, Value};

use super::single;

/// One source of metrics and its fields in each version, in v1's order.
pub(super) struct Source {
    member: &'static str,
    parts: &'static [Part],
    /// How v2 names the kind of target this is; statuses have none.
    target: fn(&Value) -> Option<&'static str>,
}

struct Part {
    v1: &'static str,
    v2: &'static [&'static str],
    /// v1 cannot omit it: the value it has then.
    zero: Option<&'static str>,
}

const fn part(v1: &'static str, v2: &'static [&'static str]) -> Part {
    Part { v1, v2, zero: None }
}
const fn always(v1: &'static str, v2: &'static [&'static str], zero: &'static str) -> Part {
    Part { v1, v2, zero: Some(zero) }
}

pub(super) const SPECS: &[Source] = &[
    Source {
        member: "object",
        parts: &[
            part("target", &["describedObject"]),
            always("metricName", &["metric", "name"], ""),
            always("targetValue", &["target", "value"], "0"),
            part("selector", &["metric", "selector"]),
            part("averageValue", &["target", "averageValue"]),
        ],
        target: |v1| Some(if has(v1, "averageValue") { "AverageValue" } else { "Value" }),
    },
    Source {
        member: "pods",
        parts: &[
            always("metricName", &["metric", "name"], ""),
            always("targetAverageValue", &["target", "averageValue"], "0"),
            part("selector", &["metric", "selector"]),
        ],
        target: |_| Some("AverageValue"),
    },
    Source {
        member: "resource",
        parts: &[
            always("name", &["name"], ""),
            part("targetAverageUtilization", &["target", "averageUtilization"]),
            part("targetAverageValue", &["target", "averageValue"]),
        ],
        target: utilization_or_average,
    },
    Source {
        member: "containerResource",
        parts: &[
            always("name", &["name"], ""),
            part("targetAverageUtilization", &["target", "averageUtilization"]),
            part("targetAverageValue", &["target", "averageValue"]),
            always("container", &["container"], ""),
        ],
        target: utilization_or_average,
    },
    Source {
        member: "external",
        parts: &[
            always("metricName", &["metric", "name"], ""),
            part("metricSelector", &["metric", "selector"]),
            part("targetValue", &["target", "value"]),
            part("targetAverageValue", &["target", "averageValue"]),
        ],
        target: |v1| Some(if has(v1, "targetValue") { "Value" } else { "AverageValue" }),
    },
];

pub(super) const STATUSES: &[Source] = &[
    Source {
        member: "object",
        parts: &[
            part("target", &["describedObject"]),
            always("metricName", &["metric", "name"], ""),
            always("currentValue", &["current", "value"], "0"),
            part("selector", &["metric", "selector"]),
            part("averageValue", &["current", "averageValue"]),
        ],
        target: |_| None,
    },
    Source {
        member: "pods",
        parts: &[
            always("metricName", &["metric", "name"], ""),
            always("currentAverageValue", &["current", "averageValue"], "0"),
            part("selector", &["metric", "selector"]),
        ],
        target: |_| None,
    },
    Source {
        member: "resource",
        parts: &[
            always("name", &["name"], ""),
            part("currentAverageUtilization", &["current", "averageUtilization"]),
            always("currentAverageValue", &["current", "averageValue"], "0"),
        ],
        target: |_| None,
    },
    Source {
        member: "containerResource",
        parts: &[
            always("name", &["name"], ""),
            part("currentAverageUtilization", &["current", "averageUtilization"]),
            always("currentAverageValue", &["current", "averageValue"], "0"),
            always("container", &["container"], ""),
        ],
        target: |_| None,
    },
    Source {
        member: "external",
        parts: &[
            always("metricName", &["metric", "name"], ""),
            part("metricSelector", &["metric", "selector"]),
            always("currentValue", &["current", "value"], "0"),
            part("currentAverageValue", &["current", "averageValue"]),
        ],
        target: |_| None,
    },
];

pub(super) fn to_v1(metric: &Value, sources: &[Source]) -> Value {
    let mut out = single("type", metric.str_at(&["type"]).unwrap_or_default());
    for source in sources {
        let Some(from) = metric.get(source.member).filter(|v| !v.is_null()) else { continue };
        let mut to = Map::default();
        for part in source.parts {
            match (from.at(part.v2).filter(|v| !v.is_null()), part.zero) {
                (Some(value), _) => to.set(part.v1, value.clone()),
                (None, Some(zero)) => to.set(part.v1, zero),
                (None, None) => {}
            }
        }
        out.make_map().set(source.member, to);
    }
    out
}

pub(super) fn to_v2(metric: &Value, sources: &[Source]) -> Value {
    let mut out = single("type", metric.str_at(&["type"]).unwrap_or_default());
    for source in sources {
        let Some(from) = metric.get(source.member).filter(|v| !v.is_null()) else { continue };
        let mut to = Value::map();
        for part in source.parts {
            if let (Some(value), [parents @ .., last]) = (from.get(part.v1).filter(|v| !v.is_null()), part.v2)
            {
                to.map_at(parents).set(*last, value.clone());
            }
        }
        if let Some(kind) = (source.target)(from) {
            to.map_at(&["target"]).set("type", kind);
            // v1 writes "0" beside an average because it cannot omit the value.
            let empty = to
                .str_at(&["target", "value"])
                .and_then(|q| Quantity::parse(q).ok())
                .is_some_and(|q| q.is_zero());
            if source.member == "object" && kind == "AverageValue" && empty {
                to.map_at(&["target"]).remove("value");
            }
        }
        out.make_map().set(source.member, to);
    }
    out
}

/// The metric v1 has a field of its own for. `part` is `target` or `current`.
pub(super) fn cpu(part: &'static str, percent: i64) -> Value {
    let mut resource = single("name", "cpu");
    if part == "target" {
        resource.map_at(&["target"]).set("type", "Utilization");
    }
    resource.map_at(&[part]).set("averageUtilization", percent);
    let mut metric = single("type", "Resource");
    metric.make_map().set("resource", resource);
    metric
}

/// The percentage, if this is that metric.
pub(super) fn cpu_percent(metric: &Value, part: &str) -> Option<i64> {
    let is_cpu =
        metric.str_at(&["type"]) == Some("Resource") && metric.str_at(&["resource", "name"]) == Some("cpu");
    metric.at(&["resource", part, "averageUtilization"]).and_then(Value::as_int).filter(|_| is_cpu)
}

fn utilization_or_average(v1: &Value) -> Option<&'static str> {
    Some(if has(v1, "targetAverageUtilization") { "Utilization" } else { "AverageValue" })
}

fn has(v1: &Value, member: &str) -> bool {
    v1.get(member).is_some_and(|v| !v.is_null())
}
