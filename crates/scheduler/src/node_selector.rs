//! Node selectors: the terms by which a pod chooses nodes, required or preferred.

mod coded;

use object::Value;
use object::selector::{NodeSelector, NodeSelectorTerm};

pub use coded::{Chosen, Weighed};

use crate::node::Node;
use crate::read::{Labels, int, label, list, pairs};

/// What a pod requires of a node: its `nodeSelector` and its required node affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Required {
    pub labels: Vec<(String, String)>,
    pub affinity: Option<Terms>,
}

/// Terms of which one must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms(NodeSelector);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferred(Vec<(i64, NodeSelectorTerm)>);

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
        let terms = &self.affinity.as_ref()?.0.0;
        for term in terms {
            let mut wanted = term.names.iter().filter(|f| f.equal).map(|f| f.name.as_str());
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
    /// Reads a `NodeSelector`.
    pub fn parse(value: &Value) -> Terms {
        Terms(NodeSelector::parse(value))
    }
    pub fn matches(&self, node: &Node) -> bool {
        self.0.matches(&node.name, &|key| label(&node.labels, key))
    }
    /// As [`Terms::matches`], by what a volume sees of a node: its labels, and no name.
    pub fn matches_labels(&self, labels: &Labels) -> bool {
        self.0.matches("", &|key| label(labels, key))
    }
}

impl Preferred {
    /// Reads the preferred terms below a `nodeAffinity`.
    pub fn parse(node_affinity: Option<&Value>) -> Preferred {
        let terms = list(node_affinity, PREFERRED).iter().filter_map(|term| {
            let weight = int(term, "weight").filter(|w| *w != 0)?;
            Some((weight, NodeSelectorTerm::parse(term.get("preference")?)?))
        });
        Preferred(terms.collect())
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn score(&self, node: &Node) -> i64 {
        let holds = |term: &NodeSelectorTerm| term.matches(&node.name, &|key| label(&node.labels, key));
        self.0.iter().filter(|(_, term)| holds(term)).map(|(weight, _)| weight).sum()
    }
}

/// The required part of a `NodeAffinity` in the scheduler's configuration.
pub fn parse_added(node_affinity: &Value) -> (Option<Terms>, Preferred) {
    let required = node_affinity.get(REQUIRED).filter(|v| !v.is_null()).map(Terms::parse);
    (required, Preferred::parse(Some(node_affinity)))
}
