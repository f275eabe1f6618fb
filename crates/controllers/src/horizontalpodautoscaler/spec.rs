//! A HorizontalPodAutoscaler as it is written down.

use object::Value;
use object::quantity::Quantity;

/// What to scale, how far, and by what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spec {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub min: i32,
    pub max: i32,
    pub metrics: Vec<Metric>,
    pub behavior: Option<Behavior>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub source: Source,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    Resource {
        name: String,
        /// Of this container alone.
        container: Option<String>,
    },
    Pods(MetricId),
    Object {
        described: Value,
        metric: MetricId,
    },
    External(MetricId),
    Unknown(String),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricId {
    pub name: String,
    pub selector: Option<Value>,
}

/// Amounts in thousandths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    pub kind: String,
    pub value: Option<i64>,
    pub average_value: Option<i64>,
    /// In percent of what is requested.
    pub average_utilization: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    pub up: Rules,
    pub down: Rules,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub window_seconds: Option<i64>,
    pub select: Select,
    pub policies: Vec<Policy>,
    pub tolerance: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Select {
    /// The largest change any policy allows.
    #[default]
    Max,
    Min,
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub is_percent: bool,
    pub value: i32,
    pub period_seconds: i64,
}

impl Spec {
    pub fn read(hpa: &Value) -> Spec {
        let spec = hpa.get("spec");
        let reference = |name: &str| text(spec, &["scaleTargetRef", name]);
        let list = spec.and_then(|spec| spec.get("metrics")).and_then(Value::as_list).unwrap_or_default();
        Spec {
            api_version: reference("apiVersion"),
            kind: reference("kind"),
            name: reference("name"),
            min: int(spec, "minReplicas").map_or(1, clamp),
            max: int(spec, "maxReplicas").map_or(0, clamp),
            metrics: list.iter().map(Metric::read).collect(),
            behavior: spec.and_then(|spec| spec.get("behavior")).filter(|b| !b.is_null()).map(|behavior| {
                Behavior {
                    up: Rules::read(behavior.get("scaleUp")),
                    down: Rules::read(behavior.get("scaleDown")),
                }
            }),
        }
    }
}

impl Metric {
    fn read(metric: &Value) -> Metric {
        let kind = metric.str_at(&["type"]).unwrap_or("");
        let field = match kind {
            "Resource" => "resource",
            "ContainerResource" => "containerResource",
            "Pods" => "pods",
            "Object" => "object",
            _ => "external",
        };
        let body = metric.get(field);
        let id = || MetricId {
            name: text(body, &["metric", "name"]),
            selector: body
                .and_then(|body| body.at(&["metric", "selector"]))
                .filter(|s| !s.is_null())
                .cloned(),
        };
        let source = match kind {
            "Resource" => Source::Resource { name: text(body, &["name"]), container: None },
            "ContainerResource" => {
                Source::Resource { name: text(body, &["name"]), container: Some(text(body, &["container"])) }
            }
            "Pods" => Source::Pods(id()),
            "Object" => {
                let described = body.and_then(|body| body.get("describedObject")).cloned();
                Source::Object { described: described.unwrap_or_else(Value::map), metric: id() }
            }
            "External" => Source::External(id()),
            other => Source::Unknown(other.to_owned()),
        };
        let target = body.and_then(|body| body.get("target"));
        let quantity = |name: &str| {
            let text = target.and_then(|target| target.str_at(&[name]))?;
            Some(Quantity::parse(text).ok()?.as_milli())
        };
        let target = Target {
            kind: text(target, &["type"]),
            value: quantity("value"),
            average_value: quantity("averageValue"),
            average_utilization: int(target, "averageUtilization").map(clamp),
        };
        Metric { source, target }
    }
}

impl Rules {
    fn read(rules: Option<&Value>) -> Rules {
        let list = rules.and_then(|rules| rules.get("policies")).and_then(Value::as_list).unwrap_or_default();
        let policy = |policy: &Value| Policy {
            is_percent: policy.str_at(&["type"]) == Some("Percent"),
            value: int(Some(policy), "value").map_or(0, clamp),
            period_seconds: int(Some(policy), "periodSeconds").unwrap_or(0),
        };
        let tolerance = rules.and_then(|rules| rules.str_at(&["tolerance"]));
        Rules {
            window_seconds: int(rules, "stabilizationWindowSeconds"),
            select: match rules.and_then(|rules| rules.str_at(&["selectPolicy"])) {
                Some("Min") => Select::Min,
                Some("Disabled") => Select::Disabled,
                _ => Select::Max,
            },
            policies: list.iter().map(policy).collect(),
            tolerance: tolerance.and_then(|text| Quantity::parse(text).ok()).map(|quantity| {
                let (mantissa, scale) = quantity.parts();
                mantissa as f64 * 10f64.powi(scale)
            }),
        }
    }
}

fn text(value: Option<&Value>, path: &[&str]) -> String {
    value.and_then(|value| value.str_at(path)).unwrap_or("").to_owned()
}

fn int(value: Option<&Value>, name: &str) -> Option<i64> {
    value.and_then(|value| value.get(name)).and_then(Value::as_int)
}

pub fn clamp(number: i64) -> i32 {
    number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
