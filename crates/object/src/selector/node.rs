//! Node selectors: the terms by which pods and volumes choose nodes.

use super::{LabelOperator, LabelRequirement};
use crate::Value;

/// Terms of which one must hold. No term holds for no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector(pub Vec<NodeSelectorTerm>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    pub labels: Vec<LabelRequirement>,
    pub names: Vec<NodeNameRequirement>,
    /// A term that cannot be read holds for no node.
    pub broken: bool,
}

/// A requirement of `metadata.name`, the only field of a node that can be chosen by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeNameRequirement {
    pub name: String,
    pub equal: bool,
}

impl NodeSelector {
    /// Reads a `NodeSelector`; empty terms select nothing and are left out.
    pub fn parse(selector: &Value) -> NodeSelector {
        let terms = list(selector, "nodeSelectorTerms");
        NodeSelector(terms.iter().filter_map(NodeSelectorTerm::parse).collect())
    }

    /// What a pod requires of its node beside `nodeSelector`; `None`: nothing.
    pub fn required_by(pod: &Value) -> Option<NodeSelector> {
        let path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        pod.at(&path).filter(|required| !required.is_null()).map(NodeSelector::parse)
    }

    pub fn matches<'n>(&self, name: &str, label: &dyn Fn(&str) -> Option<&'n str>) -> bool {
        self.0.iter().any(|term| term.matches(name, label))
    }
}

impl NodeSelectorTerm {
    /// `None` where it says nothing.
    pub fn parse(term: &Value) -> Option<NodeSelectorTerm> {
        let (expressions, fields) = (list(term, "matchExpressions"), list(term, "matchFields"));
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let labels: Option<Vec<_>> = expressions.iter().map(requirement).collect();
        let names: Option<Vec<_>> = fields.iter().map(NodeNameRequirement::parse).collect();
        Some(match (labels, names) {
            (Some(labels), Some(names)) => NodeSelectorTerm { labels, names, broken: false },
            _ => NodeSelectorTerm { labels: Vec::new(), names: Vec::new(), broken: true },
        })
    }

    pub fn matches<'n>(&self, name: &str, label: &dyn Fn(&str) -> Option<&'n str>) -> bool {
        !self.broken
            && self.labels.iter().all(|requirement| requirement.matches(label(&requirement.key)))
            && self.names.iter().all(|wanted| (name == wanted.name) == wanted.equal)
    }
}

impl NodeNameRequirement {
    fn parse(field: &Value) -> Option<NodeNameRequirement> {
        let [name] = &strings(field)[..] else { return None };
        let equal = match text(field, "operator") {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        (text(field, "key") == "metadata.name").then(|| NodeNameRequirement { name: name.clone(), equal })
    }
}

fn requirement(expression: &Value) -> Option<LabelRequirement> {
    let operator = match text(expression, "operator") {
        "In" => LabelOperator::In,
        "NotIn" => LabelOperator::NotIn,
        "Exists" => LabelOperator::Exists,
        "DoesNotExist" => LabelOperator::DoesNotExist,
        "Gt" => LabelOperator::GreaterThan,
        "Lt" => LabelOperator::LessThan,
        _ => return None,
    };
    Some(LabelRequirement { key: text(expression, "key").to_owned(), operator, values: strings(expression) })
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_list).unwrap_or_default()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.str_at(&[name]).unwrap_or("")
}

fn strings(requirement: &Value) -> Vec<String> {
    list(requirement, "values").iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
