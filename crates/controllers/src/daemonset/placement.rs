//! Which nodes a set's pods belong on: the template's node name, node selector, required node affinity and tolerations.

use object::{Obj, Value};

use crate::nodelifecycle::node::{NO_EXECUTE, NO_SCHEDULE, Taint};
use crate::pods::mentions;
use crate::tainteviction::{Toleration, tolerations};

/// What a template asks of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    node_name: String,
    labels: Vec<(String, String)>,
    /// One of them is enough; `None`: nothing is asked.
    terms: Option<Vec<Term>>,
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

#[derive(Clone, Debug, Default, PartialEq)]
struct Term {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// The labels of a node, by name.
type Label<'a, 'n> = &'a dyn Fn(&str) -> Option<&'n str>;

/// The taints of a node, read once per revision.
struct Taints(Vec<Taint>);

const TERMS: [&str; 5] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];

impl Placement {
    /// Of a template that has its tolerations already.
    pub fn read(template: &Value) -> Placement {
        let labels = template.at(&["spec", "nodeSelector"]).and_then(Value::as_map);
        let labels = labels.into_iter().flat_map(|labels| labels.iter());
        let terms = template.at(&TERMS[..4]).filter(|required| !required.is_null());
        Placement {
            node_name: template.str_at(&["spec", "nodeName"]).unwrap_or("").to_owned(),
            labels: labels
                .filter_map(|(name, value)| Some((name.to_string(), value.as_str()?.to_owned())))
                .collect(),
            terms: terms.map(|required| {
                let terms = required.get(TERMS[4]).and_then(Value::as_list).unwrap_or_default();
                terms.iter().map(Term::read).collect()
            }),
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
        let wanted =
            self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(name, label)));
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

impl Term {
    fn read(term: &Value) -> Term {
        let list = |name: &str| {
            let list = term.get(name).and_then(Value::as_list).unwrap_or_default();
            list.iter().map(Requirement::read).collect()
        };
        Term { labels: list("matchExpressions"), fields: list("matchFields") }
    }

    /// A term that says nothing matches nothing.
    fn matches(&self, name: &str, label: Label<'_, '_>) -> bool {
        !(self.labels.is_empty() && self.fields.is_empty())
            && self.labels.iter().all(|r| r.meets(label(&r.key)))
            && self.fields.iter().all(|r| r.key == "metadata.name" && r.meets(Some(name)))
    }
}

impl Requirement {
    fn read(requirement: &Value) -> Requirement {
        let text = |name: &str| requirement.str_at(&[name]).unwrap_or("").to_owned();
        let values = requirement.get("values").and_then(Value::as_list).unwrap_or_default();
        let values = values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect();
        Requirement { key: text("key"), operator: text("operator"), values }
    }

    fn meets(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|v| v == value);
        let numbers = || {
            let wanted: i64 = self.values.first()?.parse().ok()?;
            Some((value?.parse::<i64>().ok()?, wanted))
        };
        match self.operator.as_str() {
            "In" => value.is_some_and(listed),
            "NotIn" => !value.is_some_and(listed),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => numbers().is_some_and(|(there, wanted)| there > wanted),
            "Lt" => numbers().is_some_and(|(there, wanted)| there < wanted),
            _ => false,
        }
    }
}

/// The node an unbound pod of a set was made for.
pub fn target(pod: &Value) -> Option<String> {
    let terms = pod.at(&TERMS).and_then(Value::as_list)?;
    let fields =
        terms.iter().flat_map(|term| term.get("matchFields").and_then(Value::as_list).unwrap_or_default());
    let by_name = fields.map(Requirement::read).find(|r| r.key == "metadata.name" && r.operator == "In")?;
    // Made for several, it is made for none.
    <[String; 1]>::try_from(by_name.values).ok().map(|[name]| name)
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
