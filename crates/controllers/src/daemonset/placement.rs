//! Which nodes a set's pods belong on: the template's node name, node selector, required node affinity and tolerations.

use object::selector::NodeSelector;
use object::{Obj, Value};

use crate::nodelifecycle::node::{NO_EXECUTE, NO_SCHEDULE, Taint};
use crate::pods::mentions;
use crate::tainteviction::{Toleration, tolerations};

/// What a template asks of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    node_name: String,
    labels: Vec<(String, String)>,
    required: Option<NodeSelector>,
    tolerations: Vec<Toleration>,
}

/// What a node means to a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// A pod belongs there.
    pub run: bool,
    /// One that is there may stay.
    pub stay: bool,
}

/// The labels of a node, by name.
type Label<'a, 'n> = &'a dyn Fn(&str) -> Option<&'n str>;

/// The taints of a node, read once per revision.
struct Taints(Vec<Taint>);

impl Placement {
    /// Of a template that has its tolerations already.
    pub fn read(template: &Value) -> Placement {
        let labels = template.at(&["spec", "nodeSelector"]).and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        Placement {
            node_name: template.str_at(&["spec", "nodeName"]).unwrap_or("").to_owned(),
            labels: labels
                .filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned())))
                .collect(),
            required: NodeSelector::required_by(template),
            tolerations: tolerations(template),
        }
    }

    pub fn fit(&self, node: &Obj) -> Fit {
        let taints = node.view(Taints::read);
        self.fit_with(node.name(), &|name| node.label(name), &taints.0)
    }

    fn fit_with(&self, name: &str, label: Label<'_, '_>, taints: &[Taint]) -> Fit {
        let named = self.node_name.is_empty() || self.node_name == name;
        let labelled = self.labels.iter().all(|(key, value)| label(key) == Some(value));
        let wanted = self.required.as_ref().is_none_or(|required| required.matches(name, label));
        if !(named && labelled && wanted) {
            return Fit::default();
        }
        let stands = |effects: &[&str]| {
            let mut counted = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
            counted.all(|taint| self.tolerations.iter().any(|toleration| toleration.tolerates(taint)))
        };
        Fit { run: stands(&[NO_SCHEDULE, NO_EXECUTE]), stay: stands(&[NO_EXECUTE]) }
    }
}

impl Taints {
    fn read(node: &Obj) -> Taints {
        // Most nodes have none: that is seen without reading them.
        if !mentions(node.body(), "\"taints\"") {
            return Taints(Vec::new());
        }
        let tree = runtime::tree(node);
        let taints = tree.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default();
        Taints(taints.iter().map(Taint::read).collect())
    }
}

/// The node an unbound pod of a set was made for.
pub fn target(pod: &Value) -> Option<String> {
    let terms = NodeSelector::required_by(pod)?.0;
    // Made for several, it is made for none.
    terms.into_iter().flat_map(|term| term.names).find(|wanted| wanted.equal).map(|wanted| wanted.name)
}

#[cfg(test)]
impl Placement {
    pub fn fit_of(&self, node: &Value) -> Fit {
        let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default();
        let taints: Vec<Taint> = taints.iter().map(Taint::read).collect();
        let name = node.str_at(&["metadata", "name"]).unwrap_or("");
        self.fit_with(name, &|label| node.at(&["metadata", "labels"])?.str_at(&[label]), &taints)
    }
}
