//! A tree the way upstream's messages show a struct of its own: Go's names, and a zero for what is absent.
//!
//! Upstream judges its internal types, which have no JSON names. Only where a message shows a whole struct
//! does that reach a client; such a kind lists the struct's fields here.

pub(crate) mod pod;
pub(crate) mod volume;

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
    /// A struct that has JSON names and no name of its own: its members stand among those around it.
    Inline,
}

/// JSON's name, Go's name, how it is shown; in Go's order.
pub(crate) type Field = (&'static str, &'static str, Go);

pub(crate) const TEXT: Go = Go::Leaf("\"\"");
pub(crate) const NULL: Go = Go::Leaf("null");
pub(crate) const FALSE: Go = Go::Leaf("false");
pub(crate) const ZERO: Go = Go::Leaf("0");

/// Of Deployments and DaemonSets.
pub(crate) const ROLLING_UPDATE: &[Field] =
    &[("maxUnavailable", "MaxUnavailable", ZERO), ("maxSurge", "MaxSurge", ZERO)];

/// The struct with these fields.
pub(crate) fn internal(value: Option<&Value>, fields: &[Field]) -> String {
    let mut out = String::from("{");
    for (json, go, how) in fields {
        // An empty name: embedded, its members are those of the struct around it.
        let own = if json.is_empty() { value } else { value.and_then(|v| v.get(json)) };
        let own = own.filter(|v| !v.is_null());
        let member = match how {
            Go::Inline => own.map(|own| members(&shown(own)).to_owned()).unwrap_or_default(),
            _ => format!("\"{go}\":{}", member(own, how)),
        };
        if out.len() > 1 && !member.is_empty() {
            out.push(',');
        }
        out.push_str(&member);
    }
    out.push('}');
    out
}

fn members(map: &str) -> &str {
    map.strip_prefix('{').and_then(|map| map.strip_suffix('}')).unwrap_or_default()
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
        (Go::Inline, Some(value)) => shown(value),
        (Go::Pointer(fields), value) => internal(value, fields),
        (Go::List(fields), Some(list)) => {
            let items: Vec<String> =
                list.as_list().unwrap_or_default().iter().map(|item| internal(Some(item), fields)).collect();
            format!("[{}]", items.join(","))
        }
    }
}
