//! Fields that are cleared when the type of a service changes: those the server allocated for the old type.
//!
//! Only fields the client left unchanged are cleared; those it set for a type that does not use them are left to validation.

use std::collections::BTreeSet;

use object::{Map, Value};

use crate::check::{int, items, member, text};

const BALANCER: &str = "LoadBalancer";

pub(super) fn drop_what_the_type_left(new: &mut Value, old: &Value) {
    let none = Value::Null;
    let old_spec = old.get("spec").unwrap_or(&none);
    let balancer = {
        let Some(spec) = new.as_map_mut().and_then(|m| m.get_mut("spec")) else { return };
        drop_from_spec(spec, old_spec);
        drop_internal_policy(spec);
        text(spec, "type") == BALANCER
    };
    // Taking the load balancer down takes a while, but is not shown.
    if !balancer && let Some(status) = new.as_map_mut().and_then(|m| m.get_mut("status")) {
        status.make_map().set("loadBalancer", Map::default());
    }
}

/// What a new service does not keep.
pub(super) fn drop_on_create(new: &mut Value) {
    if let Some(spec) = new.as_map_mut().and_then(|m| m.get_mut("spec")) {
        drop_internal_policy(spec);
    }
}

fn drop_from_spec(spec: &mut Value, old: &Value) {
    let now = spec.clone();
    let same = |name: &str| member(&now, name) == member(old, name);
    let same_text = |name: &str| text(&now, name) == text(old, name);
    let drop = &mut |spec: &mut Value, name: &str| {
        spec.make_map().remove(name);
    };
    if needs_address(old) && !needs_address(&now) {
        if same_text("clusterIP") && items(&now, "clusterIPs") == items(old, "clusterIPs") {
            drop(spec, "clusterIP");
            drop(spec, "clusterIPs");
        }
        if items(&now, "ipFamilies") == items(old, "ipFamilies") {
            drop(spec, "ipFamilies");
        }
        if same("ipFamilyPolicy") {
            drop(spec, "ipFamilyPolicy");
        }
    }
    if needs_node_port(old) && !needs_node_port(&now) {
        let before: BTreeSet<_> = node_ports(old).into_iter().collect();
        if node_ports(&now).iter().all(|port| before.contains(port))
            && let Some(Value::List(ports)) = spec.make_map().get_mut("ports")
        {
            ports.iter_mut().filter_map(Value::as_map_mut).for_each(|port| {
                port.remove("nodePort");
            });
        }
    }
    let same_check = int(&now, "healthCheckNodePort") == int(old, "healthCheckNodePort");
    if needs_health_check(old) && !needs_health_check(&now) && same_check {
        drop(spec, "healthCheckNodePort");
    }
    let (balanced, was_balanced) = (text(&now, "type") == BALANCER, text(old, "type") == BALANCER);
    if was_balanced && !balanced {
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(name) {
                drop(spec, name);
            }
        }
    }
    if is_external(old) && !is_external(&now) && same_text("externalTrafficPolicy") {
        drop(spec, "externalTrafficPolicy");
    }
}

/// An ExternalName service has no internal traffic policy, whoever set it; an invalid policy is left to validation.
fn drop_internal_policy(spec: &mut Value) {
    if !needs_address(spec) && matches!(text(spec, "internalTrafficPolicy"), "Cluster" | "Local") {
        spec.make_map().remove("internalTrafficPolicy");
    }
}

fn needs_address(spec: &Value) -> bool {
    text(spec, "type") != "ExternalName"
}

fn needs_node_port(spec: &Value) -> bool {
    matches!(text(spec, "type"), "NodePort" | BALANCER)
}

fn node_ports(spec: &Value) -> Vec<i64> {
    items(spec, "ports").iter().filter_map(|p| int(p, "nodePort")).filter(|port| *port != 0).collect()
}

pub(super) fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == BALANCER && text(spec, "externalTrafficPolicy") == "Local"
}

pub(super) fn is_external(spec: &Value) -> bool {
    needs_node_port(spec) || (text(spec, "type") == "ClusterIP" && !items(spec, "externalIPs").is_empty())
}
