//! The conditions of a namespace that is being deleted: what stands in the way.

use std::collections::BTreeMap;

use client::Gvr;
use object::{Map, Value, time};

/// What was found while a namespace's content was deleted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Group versions whose resources are not known, because their servers cannot be asked.
    pub stale: Vec<String>,
    /// Why content could not be deleted, one message for each resource.
    pub failures: Vec<String>,
    /// How many objects of each resource are still there; empty when that was not counted to the end.
    pub remaining: BTreeMap<Gvr, usize>,
    /// How many objects each finalizer holds.
    pub finalizers: BTreeMap<String, usize>,
}

struct Condition {
    kind: &'static str,
    /// Something is wrong, or still to be done.
    raised: bool,
    reason: &'static str,
    message: String,
}

impl Found {
    /// As client-go says it.
    pub fn discovery_error(&self) -> Option<String> {
        let stale = self.stale.iter().map(|gv| format!("{gv}: stale GroupVersion discovery: {gv}"));
        let all = sorted(stale);
        (!all.is_empty()).then(|| format!("unable to retrieve the complete list of server APIs: {all}"))
    }

    fn conditions(&self) -> Vec<Condition> {
        let calm = |kind, reason, message: &str| Condition {
            kind,
            raised: false,
            reason,
            message: message.to_owned(),
        };
        let raised = |kind, reason, message| Condition { kind, raised: true, reason, message };
        let failed = "NamespaceDeletionContentFailure";
        let content = "NamespaceContentRemaining";
        let finalizers = "NamespaceFinalizersRemaining";
        let discovery = "NamespaceDeletionDiscoveryFailure";
        vec![
            // The catalogue is at hand; only other servers may not be.
            match self.discovery_error() {
                None => calm(discovery, "ResourcesDiscovered", "All resources successfully discovered"),
                Some(why) => {
                    let count = self.stale.len();
                    let message = format!("Discovery failed for some groups, {count} failing: {why}");
                    raised(discovery, "DiscoveryFailed", message)
                }
            },
            calm(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            if self.failures.is_empty() {
                calm(
                    failed,
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization",
                )
            } else {
                let mut failures = self.failures.clone();
                failures.sort();
                let (count, failures) = (failures.len(), failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {failures}");
                raised(failed, "ContentDeletionFailed", message)
            },
            if self.remaining.is_empty() {
                calm(content, "ContentRemoved", "All content successfully removed")
            } else {
                let resources = self
                    .remaining
                    .iter()
                    .map(|(gvr, n)| format!("{}.{} has {n} resource instances", gvr.plural, gvr.group));
                let message = format!("Some resources are remaining: {}", sorted(resources));
                raised(content, "SomeResourcesRemain", message)
            },
            if self.finalizers.is_empty() {
                calm(finalizers, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
            } else {
                let held =
                    self.finalizers.iter().map(|(name, n)| format!("{name} in {n} resource instances"));
                let message =
                    format!("Some content in the namespace has finalizers remaining: {}", sorted(held));
                raised(finalizers, "SomeFinalizersRemain", message)
            },
        ]
    }

    /// Writes the conditions into a namespace; tells whether that changed anything.
    pub fn update(&self, namespace: &mut Value, now_seconds: i64) -> bool {
        let list = namespace.map_at(&["status"]).entry("conditions".into());
        if list.as_list().is_none() {
            *list = Value::List(Vec::new());
        }
        let Value::List(list) = list else { return false };
        let mut changed = false;
        for new in self.conditions() {
            let status = if new.raised { "True" } else { "False" };
            let old = list.iter_mut().find(|c| c.str_at(&["type"]) == Some(new.kind));
            let old = match old {
                Some(old) => old.make_map(),
                None => {
                    let mut condition = Map::default();
                    condition.set("type", new.kind);
                    list.push(Value::Map(condition));
                    let Some(Value::Map(condition)) = list.last_mut() else { continue };
                    condition
                }
            };
            let is = |name: &str, wanted: &str| old.get(name).and_then(Value::as_str) == Some(wanted);
            let (same_status, same_reason) = (is("status", status), is("reason", new.reason));
            if same_status && same_reason && is("message", &new.message) {
                continue;
            }
            changed = true;
            old.set("status", status);
            if !same_status {
                old.set("lastTransitionTime", time::format_seconds(now_seconds));
            }
            old.set("reason", new.reason);
            old.set("message", new.message);
        }
        changed
    }
}

/// In the order of the finished texts, as upstream has it.
fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join(", ")
}
