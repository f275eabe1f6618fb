//! Pod-level resources: if the pod sets some, the rest defaults to those of its containers.
//!
//! ```text
//! containers' limits   ──(huge pages only)──> resources.limits ──┐
//! containers' requests ──(cpu and memory)───> resources.requests <┘ what is left
//! ```

use std::collections::BTreeMap;

use catalog::Name;
use object::quantity::Quantity;
use object::{Map, Value};

use crate::defaults::fill::{at, copy_missing_if, inside, is_empty};

const HUGE_PAGES: &str = "hugepages-";

pub(crate) fn of_the_whole_pod(spec: &mut Map) {
    let Some(resources) = spec.get("resources").and_then(Value::as_map) else { return };
    if is_empty(resources, "limits") && is_empty(resources, "requests") {
        return;
    }
    let missing = |list: &str, name: &str| {
        resources.get(list).and_then(Value::as_map).is_none_or(|there| !there.contains(name))
    };
    let mut limits = sum(spec, "limits");
    limits.retain(|(name, _)| {
        name.starts_with(HUGE_PAGES) && missing("requests", name) && missing("limits", name)
    });
    let mut requests = Vec::new();
    if !limits.is_empty() || !is_empty(resources, "limits") {
        requests = sum(spec, "requests");
        requests.retain(|(name, _)| matches!(&**name, "cpu" | "memory") && missing("requests", name));
    }
    let Some(resources) = at(spec, "resources") else { return };
    put(resources, "limits", limits);
    put(resources, "requests", requests);
    // Resources not supported at pod level are left to validation.
    copy_missing_if(resources, "limits", "requests", is_for_pods);
}

fn is_for_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn put(resources: &mut Map, list: &'static str, entries: Vec<(Name, Value)>) {
    for (name, value) in entries {
        if let Some(list) = inside(resources, list) {
            list.set(name, value);
        }
    }
}

/// A quantity, with its text while it is a copy and no sum.
#[derive(Clone)]
struct Amount<'a> {
    quantity: Quantity,
    text: Option<&'a str>,
}

type Amounts<'a> = BTreeMap<&'a Name, Amount<'a>>;

/// What the pod needs at its busiest: all containers together, or an init container and the sidecars before it.
fn sum(spec: &Map, list: &str) -> Vec<(Name, Value)> {
    let mut total = Amounts::new();
    for container in containers(spec, "containers") {
        add(&mut total, &of_container(container, list));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in containers(spec, "initContainers") {
        let own = of_container(container, list);
        if container.get("restartPolicy").and_then(Value::as_str) == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut together = own;
            add(&mut together, &sidecars);
            raise(&mut peak, &together);
        }
    }
    raise(&mut total, &peak);
    total
        .into_iter()
        .map(|(name, amount)| {
            let text = amount.text.map_or_else(|| amount.quantity.to_string(), str::to_owned);
            (name.clone(), Value::Str(text))
        })
        .collect()
}

fn containers<'a>(spec: &'a Map, name: &str) -> impl Iterator<Item = &'a Map> {
    let list = spec.get(name).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_map)
}

fn of_container<'a>(container: &'a Map, list: &str) -> Amounts<'a> {
    let Some(Value::Map(list)) = container.get("resources").and_then(|r| r.get(list)) else {
        return Amounts::new();
    };
    let read = |text| Some(Amount { quantity: Quantity::parse(text).ok()?, text: Some(text) });
    list.iter().filter_map(|(name, value)| Some((name, read(value.as_str()?)?))).collect()
}

fn add<'a>(list: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        match list.get_mut(name) {
            Some(sum) => *sum = Amount { quantity: sum.quantity + amount.quantity, text: None },
            None => drop(list.insert(name, amount.clone())),
        }
    }
}

fn raise<'a>(list: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, amount) in other {
        match list.get_mut(name) {
            Some(highest) if amount.quantity > highest.quantity => *highest = amount.clone(),
            Some(_) => {}
            None => drop(list.insert(name, amount.clone())),
        }
    }
}
