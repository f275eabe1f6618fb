//! What people are told of an eviction.

use object::Value;
use object::quantity::{Format, Quantity};

use super::signal::{Condition, Observations, Resource};
use super::threshold::Threshold;
use crate::generate::resources::{amount, has_pod_level};
use crate::server::stats::{ContainerStats, PodStats};

pub const REASON: &str = "Evicted";

/// The message, and the annotations of the event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionMessage {
    pub message: String,
    pub annotations: Vec<(String, String)>,
}

/// Why a new pod is not taken.
pub fn refused<'a>(conditions: impl IntoIterator<Item = &'a Condition>) -> String {
    let names: Vec<&str> = conditions.into_iter().map(|condition| condition.as_str()).collect();
    format!("The node had condition: [{}]. ", names.join(" "))
}

/// `due`: the thresholds that were crossed, in their order.
pub fn pressure(
    resource: Resource,
    pod: &Value,
    stats: Option<&PodStats>,
    due: &[&Threshold],
    observations: &Observations,
) -> EvictionMessage {
    let name = resource.as_str();
    let mut message = format!("The node was low on resource: {name}. ");
    let first = due.iter().filter(|threshold| threshold.signal.resource() == resource);
    let first = first.filter_map(|threshold| Some((threshold, observations.get(&threshold.signal)?))).next();
    if let Some((threshold, observed)) = first {
        let wanted = threshold.value.of(observed.capacity);
        message.push_str(&format!("Threshold quantity: {wanted}, available: {}. ", observed.available));
    }
    let Some(stats) = stats else { return EvictionMessage { message, annotations: Vec::new() } };
    let mut annotations = Vec::new();
    if resource == Resource::Memory
        && has_pod_level(pod, "requests")
        && let Some(request) = pod.str_at(&["spec", "resources", "requests", name])
        && let Some(used) = &stats.memory
    {
        let used = binary(used.working_set_bytes.as_ref().map_or(0, |used| used.value));
        let pod_name = pod.str_at(&["metadata", "name"]).unwrap_or("");
        message.push_str(&format!(
            "Pod {pod_name} was using {used}, request is {request}, has larger consumption of {name}. "
        ));
        annotations.push(("offending_pod".to_owned(), pod_name.to_owned()));
        annotations.push(("offending_pod_usage".to_owned(), used.to_string()));
    }
    let list = |path: &str| pod.at(&["spec", path]).and_then(Value::as_list).unwrap_or_default();
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for of in &stats.containers {
        let mut all = list("containers").iter().chain(list("initContainers"));
        let Some(container) = all.find(|container| container.str_at(&["name"]) == Some(of.name.as_str()))
        else {
            continue;
        };
        let request = amount(container, "requests", name);
        let Some(used) = used(of, resource).filter(|used| *used > request) else { continue };
        message.push_str(&format!(
            "Container {} was using {used}, request is {request}, has larger consumption of {name}. ",
            of.name
        ));
        names.push(of.name.clone());
        usages.push(used.to_string());
    }
    annotations.push(("offending_containers".to_owned(), names.join(",")));
    annotations.push(("offending_containers_usage".to_owned(), usages.join(",")));
    annotations.push(("starved_resource".to_owned(), name.to_owned()));
    EvictionMessage { message, annotations }
}

fn used(of: &ContainerStats, resource: Resource) -> Option<Quantity> {
    match resource {
        Resource::Memory => of.memory.as_ref()?.working_set_bytes.as_ref().map(|used| binary(used.value)),
        Resource::EphemeralStorage => {
            let root = of.rootfs.as_ref()?.used_bytes?;
            Some(binary(root.saturating_add(of.logs.as_ref()?.used_bytes?)))
        }
        Resource::Inodes | Resource::Pids => None,
    }
}

fn binary(bytes: u64) -> Quantity {
    Quantity::from_i64(i64::try_from(bytes).unwrap_or(i64::MAX), Format::BinarySi)
}
