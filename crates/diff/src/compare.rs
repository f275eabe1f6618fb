//! Whether two outcomes are the same, and where they first differ.

use object::Value;

use crate::case::text_of;
use crate::play::Outcome;
use crate::webhook;

/// The first place two outcomes differ in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `content type`, `warnings`, or a path into the body such as `spec.ports[0].protocol`.
    pub place: String,
    pub ours: String,
    pub theirs: String,
}

pub fn compare(ours: &Outcome, theirs: &Outcome) -> Option<Difference> {
    let difference = |place: &str, ours: String, theirs: String| {
        Some(Difference { place: place.to_owned(), ours, theirs })
    };
    if ours.status != theirs.status {
        return difference("status", ours.status.to_string(), theirs.status.to_string());
    }
    if ours.content_type != theirs.content_type {
        return difference("content type", ours.content_type.clone(), theirs.content_type.clone());
    }
    if let Some(found) = values(&ours.body, &theirs.body, "") {
        return Some(found);
    }
    if ours.warnings != theirs.warnings {
        return difference("warnings", ours.warnings.join(" | "), theirs.warnings.join(" | "));
    }
    let (asked, asks) = (webhook::names(&ours.calls), webhook::names(&theirs.calls));
    if asked != asks {
        return difference("calls", asked, asks);
    }
    ours.calls.iter().zip(&theirs.calls).find_map(|(ours, theirs)| {
        let name = ours.str_at(&["webhook"]).unwrap_or_default();
        values(ours, theirs, &format!("calls.{name}"))
    })
}

fn values(ours: &Value, theirs: &Value, path: &str) -> Option<Difference> {
    match (ours, theirs) {
        (Value::Map(a), Value::Map(b)) => {
            // Both are sorted by name: of the names that only one has, the first is told.
            let mut names: Vec<&str> = a.iter().chain(b.iter()).map(|(name, _)| name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            names.into_iter().find_map(|name| {
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => values(a, b, &path),
                    (a, b) => Some(Difference { place: path, ours: shown(a), theirs: shown(b) }),
                }
            })
        }
        (Value::List(a), Value::List(b)) => (0..a.len().max(b.len())).find_map(|i| {
            let path = format!("{path}[{i}]");
            match (a.get(i), b.get(i)) {
                (Some(a), Some(b)) => values(a, b, &path),
                (a, b) => Some(Difference { place: path, ours: shown(a), theirs: shown(b) }),
            }
        }),
        (a, b) if a == b => None,
        (a, b) => Some(Difference { place: path.to_owned(), ours: shown(Some(a)), theirs: shown(Some(b)) }),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "(absent)".to_owned(), text_of)
}
