//! LimitRanger: the limit ranges of a namespace complete the resources of containers, and bound them, whole pods
//! and claims.

mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::json;
use object::{Map, Obj, Value};

use crate::amounts::{Amounts, of_pod};
use crate::tree::{items, text};
use crate::{Attempt, Effects, Memo, Operation, Plugin, Refusal};

pub struct LimitRanger {
    ranges: Memo<Ranges>,
}

/// By namespace, in order of names.
type Ranges = BTreeMap<String, Vec<Range>>;

/// One LimitRange.
struct Range {
    limits: Vec<Limit>,
    default_limits: Amounts,
    default_requests: Amounts,
}

/// One item of a LimitRange.
struct Limit {
    kind: String,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
}

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Default for LimitRanger {
    fn default() -> LimitRanger {
        LimitRanger { ranges: Memo::of("", "limitranges") }
    }
}

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if !attempt.is_or_below("", "pods") || !concerns(attempt) {
            return Ok(());
        }
        if let Some(all) = self.ranges.get(attempt, read)? {
            for range in all.get(attempt.namespace).into_iter().flatten() {
                range.complete(new);
            }
        }
        Ok(())
    }

    fn validate(&self, attempt: &Attempt<'_>, new: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let Some(new) = new.filter(|_| concerns(attempt)) else { return Ok(()) };
        let Some(all) = self.ranges.get(attempt, read)? else { return Ok(()) };
        for range in all.get(attempt.namespace).into_iter().flatten() {
            let broken =
                if attempt.is_or_below("", "pods") { range.check_pod(new) } else { range.check_claim(new) };
            if !broken.is_empty() {
                return Err(attempt.forbidden(together(broken)).into());
            }
        }
        Ok(())
    }
}

/// New pods, resized pods, and claims; what is going away may do so as it is.
fn concerns(attempt: &Attempt<'_>) -> bool {
    let about = match attempt.operation {
        Operation::Create => attempt.is("", "pods") || attempt.is("", "persistentvolumeclaims"),
        Operation::Update => {
            attempt.is("", "persistentvolumeclaims")
                || (attempt.is_or_below("", "pods") && attempt.subresource == Some("resize"))
        }
        Operation::Delete | Operation::Connect => false,
    };
    about && attempt.old.and_then(|old| old.at(&["metadata", "deletionTimestamp"])).is_none()
}

fn read(objects: Vec<Arc<Obj>>) -> Ranges {
    let mut ranges = Ranges::new();
    for obj in objects {
        let Ok(tree) = json::parse(obj.body(), None) else { continue };
        let Some(spec) = tree.get("spec") else { continue };
        ranges.entry(obj.namespace().to_owned()).or_default().push(Range::read(spec));
    }
    ranges
}

impl Range {
    fn read(spec: &Value) -> Range {
        let mut range = Range {
            limits: Vec::new(),
            default_limits: Amounts::default(),
            default_requests: Amounts::default(),
        };
        for item in items(spec, "limits") {
            let kind = text(item, "type").to_owned();
            if kind == "Container" {
                for amount in Amounts::read(item.get("default")).iter() {
                    range.default_limits.put(amount.clone());
                }
                for amount in Amounts::read(item.get("defaultRequest")).iter() {
                    range.default_requests.put(amount.clone());
                }
            }
            range.limits.push(Limit {
                kind,
                min: Amounts::read(item.get("min")),
                max: Amounts::read(item.get("max")),
                ratio: Amounts::read(item.get("maxLimitRequestRatio")),
            });
        }
        range
    }

    /// Gives containers what they don't say, and notes it on the pod.
    fn complete(&self, pod: &mut Value) {
        let mut notes = Vec::new();
        let spec = pod.map_at(&["spec"]);
        for (list, kind) in [("containers", "container"), ("initContainers", "init container")] {
            let Some(Value::List(containers)) = spec.get_mut(list) else { continue };
            for container in containers {
                let name = text(container, "name").to_owned();
                let requests = fill(container, "requests", &self.default_requests);
                // Upstream fills limits first but tells of requests first; each is for itself.
                let limits = fill(container, "limits", &self.default_limits);
                for (set, what) in [(requests, "request"), (limits, "limit")] {
                    if !set.is_empty() {
                        notes.push(format!("{} {what} for {kind} {name}", set.join(", ")));
                    }
                }
            }
        }
        if !notes.is_empty() {
            let note = format!("LimitRanger plugin set: {}", notes.join("; "));
            pod.map_at(&["metadata", "annotations"]).set(ANNOTATION, note);
        }
    }

    fn check_pod(&self, pod: &Value) -> Vec<String> {
        let spec = pod.get("spec").unwrap_or(&Value::Null);
        let mut broken = Vec::new();
        for limit in &self.limits {
            if limit.kind == "Container" {
                for container in items(spec, "containers").iter().chain(items(spec, "initContainers")) {
                    let of = |which| Amounts::read(container.at(&["resources", which]));
                    limit.check(&of("requests"), &of("limits"), &mut broken);
                }
            } else if limit.kind == "Pod" {
                let of = |which| of_pod(spec, which, |name| matches!(name, "cpu" | "memory"));
                limit.check(&of("requests"), &of("limits"), &mut broken);
            }
        }
        broken
    }

    fn check_claim(&self, claim: &Value) -> Vec<String> {
        let requests = Amounts::read(claim.at(&["spec", "resources", "requests"]));
        let mut broken = Vec::new();
        for limit in self.limits.iter().filter(|l| l.kind == "PersistentVolumeClaim") {
            let kind = &limit.kind;
            let none = Amounts::default();
            broken.extend(limit.min.iter().filter_map(|min| rules::min(kind, min, &requests, &none)));
            broken.extend(limit.max.iter().filter_map(|max| rules::max_request(kind, max, &requests)));
        }
        broken
    }
}

impl Limit {
    fn check(&self, requests: &Amounts, limits: &Amounts, broken: &mut Vec<String>) {
        let kind = &self.kind;
        broken.extend(self.min.iter().filter_map(|min| rules::min(kind, min, requests, limits)));
        broken.extend(self.max.iter().filter_map(|max| rules::max(kind, max, requests, limits)));
        broken.extend(self.ratio.iter().filter_map(|ratio| rules::ratio(kind, ratio, requests, limits)));
    }
}

/// Sets what is missing and tells the names.
fn fill(container: &mut Value, which: &'static str, defaults: &Amounts) -> Vec<String> {
    let there = |container: &Value, name: &str| container.at(&["resources", which, name]).is_some();
    let mut set = Vec::new();
    for amount in defaults.iter() {
        if !there(container, &amount.name) {
            let resources: &mut Map = container.map_at(&["resources", which]);
            resources.set(amount.name.clone(), amount.text.as_str());
            set.push(amount.name.clone());
        }
    }
    set
}

/// Several messages as one, each once.
fn together(messages: Vec<String>) -> String {
    let mut unique: Vec<String> = Vec::with_capacity(messages.len());
    for message in messages {
        if !unique.contains(&message) {
            unique.push(message);
        }
    }
    if unique.len() == 1 { unique.remove(0) } else { format!("[{}]", unique.join(", ")) }
}
