//! What a pod asks for in all: containers together, init containers at their peak, the pod's own, overhead.

use std::collections::BTreeMap;

use object::Value;

use crate::read::{amounts, list, text};

/// What a container that names no cpu or memory counts for when nodes are compared.
const LEAST: [(&str, i64); 2] = [("cpu", 100), ("memory", 200 * 1024 * 1024)];

type Amounts = BTreeMap<String, i64>;

/// By name, sorted. With `at_least`, each container counts for a minimum of cpu and memory.
pub fn requests(spec: Option<&Value>, status: Option<&Value>, at_least: bool) -> Vec<(String, i64)> {
    let infeasible = list(status, "conditions")
        .iter()
        .find(|c| text(c, "type") == "PodResizePending")
        .is_some_and(|c| text(c, "reason") == "Infeasible");
    let of = |container: &Value, statuses: &str, resizable: bool| {
        let mut asked = map(container.at(&["resources", "requests"]));
        let name = text(container, "name");
        let known = list(status, statuses).iter().find(|s| text(s, "name") == name);
        // A container that is being resized holds the larger of what it has and what it shall have.
        if let Some(known) = known.filter(|s| resizable && s.get("resources").is_some_and(|r| !r.is_null())) {
            if infeasible {
                asked.clear();
            }
            raise(&mut asked, &map(known.at(&["resources", "requests"])));
            raise(&mut asked, &map(known.get("allocatedResources")));
        }
        for (name, least) in LEAST.iter().filter(|_| at_least) {
            asked.entry((*name).to_owned()).or_insert(*least);
        }
        asked
    };

    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut total, &of(container, "containerStatuses", true));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let sidecar = text(container, "restartPolicy") == "Always";
        let mut asked = of(container, "initContainerStatuses", sidecar);
        if sidecar {
            add(&mut total, &asked);
            add(&mut sidecars, &asked);
            asked = sidecars.clone();
        } else {
            add(&mut asked, &sidecars);
        }
        raise(&mut peak, &asked);
    }
    raise(&mut total, &peak);

    for (name, amount) in amounts(spec.and_then(|s| s.at(&["resources", "requests"]))) {
        if name == "cpu" || name == "memory" || name.starts_with("hugepages-") {
            total.insert(name.to_owned(), amount);
        }
    }
    add(&mut total, &map(spec.and_then(|s| s.get("overhead"))));
    // Bounded, so that sums over all pods of a node stay exact: nobody has that much of anything.
    total.into_iter().map(|(name, amount)| (name, amount.clamp(0, 1 << 52))).collect()
}

fn map(value: Option<&Value>) -> Amounts {
    amounts(value).into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let slot = to.entry(name.clone()).or_insert(0);
        *slot = slot.saturating_add(*amount);
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let slot = to.entry(name.clone()).or_insert(*amount);
        *slot = (*slot).max(*amount);
    }
}
