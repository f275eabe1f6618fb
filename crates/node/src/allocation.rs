//! What a node gave a pod. Spec is what a pod asks for; that may change while the node has no room for it.

use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::{Map, Value};

use crate::pod::resources::quantity;
use crate::pod::{Container, Pod, Role};

/// The `resources` of a pod and of its containers as the node allocated them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Of the pod as a whole.
    pub pod: Option<Value>,
    /// By name; `None`: the container asked for nothing.
    pub containers: BTreeMap<String, Option<Value>>,
    /// Containers that get it by a restart, by name, with the number of restarts of the run that has what was given before.
    pub restarts: BTreeMap<String, u32>,
}

impl Allocation {
    /// All that the pod asks for now.
    pub fn of(pod: &Pod<'_>) -> Allocation {
        let containers = pod.containers.iter().filter(|c| is_resizable(c));
        Allocation {
            pod: pod.tree.at(&["spec", "resources"]).cloned(),
            containers: containers.map(|c| (c.name.to_owned(), resources(c.spec).cloned())).collect(),
            restarts: BTreeMap::new(),
        }
    }

    /// What a pod was given that is on the node already, as the API knows it. Containers of which its status says nothing were not
    /// started yet: nobody but the node knows what they were given, so it is what they ask for now.
    pub fn of_status(pod: &Pod<'_>) -> Allocation {
        let mut allocation = Allocation::of(pod);
        for container in pod.containers.iter().filter(|c| is_resizable(c)) {
            if let Some(given) = given_by_status(pod, container) {
                allocation.containers.insert(container.name.to_owned(), Some(given));
            }
        }
        allocation.pod = pod_level_by_status(pod).or(allocation.pod);
        allocation
    }

    /// The pod with what it was given in place of what it asks for; `None`: that is the same.
    pub fn given(&self, pod: &Pod<'_>) -> Option<Value> {
        let had = |c: &Container<'_>| self.containers.get(c.name).filter(|_| is_resizable(c));
        let changed = |c: &Container<'_>| had(c).is_some_and(|had| differs(had.as_ref(), resources(c.spec)));
        let pod_changed = differs(self.pod.as_ref(), pod.tree.at(&["spec", "resources"]));
        if !pod_changed && !pod.containers.iter().any(changed) {
            return None;
        }
        let mut tree = pod.tree.clone();
        for list in ["initContainers", "containers"] {
            let Some(Value::List(all)) = tree.map_at(&["spec"]).get_mut(list) else { continue };
            for spec in all {
                let had = spec.str_at(&["name"]).and_then(|name| self.containers.get(name));
                if let Some(had) = had {
                    put(spec.make_map(), had.as_ref());
                }
            }
        }
        if pod_changed {
            put(tree.map_at(&["spec"]), self.pod.as_ref());
        }
        Some(tree)
    }

    /// Does the status of the pod say all of it? What each container has and what the pod as a whole does.
    pub fn is_said(&self, pod: &Pod<'_>) -> bool {
        let mut resizable = pod.containers.iter().filter(|c| is_resizable(c));
        let is_said = |c: &Container<'_>| {
            let given = self.containers.get(c.name).and_then(Option::as_ref);
            said(pod, c).is_some_and(|said| !differs(Some(said), given))
        };
        resizable.all(is_said) && pod_level_by_status(pod).is_none()
    }

    pub fn to_value(&self) -> Value {
        let mut all = Map::with_capacity(3);
        if let Some(of_pod) = &self.pod {
            all.set("resources", of_pod.clone());
        }
        let shown = |given: &Option<Value>| given.clone().unwrap_or_else(Value::map);
        let containers = self.containers.iter().map(|(name, given)| (name.clone().into(), shown(given)));
        all.set("containers", containers.collect::<Map>());
        if !self.restarts.is_empty() {
            let restarts = self.restarts.iter();
            let restarts = restarts.map(|(name, at)| (name.clone().into(), Value::Int(i64::from(*at))));
            all.set("restarts", restarts.collect::<Map>());
        }
        Value::Map(all)
    }

    /// `None`: it is none.
    pub fn from_value(value: &Value) -> Option<Allocation> {
        let members = |name: &str| value.get(name).and_then(Value::as_map);
        let container = |given: &Value| match given.as_map()?.is_empty() {
            true => Some(None),
            false => Some(Some(given.clone())),
        };
        let containers = members("containers")?.iter();
        let containers = containers.map(|(name, given)| Some((name.as_str().to_owned(), container(given)?)));
        let restarts = members("restarts").into_iter().flat_map(Map::iter);
        let attempt = |at: &Value| u32::try_from(at.as_int()?).ok();
        let restarts = restarts.map(|(name, at)| Some((name.as_str().to_owned(), attempt(at)?)));
        Some(Allocation {
            pod: value.get("resources").cloned(),
            containers: containers.collect::<Option<_>>()?,
            restarts: restarts.collect::<Option<_>>()?,
        })
    }
}

