//! Terms about other pods: pod affinity, pod anti-affinity, topology spread.

use std::sync::Arc;

use object::Value;
use object::selector::LabelSelector;

use crate::read::{Labels, int, label, list, strings, text};

/// Pods of some namespaces with some labels, counted over one topology.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    pub topology_key: String,
    /// Sorted.
    pub namespaces: Vec<String>,
    /// Selects nothing where absent, every namespace where empty.
    pub namespace_selector: LabelSelector,
    pub selector: LabelSelector,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    pub max_skew: i64,
    pub topology_key: Arc<str>,
    pub when: Unsatisfiable,
    pub selector: Arc<LabelSelector>,
    pub min_domains: i64,
    pub affinity_policy: Inclusion,
    pub taints_policy: Inclusion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsatisfiable {
    DoNotSchedule,
    ScheduleAnyway,
}

/// Whether nodes a pod could not go to count as places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inclusion {
    Honor,
    Ignore,
}

impl PodTerm {
    /// Whether a pod with these labels, in a namespace with those, is meant.
    pub fn matches(&self, namespace: &str, namespace_labels: &Labels, labels: &Labels) -> bool {
        self.in_namespace(namespace, namespace_labels) && matches(&self.selector, labels)
    }

    pub fn in_namespace(&self, namespace: &str, namespace_labels: &Labels) -> bool {
        self.namespaces.iter().any(|n| n == namespace) || matches(&self.namespace_selector, namespace_labels)
    }

    fn parse(value: &Value, own_namespace: &str) -> PodTerm {
        let mut namespaces = strings(value, "namespaces");
        let chooses = value.get("namespaceSelector").is_some_and(|v| !v.is_null());
        if namespaces.is_empty() && !chooses {
            namespaces.push(own_namespace.to_owned());
        }
        namespaces.sort_unstable();
        PodTerm {
            topology_key: text(value, "topologyKey").to_owned(),
            namespaces,
            namespace_selector: selector(value.get("namespaceSelector")),
            selector: selector(value.get("labelSelector")),
        }
    }
}

pub fn matches(selector: &LabelSelector, labels: &Labels) -> bool {
    selector.matches(&|key| label(labels, key))
}

/// A selector that cannot be read selects nothing; the API server lets none in.
pub fn selector(value: Option<&Value>) -> LabelSelector {
    LabelSelector::from_label_selector(value.unwrap_or(&Value::Null))
        .unwrap_or_else(|_| LabelSelector::nothing())
}

pub fn required(affinity: Option<&Value>, namespace: &str) -> Vec<Arc<PodTerm>> {
    let terms = list(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    terms.iter().map(|term| Arc::new(PodTerm::parse(term, namespace))).collect()
}

pub fn preferred(affinity: Option<&Value>, namespace: &str, sign: i64) -> Vec<(i64, Arc<PodTerm>)> {
    let terms = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution").iter();
    let parse = |term: &Value| {
        let weight = int(term, "weight").unwrap_or(0) * sign;
        Some((weight, Arc::new(PodTerm::parse(term.get("podAffinityTerm")?, namespace))))
    };
    terms.filter_map(parse).collect()
}

pub fn parse_constraint(value: &Value) -> Constraint {
    let policy = |name: &str, default: Inclusion| match text(value, name) {
        "Honor" => Inclusion::Honor,
        "Ignore" => Inclusion::Ignore,
        _ => default,
    };
    Constraint {
        max_skew: int(value, "maxSkew").unwrap_or(1),
        topology_key: text(value, "topologyKey").into(),
        when: match text(value, "whenUnsatisfiable") {
            "ScheduleAnyway" => Unsatisfiable::ScheduleAnyway,
            _ => Unsatisfiable::DoNotSchedule,
        },
        selector: Arc::new(selector(value.get("labelSelector"))),
        min_domains: int(value, "minDomains").unwrap_or(1),
        affinity_policy: policy("nodeAffinityPolicy", Inclusion::Honor),
        taints_policy: policy("nodeTaintsPolicy", Inclusion::Ignore),
    }
}
