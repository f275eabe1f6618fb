//! The claim that stands for a pod's extended resources where a node has no device plugin for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use devices::Classes;
use object::{Map, Value};

use crate::pod::ContainerRequests;

/// What is asked of devices for one node, and which of a container's resources each request stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtendedRequests {
    pub requests: Vec<DeviceRequest>,
    pub mappings: Vec<Mapping>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRequest {
    pub name: String,
    pub class: Arc<str>,
    pub count: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub container: Arc<str>,
    pub resource: Arc<str>,
    pub request: String,
}

impl ExtendedRequests {
    /// Of all these containers, for the resources that the node has to provide by devices, sorted.
    pub fn new(
        containers: &[ContainerRequests],
        resources: &[&Arc<str>],
        classes: &Classes,
    ) -> ExtendedRequests {
        let mut found = ExtendedRequests::default();
        for resource in resources {
            if let Some(class) = classes.for_extended_resource(resource) {
                found.add(containers, resource, &class.name);
            }
        }
        found.requests.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    fn add(&mut self, containers: &[ContainerRequests], resource: &Arc<str>, class: &Arc<str>) {
        let mut long_lived: Vec<Option<DeviceRequest>> = vec![None; containers.len()];
        for (i, container) in containers.iter().enumerate().filter(|(_, c)| !c.short_lived) {
            let (request, mappings) = of_container(i, container, resource, class, &[]);
            long_lived[i] = request;
            self.mappings.extend(mappings);
        }
        // Containers that end before others begin use devices one after another: the largest request is enough for all.
        let mut largest: Option<DeviceRequest> = None;
        let mut made = Vec::new();
        let mut short_lived = Vec::new();
        for (i, container) in containers.iter().enumerate().filter(|(_, c)| c.short_lived) {
            // What comes later has its devices already.
            let (request, mappings) = of_container(i, container, resource, class, &long_lived[i..]);
            if let Some(request) = request {
                made.push(request.name.clone());
                if largest.as_ref().is_none_or(|largest| largest.count < request.count) {
                    largest = Some(request);
                }
            }
            short_lived.extend(mappings);
        }
        if let Some(largest) = &largest {
            for mapping in short_lived.iter_mut().filter(|mapping| made.contains(&mapping.request)) {
                mapping.request.clone_from(&largest.name);
            }
        }
        self.requests.extend(largest);
        self.requests.extend(long_lived.into_iter().flatten());
        self.mappings.extend(short_lived);
    }

    /// The spec of a claim for them.
    pub fn spec(&self) -> Value {
        let request = |request: &DeviceRequest| {
            let mut exactly = Map::default();
            exactly.set("deviceClassName", request.class.to_string());
            exactly.set("allocationMode", "ExactCount");
            exactly.set("count", request.count);
            let mut entry = Map::default();
            entry.set("name", request.name.clone());
            entry.set("exactly", Value::Map(exactly));
            Value::Map(entry)
        };
        let mut spec = Value::map();
        spec.map_at(&["devices"]).set("requests", self.requests.iter().map(request).collect::<Vec<_>>());
        spec
    }

    /// What the pod's status says of them.
    pub fn status(&self, claim: &str) -> Value {
        let mapping = |mapping: &Mapping| {
            let mut entry = Map::default();
            entry.set("containerName", mapping.container.to_string());
            entry.set("resourceName", mapping.resource.to_string());
            entry.set("requestName", mapping.request.clone());
            Value::Map(entry)
        };
        let mut status = Map::default();
        status.set("requestMappings", self.mappings.iter().map(mapping).collect::<Vec<_>>());
        status.set("resourceClaimName", claim.to_owned());
        Value::Map(status)
    }
}

/// What a container asks for beyond the devices it can use of others, and which those are.
fn of_container(
    index: usize,
    container: &ContainerRequests,
    resource: &Arc<str>,
    class: &Arc<str>,
    reusable: &[Option<DeviceRequest>],
) -> (Option<DeviceRequest>, Vec<Mapping>) {
    let asked = container.requests.iter().position(|(name, _)| name == resource);
    let Some((at, amount)) = asked.map(|at| (at, container.requests[at].1)).filter(|(_, amount)| *amount > 0)
    else {
        return (None, Vec::new());
    };
    let mapping = |request: &str| Mapping {
        container: container.name.clone(),
        resource: resource.clone(),
        request: request.to_owned(),
    };
    let (mut there, mut mappings) = (0i64, Vec::new());
    for other in reusable.iter().flatten() {
        there = there.saturating_add(other.count);
        mappings.push(mapping(&other.name));
        if there >= amount {
            return (None, mappings);
        }
    }
    let name = format!("container-{index}-request-{at}");
    mappings.push(mapping(&name));
    (Some(DeviceRequest { name, class: class.clone(), count: amount - there }), mappings)
}

/// The devices one node has to provide, by resource: nodes alike share what was made of them.
pub type ByResources = BTreeMap<Vec<Arc<str>>, Arc<(ExtendedRequests, devices::Claim)>>;
