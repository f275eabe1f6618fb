//! Whether two outcomes are the same, and where they first differ.

use object::Value;

use crate::case::text_of;
use crate::play::Outcome;
use crate::webhook;

/// The first place two outcomes differ in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `status`, `content type`, `warnings`, `calls`, or a path into the body such as `spec.ports[0].protocol`.
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
    if let Some(found) = calls(&webhook::names(&ours.calls), &webhook::names(&theirs.calls)) {
        return Some(found);
    }
    ours.calls.iter().zip(&theirs.calls).find_map(|(ours, theirs)| {
        let name = ours.str_at(&["webhook"]).unwrap_or_default();
        values(ours, theirs, &format!("calls.{name}"))
    })
}

/// `m01 m02 v07` against what the other server asked: `calls`, or `calls (repeated)` if both asked the same webhooks in whole rounds,
/// one of them more often.
pub fn calls(ours: &str, theirs: &str) -> Option<Difference> {
    let place = match () {
        () if ours == theirs => return None,
        () if are_rounds_of_the_same(ours, theirs) => "calls (repeated)",
        () => "calls",
    };
    Some(Difference { place: place.to_owned(), ours: ours.to_owned(), theirs: theirs.to_owned() })
}

fn are_rounds_of_the_same(ours: &str, theirs: &str) -> bool {
    !ours.is_empty() && round(ours) == round(theirs)
}

/// The shortest sequence that all of them are whole rounds of. Of all rounds mutating webhooks come first, then validating ones by name.
fn round(names: &str) -> (Vec<&str>, Vec<&str>) {
    let (mutating, validating): (Vec<&str>, Vec<&str>) =
        names.split_whitespace().partition(|name| !webhook::is_validating(name));
    let of = |rounds: usize| {
        let (first, by_name) = (&mutating[..mutating.len() / rounds], validating.chunks(rounds));
        let whole = mutating.len() % rounds == 0 && validating.len() % rounds == 0;
        let again = mutating.chunks(first.len().max(1)).all(|round| round == first)
            && by_name.clone().all(|names| names.iter().all(|name| *name == names[0]));
        (whole && again).then(|| (first.to_vec(), by_name.map(|names| names[0]).collect()))
    };
    let most = mutating.len().max(validating.len());
    (1..=most).rev().find_map(of).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_rounds_of_the_same_webhooks_are_a_repetition() {
        for (ours, theirs, place) in [
            ("", "", None),
            ("m1 v1", "m1 v1", None),
            ("m1 m2", "m1 m2 m1 m2 m1 m2", Some("calls (repeated)")),
            ("m1 m2 m1 m2 m1 m2", "m1 m2 m1 m2", Some("calls (repeated)")),
            ("m1 m1", "", Some("calls")),
            ("m1 m1 v1 v1 v2 v2", "m1 v1 v2", Some("calls (repeated)")),
            ("", "m1", Some("calls")),
            ("m1 m2", "m1 m2 m1", Some("calls")),
            ("m1 m2", "m2 m1 m1 m2", Some("calls")),
            ("m1 v1", "m1 m1 v1", Some("calls")),
            ("m1 v1", "m1 m1 m1 v1", Some("calls")),
            ("m1", "m2", Some("calls")),
        ] {
            let found = calls(ours, theirs).map(|difference| difference.place);
            assert_eq!(found.as_deref(), place, "{ours} against {theirs}");
        }
    }
}
