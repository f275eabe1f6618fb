//! What a pod uses: its containers' needs together, init containers and sidecars as they run, overhead on top.

use std::collections::{BTreeMap, BTreeSet};

use object::{Value, time};

use super::list::{self, List};
use super::scopes::Facts;

const COUNT: &str = "count/pods";
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS: &str = "requests.";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
const NAMES: [&str; 11] = [
    COUNT,
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// A quota of these makes every container say how much it wants. Upstream regrets it, and must keep it.
const MUST_BE_SAID: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Does a quota of this name count pods?
pub fn counts(name: &str) -> bool {
    NAMES.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || name.strip_prefix(REQUESTS).is_some_and(|rest| rest.starts_with(HUGE_PAGES))
        || is_extended_resource(name)
}

/// Is it the name of a quota for an extended resource, also one that stands for a class of devices?
pub fn is_extended_resource(name: &str) -> bool {
    name.strip_prefix(REQUESTS).is_some_and(|rest| !is_native(name) || rest.starts_with(DEVICE_CLASS))
}

pub fn usage(pod: &Value, now: i64) -> List {
    let mut used = List::from([(COUNT.to_owned(), list::one())]);
    // Only what is stored counts once a pod has ended, or is long past its deletion (a lost node).
    let ended = matches!(pod.str_at(&["status", "phase"]), Some("Failed" | "Succeeded"));
    if !ended && no_longer_counts_from(pod).is_none_or(|from| now <= from) {
        let needs = |what| needs(pod, what);
        list::add(&mut used, &compute(&needs("requests"), &needs("limits")));
    }
    used
}

/// When a pod that is being deleted stops to count although it is still there.
pub fn no_longer_counts_from(pod: &Value) -> Option<i64> {
    let (deleted, _) = time::parse(pod.str_at(&["metadata", "deletionTimestamp"])?)?;
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"])?.as_int()?;
    Some(deleted.saturating_add(grace))
}

pub fn facts(pod: &Value) -> Facts {
    Facts::Pod {
        terminating: is_terminating(pod),
        best_effort: is_best_effort(pod),
        crosses_namespaces: crosses_namespaces(pod),
        priority_class: pod.str_at(&["spec", "priorityClassName"]).unwrap_or("").to_owned(),
    }
}

/// It has a deadline.
pub fn is_terminating(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_int).is_some_and(|s| s >= 0)
}

