//! A device: what it is, what it can be asked for, and what it costs its pool.

use std::sync::{Arc, OnceLock};

use cel::library::semver::Version;
use object::Value;
use object::quantity::Quantity;

use super::CounterSet;
use crate::node::NodeScope;
use crate::read::{find, flag, list, members, present, quantity, shared, strings};
use crate::selectors::Subject;
use crate::taint::Taint;

#[derive(Debug)]
pub struct Device {
    pub name: Arc<str>,
    /// By qualified name, sorted.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// By qualified name, sorted.
    pub capacity: Vec<(Arc<str>, Capacity)>,
    pub consumes_counters: Vec<CounterSet>,
    /// Counts where its slice leaves it to each device.
    pub node: NodeScope,
    pub taints: Vec<Taint>,
    pub binds_to_node: bool,
    /// Must be true before a pod is bound.
    pub binding_conditions: Vec<Arc<str>>,
    /// If one is true, the allocation failed.
    pub binding_failure_conditions: Vec<Arc<str>>,
    pub allow_multiple_allocations: bool,
    /// What selectors see; made for the first that looks.
    subject: OnceLock<Subject>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Int(i64),
    Bool(bool),
    Str(Arc<str>),
    /// A semantic version.
    Version(Arc<str>),
    /// Of a type that is not known here.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Capacity {
    pub value: Quantity,
    pub policy: Option<RequestPolicy>,
}

/// How requests of a part of a capacity are rounded, and which are refused.
#[derive(Clone, Debug, Default)]
pub struct RequestPolicy {
    /// What is consumed without a request.
    pub default: Option<Quantity>,
    pub valid_values: Vec<Quantity>,
    pub valid_range: Option<ValidRange>,
}

#[derive(Clone, Debug, Default)]
pub struct ValidRange {
    pub min: Option<Quantity>,
    pub max: Option<Quantity>,
    pub step: Option<Quantity>,
}

impl Device {
    pub fn parse(value: &Value) -> Device {
        Device {
            name: shared(value, "name"),
            attributes: members(value.get("attributes"), Attribute::parse),
            capacity: members(value.get("capacity"), Capacity::parse),
            consumes_counters: CounterSet::parse_all(value, "consumesCounters", "counterSet"),
            node: NodeScope::parse(value),
            taints: Taint::parse_all(value),
            binds_to_node: flag(value, "bindsToNode") == Some(true),
            binding_conditions: strings(value, "bindingConditions"),
            binding_failure_conditions: strings(value, "bindingFailureConditions"),
            allow_multiple_allocations: flag(value, "allowMultipleAllocations") == Some(true),
            subject: OnceLock::new(),
        }
    }

    pub(crate) fn subject(&self, driver: &Arc<str>) -> &Subject {
        self.subject.get_or_init(|| Subject::new(driver, self))
    }

    /// An attribute by its full name. The domain may be left out of names of the driver's own domain.
    pub(crate) fn attribute(&self, full_name: &str, driver: &str) -> Option<&Attribute> {
        if let Some(attribute) = find(&self.attributes, full_name) {
            return Some(attribute);
        }
        let (domain, id) = full_name.split_once('/')?;
        if domain == driver { find(&self.attributes, id) } else { None }
    }
}

impl Attribute {
    fn parse(value: &Value) -> Attribute {
        if let Some(int) = value.get("int").and_then(Value::as_int) {
            Attribute::Int(int)
        } else if let Some(bool) = flag(value, "bool") {
            Attribute::Bool(bool)
        } else if let Some(text) = value.get("string").and_then(Value::as_str) {
            Attribute::Str(text.into())
        } else if let Some(text) = value.get("version").and_then(Value::as_str) {
            Attribute::Version(text.into())
        } else {
            Attribute::Unknown
        }
    }

    /// What selectors see of it.
    pub(crate) fn value(&self) -> Result<cel::Val<'static>, String> {
        Ok(match self {
            Attribute::Int(int) => cel::Val::Int(*int),
            Attribute::Bool(bool) => cel::Val::Bool(*bool),
            Attribute::Str(text) => cel::Val::string(Arc::clone(text)),
            Attribute::Version(text) => {
                let version =
                    Version::parse(text).map_err(|error| format!("parse semantic version: {error}"))?;
                cel::Val::opaque(version)
            }
            Attribute::Unknown => return Err("unsupported attribute value".to_owned()),
        })
    }
}

impl Capacity {
    fn parse(value: &Value) -> Capacity {
        Capacity {
            value: value.get("value").map_or(Quantity::ZERO, quantity),
            policy: present(value, "requestPolicy").map(RequestPolicy::parse),
        }
    }
}

impl RequestPolicy {
    fn parse(value: &Value) -> RequestPolicy {
        let bound = |range: &Value, name| present(range, name).map(quantity);
        RequestPolicy {
            default: bound(value, "default"),
            valid_values: list(value, "validValues").iter().map(quantity).collect(),
            valid_range: present(value, "validRange").map(|range| ValidRange {
                min: bound(range, "min"),
                max: bound(range, "max"),
                step: bound(range, "step"),
            }),
        }
    }
}
