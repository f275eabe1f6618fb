//! What a ResourceClaim asks for.

use std::sync::Arc;

use object::Value;
use object::quantity::Quantity;

use crate::read::{flag, int, list, members, present, quantity, shared, some_text, strings};
use crate::taint::Toleration;

#[derive(Debug)]
pub struct Claim {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub requests: Vec<Request>,
    pub constraints: Vec<Constraint>,
    pub config: Vec<ClaimConfig>,
}

#[derive(Debug)]
pub struct Request {
    pub name: Arc<str>,
    pub choice: Choice,
}

#[derive(Debug)]
pub enum Choice {
    Exactly(Wanted),
    /// The first that can be had.
    FirstAvailable(Vec<Wanted>),
    /// A kind of request that is not known here.
    Unknown,
}

/// Devices of one kind: a request, or one of those of which the first available is taken.
#[derive(Debug)]
pub struct Wanted {
    /// The name of the request, or of the subrequest within its request.
    pub name: Arc<str>,
    pub class: Arc<str>,
    pub selectors: Vec<Selector>,
    pub mode: Mode,
    pub count: i64,
    pub admin_access: Option<bool>,
    pub tolerations: Arc<[Toleration]>,
    /// How much of each capacity is wanted, by qualified name, sorted.
    pub capacity: Vec<(Arc<str>, Quantity)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    ExactCount,
    All,
    Other(Arc<str>),
}

#[derive(Clone, Debug)]
pub struct Selector {
    /// `None`: a kind of selector that is not known here.
    pub expression: Option<Arc<str>>,
}

#[derive(Debug)]
pub struct Constraint {
    /// Requests, or subrequests as `request/subrequest`; all without any.
    pub requests: Vec<Arc<str>>,
    pub kind: ConstraintKind,
}

/// What all devices of some requests must have, by the full name of an attribute.
#[derive(Debug)]
pub enum ConstraintKind {
    MatchAttribute(Arc<str>),
    DistinctAttribute(Arc<str>),
    /// A kind of constraint that is not known here.
    Unknown,
}

#[derive(Debug)]
pub struct ClaimConfig {
    /// As in a constraint.
    pub requests: Vec<Arc<str>>,
    pub configuration: Value,
}

impl Claim {
    pub fn parse(tree: &Value) -> Claim {
        let none = Value::Null;
        let devices = tree.at(&["spec", "devices"]).unwrap_or(&none);
        Claim {
            namespace: tree.str_at(&["metadata", "namespace"]).unwrap_or("").into(),
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            requests: list(devices, "requests").iter().map(Request::parse).collect(),
            constraints: list(devices, "constraints").iter().map(Constraint::parse).collect(),
            config: list(devices, "config").iter().map(ClaimConfig::parse).collect(),
        }
    }

    /// How messages call it.
    pub(crate) fn key(&self) -> String {
        match &*self.namespace {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

impl Request {
    fn parse(value: &Value) -> Request {
        let name = shared(value, "name");
        let choices = list(value, "firstAvailable");
        let choice = if !choices.is_empty() {
            Choice::FirstAvailable(
                choices.iter().map(|sub| Wanted::parse(sub, shared(sub, "name"))).collect(),
            )
        } else if let Some(exactly) = present(value, "exactly") {
            Choice::Exactly(Wanted::parse(exactly, name.clone()))
        } else {
            Choice::Unknown
        };
        Request { name, choice }
    }
}

impl Wanted {
    fn parse(value: &Value, name: Arc<str>) -> Wanted {
        Wanted {
            name,
            class: shared(value, "deviceClassName"),
            selectors: Selector::parse_all(value),
            mode: match value.get("allocationMode").and_then(Value::as_str) {
                Some("ExactCount") => Mode::ExactCount,
                Some("All") => Mode::All,
                other => Mode::Other(other.unwrap_or("").into()),
            },
            count: int(value, "count").unwrap_or(0),
            admin_access: flag(value, "adminAccess"),
            tolerations: list(value, "tolerations").iter().map(Toleration::parse).collect(),
            capacity: members(value.at(&["capacity", "requests"]), quantity),
        }
    }

    pub(crate) fn is_admin(&self) -> bool {
        self.admin_access == Some(true)
    }
}

impl Selector {
    pub(crate) fn parse_all(value: &Value) -> Vec<Selector> {
        let expression = |selector: &Value| present(selector, "cel").map(|cel| shared(cel, "expression"));
        let selectors = list(value, "selectors").iter();
        selectors.map(|selector| Selector { expression: expression(selector) }).collect()
    }
}

impl Constraint {
    fn parse(value: &Value) -> Constraint {
        let kind = if let Some(attribute) = some_text(value, "matchAttribute") {
            ConstraintKind::MatchAttribute(attribute)
        } else if let Some(attribute) = some_text(value, "distinctAttribute") {
            ConstraintKind::DistinctAttribute(attribute)
        } else {
            ConstraintKind::Unknown
        };
        Constraint { requests: strings(value, "requests"), kind }
    }
}

impl ClaimConfig {
    fn parse(value: &Value) -> ClaimConfig {
        let mut configuration = value.clone();
        configuration.make_map().remove("requests");
        ClaimConfig { requests: strings(value, "requests"), configuration }
    }
}