/// What containers must say because a quota counts it, and don't.
pub fn check<'n>(pod: &Value, counted: impl Iterator<Item = &'n str>) -> Result<(), String> {
    if says(pod, &["requests", "limits"]) {
        return Ok(());
    }
    let required: BTreeSet<&str> = counted.filter(|name| MUST_BE_SAID.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in containers(pod, "containers").iter().chain(containers(pod, "initContainers")) {
        let said = compute(
            &list::read(container, &["resources", "requests"]),
            &list::read(container, &["resources", "limits"]),
        );
        for name in required.iter().filter(|name| !said.contains_key(**name)) {
            let container = container.str_at(&["name"]).unwrap_or("");
            missing.entry(name).or_default().insert(container);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let one = |(name, containers): (&&str, &BTreeSet<&str>)| {
        format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
    };
    Err(format!("must specify {}", missing.iter().map(one).collect::<Vec<_>>().join("; ")))
}

/// The names quotas use for a pod's requests and limits.
fn compute(requests: &List, limits: &List) -> List {
    let mut used = List::from([("pods".to_owned(), list::one())]);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = requests.get(name) {
            used.insert(name.to_owned(), *amount);
            used.insert(format!("{REQUESTS}{name}"), *amount);
        }
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    for (name, amount) in requests {
        if name.starts_with(HUGE_PAGES) {
            used.insert(name.clone(), *amount);
        }
        if name.starts_with(HUGE_PAGES) || is_extended(name) {
            used.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    used
}

/// `requests` or `limits` of the whole pod.
fn needs(pod: &Value, what: &'static str) -> List {
    let mut total = List::new();
    for container in containers(pod, "containers") {
        list::add(&mut total, &effective(pod, container, "containerStatuses", what));
    }
    // Sidecars run on, beside what comes after them; other init containers run one after the other.
    let (mut sidecars, mut starting) = (List::new(), List::new());
    for container in containers(pod, "initContainers") {
        if container.str_at(&["restartPolicy"]) == Some("Always") {
            let needs = effective(pod, container, "initContainerStatuses", what);
            list::add(&mut total, &needs);
            list::add(&mut sidecars, &needs);
            list::max(&mut starting, &sidecars);
        } else {
            let mut needs = list::read(container, &["resources", what]);
            list::add(&mut needs, &sidecars);
            list::max(&mut starting, &needs);
        }
    }
    list::max(&mut total, &starting);
    // What is said for the pod as a whole goes before the sum of its containers.
    if says(pod, &[what]) {
        let whole = list::read(pod, &["spec", "resources", what]);
        total.extend(whole.into_iter().filter(|(name, _)| is_pod_level(name)));
    }
    let overhead = list::read(pod, &["spec", "overhead"]);
    if what == "requests" {
        list::add(&mut total, &overhead);
    } else {
        // No limit stays no limit.
        for (name, amount) in &overhead {
            if let Some(limit) = total.get_mut(name).filter(|limit| !limit.is_zero()) {
                *limit = *limit + *amount;
            }
        }
    }
    total
}

/// A container's needs while it is being resized: the larger of what is wanted and what it has.
fn effective(pod: &Value, container: &Value, statuses: &str, what: &'static str) -> List {
    let wanted = list::read(container, &["resources", what]);
    let name = container.str_at(&["name"]);
    let status = pod.at(&["status", statuses]).and_then(Value::as_list).unwrap_or_default();
    let status = status.iter().find(|s| s.str_at(&["name"]) == name && s.get("resources").is_some());
    let Some(status) = status else { return wanted };
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    let pending = conditions.iter().find(|c| c.str_at(&["type"]) == Some("PodResizePending"));
    let infeasible = pending.is_some_and(|c| c.str_at(&["reason"]) == Some("Infeasible"));
    let mut needs = if infeasible { List::new() } else { wanted };
    list::max(&mut needs, &list::read(status, &["resources", what]));
    if what == "requests" {
        list::max(&mut needs, &list::read(status, &["allocatedResources"]));
    }
    needs
}

/// Does the pod as a whole say what it needs?
fn says(pod: &Value, what: &[&str]) -> bool {
    let said = |what: &&str| {
        let map = pod.at(&["spec", "resources", what]).and_then(Value::as_map);
        map.is_some_and(|map| map.iter().any(|(name, _)| is_pod_level(name)))
    };
    what.iter().any(said)
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    name.starts_with(DEVICE_CLASS) || (!is_native(name) && !name.starts_with(REQUESTS))
}

fn is_best_effort(pod: &Value) -> bool {
    if let Some(class) = pod.str_at(&["status", "qosClass"]).filter(|class| !class.is_empty()) {
        return class == "BestEffort";
    }
    let none = |resources: Option<&Value>| {
        let Some(resources) = resources else { return true };
        let amounts = ["requests", "limits"].map(|what| list::read(resources, &[what]));
        let counted = |name: &str| matches!(name, "cpu" | "memory");
        !amounts.iter().flatten().any(|(name, amount)| counted(name) && amount.sign() > 0)
    };
    if let Some(whole) = pod.at(&["spec", "resources"]).filter(|whole| !whole.is_null()) {
        return none(Some(whole));
    }
    let mut all = containers(pod, "containers").iter().chain(containers(pod, "initContainers"));
    all.all(|container| none(container.get("resources")))
}

fn crosses_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        let named = term.get("namespaces").and_then(Value::as_list).is_some_and(|l| !l.is_empty());
        named || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let terms = |when: &str| {
            pod.at(&["spec", "affinity", side, when]).and_then(Value::as_list).unwrap_or_default()
        };
        terms("requiredDuringSchedulingIgnoredDuringExecution").iter().any(crosses)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(crosses)
    })
}

fn containers<'p>(pod: &'p Value, which: &str) -> &'p [Value] {
    pod.at(&["spec", which]).and_then(Value::as_list).unwrap_or_default()
}
