//! A namespace that becomes stricter: which of its pods would not be admitted any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use object::{Obj, Value, quote};

use super::checks::{Pod, evaluate, reasons};
use super::policy::LevelVersion;
use crate::Attempt;
use crate::tree::{flag, items, text};

/// So many pods are looked at, one of each controller first.
const MAX_PODS: usize = 3000;

pub fn warnings(
    attempt: &Attempt<'_>,
    enforce: LevelVersion,
    is_exempt: impl Fn(&Value) -> bool,
) -> Vec<String> {
    let Ok(pods) = attempt.all("", "pods", attempt.name) else {
        return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
    };
    let total = pods.len();
    let mut warnings = Vec::new();
    // By reason: the first pod's name, and how many there are.
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for (name, pod) in one_of_each_first(attempt, pods).into_iter().take(MAX_PODS) {
        if is_exempt(&pod) {
            continue;
        }
        let broken = evaluate(enforce, &Pod::of(&pod));
        if broken.is_empty() {
            continue;
        }
        let (first, count) = found.entry(reasons(&broken)).or_insert_with(|| (name.clone(), 0));
        *count += 1;
        if name < *first {
            *first = name;
        }
    }
    if total > MAX_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {MAX_PODS} of {total} existing pods"
        ));
    }
    if !found.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {} violate the new PodSecurity enforce level {}",
            quote(attempt.name),
            enforce.quoted()
        ));
    }
    let mut lines: Vec<String> = found
        .into_iter()
        .map(|(reason, (name, count))| match count {
            1 => format!("{name}: {reason}"),
            2 => format!("{name} (and 1 other pod): {reason}"),
            n => format!("{name} (and {} other pods): {reason}", n - 1),
        })
        .collect();
    lines.sort();
    warnings.extend(lines);
    warnings
}

/// Replicas are alike: one of each controller is more telling than all of one.
fn one_of_each_first(attempt: &Attempt<'_>, pods: Vec<Arc<Obj>>) -> Vec<(String, Value)> {
    let mut seen = BTreeSet::new();
    let (mut first, mut more) = (Vec::new(), Vec::new());
    for obj in pods {
        // Of far too many pods not all are read.
        if first.len() >= MAX_PODS {
            break;
        }
        let pod = attempt.tree(&obj);
        let owners = pod.get("metadata").map(|m| items(m, "ownerReferences")).unwrap_or_default();
        let controller = owners.iter().find(|o| flag(o, "controller") == Some(true));
        let again = controller.is_some_and(|owner| !seen.insert(text(owner, "uid").to_owned()));
        let place = if again { &mut more } else { &mut first };
        if place.len() < MAX_PODS {
            place.push((obj.name().to_owned(), pod));
        }
    }
    first.append(&mut more);
    first
}
