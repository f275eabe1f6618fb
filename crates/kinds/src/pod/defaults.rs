//! Pods: what is true of a pod and not of a template: requests follow limits, host ports follow ports.

mod container;
mod image;
mod resources;
mod spec;
mod volume;

pub(crate) use spec::{pointed_template, template};
pub(crate) use volume::persistent_source;

use catalog::Name;
use object::{Map, Value};

use crate::defaults::amounts;
use crate::defaults::fill::Literal::Bool;
use crate::defaults::fill::{Default, at, copy_missing, each, fill, inside, pointer, text};

const POD: &[Default] = &[pointer("enableServiceLinks", Bool(true))];

pub(crate) fn apply(pod: &mut Map) {
    spec::drop_old_annotations(pod);
    if let Some(spec) = inside(pod, "spec") {
        for containers in ["containers", "initContainers"] {
            each(spec, containers, |container| {
                if let Some(resources) = at(container, "resources") {
                    copy_missing(resources, "limits", "requests");
                }
            });
        }
        resources::of_the_whole_pod(spec);
        fill(spec, POD);
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            for containers in ["containers", "initContainers"] {
                each(spec, containers, |container| each(container, "ports", host_port));
            }
        }
        spec::spec(spec);
        at_least_a_moment(spec);
    }
    if let Some(status) = at(pod, "status") {
        for containers in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
            each(status, containers, allocated);
        }
        allocated(status);
        addresses(status);
    }
}

/// A negative grace period is one second.
fn at_least_a_moment(spec: &mut Map) {
    if let Some(grace) = spec.get_mut("terminationGracePeriodSeconds")
        && grace.as_int().is_some_and(|seconds| seconds < 0)
    {
        *grace = Value::Int(1);
    }
}

/// `podIP` is the first of `podIPs`; if they differ, `podIP` wins.
fn addresses(status: &mut Map) {
    let first = status.get("podIPs").and_then(Value::as_list).and_then(|list| list.first());
    let first = first.and_then(|ip| ip.get("ip")).and_then(Value::as_str).unwrap_or_default();
    let address = text(status, "podIP");
    if address == first {
        return;
    }
    if address.is_empty() {
        let first = Value::from(first);
        status.set("podIP", first);
    } else {
        let only = Map::from_iter([(Name::Static("ip"), Value::from(address))]);
        status.set("podIPs", vec![Value::Map(only)]);
    }
}

/// On the host's network a port of the container is that port of the host.
fn host_port(port: &mut Map) {
    let own = port.get("containerPort").and_then(Value::as_int).unwrap_or(0);
    let unset = port.get("hostPort").is_none_or(|host| host.is_null() || host.as_int() == Some(0));
    if unset && own != 0 {
        port.set("hostPort", own);
    }
}

fn allocated(status: &mut Map) {
    amounts::round(status, "allocatedResources");
    amounts::round_requirements(status, "resources");
}
