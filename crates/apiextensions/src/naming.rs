//! Which of the names a definition asks for it gets: the ones that no other definition of its group has.
//!
//! ```text
//! spec.names ─ equal to status.acceptedNames? nothing to do
//!      │
//!      └─ each name that is not accepted yet: free in the group? ─ yes ─> acceptedNames
//!                                                                └ no ──> NamesAccepted=False, <Name>Conflict
//! ```
//!
//! A definition whose accepted names change, or that goes, may release a name: then all others of its group are planned again.

#[cfg(test)]
mod tests;

use object::{Map, Value, quote};

use crate::conditions::{Draft, ESTABLISHED, NAMES_ACCEPTED, aggregate, find, says};

/// One of the names, by its member, its conflict's reason, and whether it names a kind.
const NAMES: [(&str, &str, bool); 5] = [
    ("plural", "PluralConflict", false),
    ("singular", "SingularConflict", false),
    ("shortNames", "ShortNamesConflict", false),
    ("kind", "KindConflict", true),
    ("listKind", "ListKindConflict", true),
];

/// The new status, if it changes. `others` may be of any group; those of this one count.
pub fn plan<'a>(definition: &Value, others: impl IntoIterator<Item = &'a Value>, now: i64) -> Option<Value> {
    let requested = definition.at(&["spec", "names"])?;
    let none = Value::Null;
    let accepted = definition.at(&["status", "acceptedNames"]).unwrap_or(&none);
    let same = |name: &str| members(requested, name) == members(accepted, name);
    if NAMES.iter().all(|(name, ..)| same(name)) && same("categories") {
        return None;
    }

    let group = definition.str_at(&["spec", "group"]).unwrap_or_default();
    let mut used = Used::default();
    used.add(accepted);
    for other in others {
        if other.str_at(&["spec", "group"]) == Some(group) {
            used.add(other.at(&["status", "acceptedNames"]).unwrap_or(&none));
        }
    }

    let mut names = accepted.as_map().cloned().unwrap_or_default();
    let (mut status, mut reason, mut message) = ("True", "NoConflicts", "no conflicts found".to_owned());
    for (name, conflict, is_kind) in NAMES {
        let owned = members(accepted, name);
        let taken = members(requested, name).into_iter().filter(|asked| {
            !owned.contains(asked) && if is_kind { &used.kinds } else { &used.resources }.contains(asked)
        });
        let errors: Vec<String> = taken.map(|asked| format!("{} is already in use", quote(asked))).collect();
        if errors.is_empty() {
            copy(requested, name, &mut names);
        } else {
            // Of several conflicts the last is said.
            (status, reason, message) = ("False", conflict, aggregate(&errors));
        }
    }
    copy(requested, "categories", &mut names);

    if accepted.as_map() == Some(&names) && says(find(definition, NAMES_ACCEPTED), status, reason, &message) {
        return None;
    }
    let mut draft = Draft::of(definition, now);
    draft.status().set("acceptedNames", names);
    draft.set(NAMES_ACCEPTED, status, reason, &message);
    // Once established, always established.
    let established = find(definition, ESTABLISHED).and_then(|c| c.str_at(&["status"]));
    match (established, status) {
        (Some("True"), _) => {}
        (_, "True") => {
            draft.set(ESTABLISHED, "False", "Installing", "the initial names have been accepted");
        }
        (None, _) => draft.set(ESTABLISHED, "False", "NotAccepted", "not all names are accepted"),
        (Some(_), _) => {}
    }
    Some(draft.finish())
}

/// Whether another definition has a name that this one asks for, as it was planned last.
pub fn is_in_conflict(definition: &Value) -> bool {
    find(definition, NAMES_ACCEPTED).is_some_and(|condition| condition.str_at(&["status"]) == Some("False"))
}

/// Names that are taken in a group.
#[derive(Default)]
struct Used<'a> {
    resources: Vec<&'a str>,
    kinds: Vec<&'a str>,
}

impl<'a> Used<'a> {
    fn add(&mut self, accepted: &'a Value) {
        for (name, _, is_kind) in NAMES {
            let taken = if is_kind { &mut self.kinds } else { &mut self.resources };
            taken.extend(members(accepted, name));
        }
    }
}

/// The texts of a member: one, or those of a list.
fn members<'a>(names: &'a Value, name: &str) -> Vec<&'a str> {
    match names.get(name) {
        Some(Value::Str(text)) if !text.is_empty() => vec![text],
        Some(Value::List(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn copy(from: &Value, name: &'static str, to: &mut Map) {
    match from.get(name) {
        Some(value) if !members(from, name).is_empty() => to.set(name, value.clone()),
        _ => drop(to.remove(name)),
    }
}
