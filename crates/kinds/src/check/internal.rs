//! A tree the way upstream's messages show a struct of its own: Go's names, and a zero for what is absent.
//!
//! Upstream judges its internal types, which have no JSON names. Only where a message shows a whole struct
//! does that reach a client; such a kind lists the struct's fields here.

use object::Value;

use crate::metadata::shown;

/// How a member is shown.
pub(crate) enum Go {
    /// A value of its own; this text when it is absent.
    Leaf(&'static str),
    /// A struct held by value.
    Struct(&'static [Field]),
    /// A struct behind a pointer: `null` when it is absent.
    Pointer(&'static [Field]),
    /// A list of structs: `null` when it is absent.
    List(&'static [Field]),
}

/// JSON's name, Go's name, how it is shown; in Go's order.
pub(crate) type Field = (&'static str, &'static str, Go);

pub(crate) const TEXT: Go = Go::Leaf("\"\"");
pub(crate) const NULL: Go = Go::Leaf("null");
pub(crate) const ZERO: Go = Go::Leaf("0");

/// Structs that more than one kind shows.
pub(crate) const NODE_SELECTOR: &[Field] =
    &[("nodeSelectorTerms", "NodeSelectorTerms", Go::List(NODE_SELECTOR_TERM))];
pub(crate) const NODE_SELECTOR_TERM: &[Field] = &[
    ("matchExpressions", "MatchExpressions", Go::List(NODE_REQUIREMENT)),
    ("matchFields", "MatchFields", Go::List(NODE_REQUIREMENT)),
];
/// Of Deployments and DaemonSets.
pub(crate) const ROLLING_UPDATE: &[Field] =
    &[("maxUnavailable", "MaxUnavailable", ZERO), ("maxSurge", "MaxSurge", ZERO)];
const NODE_REQUIREMENT: &[Field] =
    &[("key", "Key", TEXT), ("operator", "Operator", TEXT), ("values", "Values", NULL)];

/// The struct with these fields.
pub(crate) fn internal(value: Option<&Value>, fields: &[Field]) -> String {
    let mut out = String::from("{");
    for (i, (json, go, how)) in fields.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&format!("\"{go}\":"));
        // An empty name: embedded, its members are those of the struct around it.
        let own = if json.is_empty() { value } else { value.and_then(|v| v.get(json)) };
        out.push_str(&member(own.filter(|v| !v.is_null()), how));
    }
    out.push('}');
    out
}

impl Go {
    /// A member that may be absent.
    pub(crate) fn show(&self, value: Option<&Value>) -> String {
        member(value.filter(|v| !v.is_null()), self)
    }
}

fn member(value: Option<&Value>, how: &Go) -> String {
    match (how, value) {
        (Go::Struct(fields), value) => internal(value, fields),
        (Go::Leaf(zero), None) => (*zero).to_owned(),
        (Go::Leaf(_), Some(value)) => shown(value),
        (_, None) => "null".to_owned(),
        (Go::Pointer(fields), value) => internal(value, fields),
        (Go::List(fields), Some(list)) => {
            let items: Vec<String> =
                list.as_list().unwrap_or_default().iter().map(|item| internal(Some(item), fields)).collect();
            format!("[{}]", items.join(","))
        }
    }
}
