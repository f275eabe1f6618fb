//! Node selectors: the terms by which a pod chooses nodes, required or preferred.

mod coded;

use object::Value;
use object::selector::{LabelOperator, LabelRequirement};

pub use coded::{Chosen, Weighed};

use crate::node::Node;
use crate::read::{Labels, int, label, list, pairs, strings, text};

/// What a pod requires of a node: its `nodeSelector` and its required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Required {
    pub labels: Vec<(String, String)>,
    pub affinity: Option<Terms>,
}

/// Terms of which one must hold. No term holds for no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms(Vec<Term>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferred(Vec<(i64, Term)>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Term {
    labels: Vec<LabelRequirement>,
    fields: Vec<NameRequirement>,
    /// A term that cannot be read holds for no node.
    broken: bool,
}

/// A requirement of `metadata.name`, the only field of a node that can be chosen by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct NameRequirement {
    name: String,
    equal: bool,
}

impl Required {
    pub fn parse(spec: Option<&Value>) -> Required {
        let labels = pairs(spec.and_then(|s| s.get("nodeSelector")));
        let affinity =
            spec.and_then(|s| s.at(&["affinity", "nodeAffinity", REQUIRED])).filter(|v| !v.is_null());
        Required {
            labels: labels.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            affinity: affinity.map(Terms::parse),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.affinity.is_none()
    }

    pub fn matches(&self, node: &Node) -> bool {
        self.labels.iter().all(|(key, value)| label(&node.labels, key) == Some(value))
            && self.affinity.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// The only nodes the affinity can hold for, when its terms name them.
    pub fn named_nodes(&self) -> Option<Vec<&str>> {
        let mut names: Vec<&str> = Vec::new();
        let terms = &self.affinity.as_ref()?.0;
        for term in terms {
            let mut wanted = term.fields.iter().filter(|f| f.equal).map(|f| f.name.as_str());
            let first = wanted.next()?;
            if wanted.all(|name| name == first) {
                names.push(first);
            }
        }
        if terms.is_empty() {
            return None;
        }
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

impl Terms {
    /// Reads a `NodeSelector`; empty terms select nothing and are left out.
    pub fn parse(value: &Value) -> Terms {
        Terms(list(Some(value), "nodeSelectorTerms").iter().filter_map(Term::parse).collect())
    }
    pub fn matches(&self, node: &Node) -> bool {
        self.0.iter().any(|term| term.matches(node))
    }
    /// As [`Terms::matches`], by what a volume sees of a node: its labels, and no name.
    pub fn matches_labels(&self, labels: &Labels) -> bool {
        self.0.iter().any(|term| term.matches_parts("", labels))
    }
}

impl Preferred {
    /// Reads the preferred terms below a `nodeAffinity`.
    pub fn parse(node_affinity: Option<&Value>) -> Preferred {
        let terms = list(node_affinity, PREFERRED).iter().filter_map(|term| {
            let weight = int(term, "weight").filter(|w| *w != 0)?;
            Some((weight, Term::parse(term.get("preference")?)?))
        });
        Preferred(terms.collect())
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn score(&self, node: &Node) -> i64 {
        self.0.iter().filter(|(_, term)| term.matches(node)).map(|(weight, _)| weight).sum()
    }
}

/// The required part of a `NodeAffinity` in the scheduler's configuration.
pub fn parse_added(node_affinity: &Value) -> (Option<Terms>, Preferred) {
    let required = node_affinity.get(REQUIRED).filter(|v| !v.is_null()).map(Terms::parse);
    (required, Preferred::parse(Some(node_affinity)))
}

impl Term {
    fn parse(value: &Value) -> Option<Term> {
        let (expressions, fields) = (list(Some(value), "matchExpressions"), list(Some(value), "matchFields"));
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let labels: Option<Vec<_>> = expressions.iter().map(requirement).collect();
        let fields: Option<Vec<_>> = fields.iter().map(name_requirement).collect();
        Some(match (labels, fields) {
            (Some(labels), Some(fields)) => Term { labels, fields, broken: false },
            _ => Term { labels: Vec::new(), fields: Vec::new(), broken: true },
        })
    }

    fn matches(&self, node: &Node) -> bool {
        self.matches_parts(&node.name, &node.labels)
    }

    fn matches_parts(&self, name: &str, labels: &Labels) -> bool {
        !self.broken
            && self.labels.iter().all(|r| r.matches(label(labels, &r.key)))
            && self.fields.iter().all(|f| (name == f.name) == f.equal)
    }
}

fn requirement(value: &Value) -> Option<LabelRequirement> {
    let operator = match text(value, "operator") {
        "In" => LabelOperator::In,
        "NotIn" => LabelOperator::NotIn,
        "Exists" => LabelOperator::Exists,
        "DoesNotExist" => LabelOperator::DoesNotExist,
        "Gt" => LabelOperator::GreaterThan,
        "Lt" => LabelOperator::LessThan,
        _ => return None,
    };
    Some(LabelRequirement { key: text(value, "key").to_owned(), operator, values: strings(value, "values") })
}

fn name_requirement(value: &Value) -> Option<NameRequirement> {
    let [name] = &strings(value, "values")[..] else { return None };
    let equal = match text(value, "operator") {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    (text(value, "key") == "metadata.name").then(|| NameRequirement { name: name.clone(), equal })
}
