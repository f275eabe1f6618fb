//! Node selectors: what is written, and whether it holds for a node.

use std::sync::Arc;

use object::{FieldError, Map, Value, quote};

use super::NodeView;
use crate::read::{find, list, shared, strings};

const LABEL_OPERATORS: [&str; 6] = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
const FIELD_OPERATORS: [&str; 2] = ["In", "NotIn"];

/// Terms of which one must hold; no term holds for no node.
#[derive(Clone, Debug, Default)]
pub struct NodeSelector {
    pub(crate) terms: Vec<Term>,
    /// Why it cannot be read.
    broken: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Term {
    pub expressions: Vec<Requirement>,
    pub fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    key: Arc<str>,
    operator: Arc<str>,
    values: Vec<Arc<str>>,
}

impl NodeSelector {
    pub fn parse(value: &Value) -> NodeSelector {
        let terms: Vec<Term> = list(value, "nodeSelectorTerms").iter().map(Term::parse).collect();
        let mut selector = NodeSelector { terms, broken: None };
        let mut errors: Vec<String> = Vec::new();
        for (i, term) in selector.terms.iter().enumerate() {
            for error in term.errors(i) {
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
        }
        let error = match errors.as_slice() {
            [] => return selector,
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        selector.broken = Some(format!("failed to parse node selector {}: {error}", selector.go_text()));
        selector
    }

    pub fn matches(&self, node: &NodeView<'_>) -> Result<bool, &str> {
        match &self.broken {
            Some(error) => Err(error),
            None => Ok(self.terms.iter().any(|term| term.matches(node))),
        }
    }

    /// As Go prints one.
    fn go_text(&self) -> String {
        let terms: String = self.terms.iter().map(|term| term.go_text() + ",").collect();
        format!("&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}")
    }
}

impl Term {
    fn parse(value: &Value) -> Term {
        let requirements = |name| list(value, name).iter().map(Requirement::parse).collect();
        Term { expressions: requirements("matchExpressions"), fields: requirements("matchFields") }
    }

    fn errors(&self, index: usize) -> Vec<String> {
        let at = |list: &str, i: usize| format!("nodeSelectorTerms[{index}].{list}[{i}]");
        let labels = self.expressions.iter().enumerate();
        let labels = labels.filter_map(|(i, r)| r.label_error(&at("matchExpressions", i)));
        let fields = self.fields.iter().enumerate();
        let fields = fields.filter_map(|(i, r)| r.field_error(&at("matchFields", i)));
        labels.chain(fields).collect()
    }

    fn matches(&self, node: &NodeView<'_>) -> bool {
        // What asks for nothing selects nothing.
        (!self.expressions.is_empty() || !self.fields.is_empty())
            && self.expressions.iter().all(|r| r.matches_label(find(node.labels, &r.key).map(|v| &**v)))
            && self.fields.iter().all(|r| r.matches_field(node.name))
    }

    fn go_text(&self) -> String {
        let each = |list: &[Requirement]| -> String { list.iter().map(|r| r.go_text() + ",").collect() };
        format!(
            "NodeSelectorTerm{{MatchExpressions:[]NodeSelectorRequirement{{{}}},MatchFields:[]NodeSelectorRequirement{{{}}},}}",
            each(&self.expressions),
            each(&self.fields)
        )
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut term = Map::default();
        for (name, list) in [("matchExpressions", &self.expressions), ("matchFields", &self.fields)] {
            if !list.is_empty() {
                term.set(name, list.iter().map(Requirement::to_value).collect::<Vec<_>>());
            }
        }
        Value::Map(term)
    }
}

impl Requirement {
    pub(crate) fn is_node(name: &str) -> Requirement {
        Requirement { key: "metadata.name".into(), operator: "In".into(), values: vec![name.into()] }
    }

    fn parse(value: &Value) -> Requirement {
        Requirement {
            key: shared(value, "key"),
            operator: shared(value, "operator"),
            values: strings(value, "values"),
        }
    }

    /// Keys and values were validated when they were written, all but the numbers.
    fn label_error(&self, at: &str) -> Option<String> {
        if !LABEL_OPERATORS.contains(&&*self.operator) {
            return Some(unsupported(at, &self.operator, &LABEL_OPERATORS));
        }
        if !matches!(&*self.operator, "Gt" | "Lt") {
            return None;
        }
        let words = "for 'Gt', 'Lt' operators, the value must be an integer";
        let (i, value) = self.values.iter().enumerate().find(|(_, value)| value.parse::<i64>().is_err())?;
        Some(FieldError::invalid(format!("{at}.values[{i}]"), quote(value), words).to_string())
    }

    fn field_error(&self, at: &str) -> Option<String> {
        if !FIELD_OPERATORS.contains(&&*self.operator) {
            return Some(unsupported(at, &self.operator, &FIELD_OPERATORS));
        }
        if self.values.len() == 1 {
            return None;
        }
        let values: Vec<String> = self.values.iter().map(|value| quote(value)).collect();
        let values = format!("[{}]", values.join(","));
        Some(FieldError::invalid(format!("{at}.values"), values, "must have one element").to_string())
    }

    fn matches_label(&self, label: Option<&str>) -> bool {
        let listed = |label: &str| self.values.iter().any(|value| **value == *label);
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
        let pair = || number(label).zip(number(self.values.first().map(|v| &**v)));
        match &*self.operator {
            "In" => label.is_some_and(listed),
            "NotIn" => !label.is_some_and(listed),
            "Exists" => label.is_some(),
            "DoesNotExist" => label.is_none(),
            "Gt" => pair().is_some_and(|(label, bound)| label > bound),
            "Lt" => pair().is_some_and(|(label, bound)| label < bound),
            _ => false,
        }
    }

    /// A node has no field but its name.
    fn matches_field(&self, node: &str) -> bool {
        let own = if *self.key == *"metadata.name" { node } else { "" };
        let equal = self.values.first().is_some_and(|value| **value == *own);
        equal == (*self.operator == *"In")
    }

    /// Whether it asks for the same, values in any order.
    pub(crate) fn is_same(&self, other: &Requirement) -> bool {
        self.key == other.key
            && self.operator == other.operator
            && self.values.iter().all(|value| other.values.contains(value))
            && other.values.iter().all(|value| self.values.contains(value))
    }

    fn go_text(&self) -> String {
        format!(
            "NodeSelectorRequirement{{Key:{},Operator:{},Values:[{}],}}",
            self.key,
            self.operator,
            self.values.join(" ")
        )
    }

    fn to_value(&self) -> Value {
        let mut requirement = Map::default();
        requirement.set("key", &*self.key);
        requirement.set("operator", &*self.operator);
        if !self.values.is_empty() {
            requirement.set("values", self.values.iter().map(|v| Value::from(&**v)).collect::<Vec<_>>());
        }
        Value::Map(requirement)
    }
}

fn unsupported(at: &str, operator: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|name| quote(name)).collect();
    let operator = quote(operator);
    format!("{at}.operator: Unsupported value: {operator}: supported values: {}", supported.join(", "))
}
