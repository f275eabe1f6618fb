//! A tree as upstream's messages print an internal struct: Go's names, and zero values for absent members.
//!
//! Upstream validates its internal types, which have no JSON names. Only where a message shows a whole struct
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
    /// Shown by a function of its own: `null` when it is absent.
    Own(fn(&Value) -> String),
    /// An embedded struct: its members are printed among those of the outer struct.
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
    let mut out = String::new();
    write(&mut out, value, fields, usize::MAX);
    out
}

/// The same, or nothing where it has more bytes than `limit`: an absent member is shown too, and so a list of names can become
/// fifty times what it is.
pub(crate) fn internal_within(limit: usize, value: Option<&Value>, fields: &[Field]) -> Option<String> {
    let mut out = String::new();
    write(&mut out, value, fields, limit);
    (out.len() <= limit).then_some(out)
}

/// Stops somewhere behind the limit.
fn write(out: &mut String, value: Option<&Value>, fields: &[Field], limit: usize) {
    out.push('{');
    let mut first = true;
    for (json, go, how) in fields {
        if out.len() > limit {
            return;
        }
        // An empty name: embedded, its members are those of the struct around it.
        let own = if json.is_empty() { value } else { value.and_then(|v| v.get(json)) };
        let own = own.filter(|v| !v.is_null());
        let inline = match (how, own) {
            (Go::Inline, Some(own)) => Some(shown(own)),
            (Go::Inline, None) => continue,
            _ => None,
        };
        let inline = inline.as_deref().map(members);
        if inline.is_some_and(str::is_empty) {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        match inline {
            Some(members) => out.push_str(members),
            None => {
                out.push('"');
                out.push_str(go);
                out.push_str("\":");
                write_member(out, own, how, limit);
            }
        }
    }
    out.push('}');
}

fn members(map: &str) -> &str {
    map.strip_prefix('{').and_then(|map| map.strip_suffix('}')).unwrap_or_default()
}

impl Go {
    /// A member that may be absent.
    pub(crate) fn show(&self, value: Option<&Value>) -> String {
        let mut out = String::new();
        write_member(&mut out, value.filter(|v| !v.is_null()), self, usize::MAX);
        out
    }

    /// The same, or nothing where it has more bytes than `limit`.
    pub(crate) fn show_within(&self, limit: usize, value: Option<&Value>) -> Option<String> {
        let mut out = String::new();
        write_member(&mut out, value.filter(|v| !v.is_null()), self, limit);
        (out.len() <= limit).then_some(out)
    }
}

fn write_member(out: &mut String, value: Option<&Value>, how: &Go, limit: usize) {
    match (how, value) {
        (Go::Struct(fields), value) => write(out, value, fields, limit),
        (Go::Leaf(zero), None) => out.push_str(zero),
        (Go::Leaf(_) | Go::Inline, Some(value)) => out.push_str(&shown(value)),
        (_, None) => out.push_str("null"),
        (Go::Own(show), Some(value)) => out.push_str(&show(value)),
        (Go::Pointer(fields), value) => write(out, value, fields, limit),
        (Go::List(fields), Some(list)) => {
            out.push('[');
            for (i, item) in list.as_list().unwrap_or_default().iter().enumerate() {
                if out.len() > limit {
                    return;
                }
                if i > 0 {
                    out.push(',');
                }
                write(out, Some(item), fields, limit);
            }
            out.push(']');
        }
    }
}