fn put(spec: &mut Map, resources: Option<&Value>) {
    match resources {
        Some(resources) => spec.set("resources", resources.clone()),
        None => drop(spec.remove("resources")),
    }
}

pub fn is_resizable(container: &Container<'_>) -> bool {
    container.role != Role::Ephemeral
}

pub fn resources(spec: &Value) -> Option<&Value> {
    spec.get("resources")
}

/// In what can be changed while the pod runs.
pub fn differs(a: Option<&Value>, b: Option<&Value>) -> bool {
    let of = |value: Option<&Value>, list: &str| value.and_then(|value| value.get(list)).cloned();
    ["requests", "limits"].into_iter().any(|list| !kinds::same(of(a, list).as_ref(), of(b, list).as_ref()))
}

/// What the status says a container has: what it was given, once that is done.
pub fn said<'a>(pod: &Pod<'a>, container: &Container<'_>) -> Option<&'a Value> {
    container_status(pod, container)?.get("resources")
}

/// What the pod's status says of a container.
pub(crate) fn container_status<'a>(pod: &Pod<'a>, container: &Container<'_>) -> Option<&'a Value> {
    let (_, list) = container.role.lists();
    let all = pod.tree.at(&["status", list]).and_then(Value::as_list)?;
    all.iter().find(|status| status.str_at(&["name"]) == Some(container.name))
}

/// `None`: what it asks for, as far as the status tells. That has the requests a container was given; its limits are those of before
/// until a resize is done.
fn given_by_status(pod: &Pod<'_>, container: &Container<'_>) -> Option<Value> {
    let said = said(pod, container)?;
    let wanted = resources(container.spec);
    if !differs(Some(said), wanted) {
        return None;
    }
    let allocated = container_status(pod, container)?.get("allocatedResources");
    let allocated = |name: &str| allocated.and_then(|allocated| allocated.get(name));
    let of = |resources: &Value, list: &str, name: &str| resources.at(&[list, name]).cloned();
    let mut given = said.clone();
    let mut is_wanted = true;
    for name in ["cpu", "memory"] {
        let requested = wanted.and_then(|wanted| of(wanted, "requests", name));
        is_wanted &= kinds::same(allocated(name), requested.as_ref());
        let Some(allocated) = allocated(name).filter(|_| given.at(&["requests", name]).is_some()) else {
            continue;
        };
        let (before, limit) = (of(said, "requests", name), of(said, "limits", name));
        given.map_at(&["requests"]).set(name, allocated.clone());
        let amount = |value: &Value| quantity(value).unwrap_or(Quantity::ZERO);
        let follows =
            |limit: &Value| kinds::same(before.as_ref(), Some(limit)) || amount(limit) < amount(allocated);
        if limit.as_ref().is_some_and(follows) {
            given.map_at(&["limits"]).set(name, allocated.clone());
        }
    }
    (!is_wanted).then_some(given)
}

/// What the pod as a whole was given, if that is not what it asks for. The status has more than what the pod asks for: what its
/// containers have in sum.
pub fn pod_level_by_status(pod: &Pod<'_>) -> Option<Value> {
    let wanted = pod.tree.at(&["spec", "resources"])?;
    let said = pod.tree.at(&["status", "resources"])?;
    let mut given = wanted.clone();
    for list in ["requests", "limits"] {
        let Some(Value::Map(amounts)) = given.make_map().get_mut(list) else { continue };
        let names: Vec<String> = amounts.iter().map(|(name, _)| name.as_str().to_owned()).collect();
        for name in names {
            match said.at(&[list, &name]) {
                Some(said) => amounts.set(name, said.clone()),
                // It was added; nothing else can be.
                None if matches!(name.as_str(), "cpu" | "memory") => drop(amounts.remove(&name)),
                None => {}
            }
        }
        if amounts.is_empty() {
            given.make_map().remove(list);
        }
    }
    differs(Some(&given), Some(wanted)).then_some(given)
}
