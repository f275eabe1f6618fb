//! Services: type, affinity, ports and traffic policies. Addresses and node ports are allocated, not defaulted.

use catalog::Name;
use object::{Map, Value};

use crate::defaults::fill::Literal::{Bool, Int, Text};
use crate::defaults::fill::{Default, at, each, fill, inside, is_empty, is_set, plain, pointer, text};

const SPEC: &[Default] = &[plain("sessionAffinity", Text("None")), plain("type", Text("ClusterIP"))];
const PORT: &[Default] = &[plain("protocol", Text("TCP"))];
const STICKY: &[Default] = &[pointer("timeoutSeconds", Int(10_800))];
const EXTERNAL: &[Default] = &[plain("externalTrafficPolicy", Text("Cluster"))];
const INTERNAL: &[Default] = &[pointer("internalTrafficPolicy", Text("Cluster"))];
const BALANCED: &[Default] = &[pointer("allocateLoadBalancerNodePorts", Bool(true))];
const INGRESS: &[Default] = &[pointer("ipMode", Text("VIP"))];

pub(crate) fn apply(service: &mut Map) {
    let Some(spec) = inside(service, "spec") else { return };
    fill(spec, SPEC);
    match text(spec, "sessionAffinity") {
        "None" => {
            spec.remove("sessionAffinityConfig");
        }
        "ClientIP" => sticky(spec),
        _ => {}
    }
    each(spec, "ports", port);
    let balanced = text(spec, "type") == "LoadBalancer";
    let internal = balanced || matches!(text(spec, "type"), "NodePort" | "ClusterIP");
    let external = match text(spec, "type") {
        "ClusterIP" => !is_empty(spec, "externalIPs"),
        _ => internal,
    };
    if external {
        fill(spec, EXTERNAL);
    }
    if internal {
        fill(spec, INTERNAL);
    }
    if balanced {
        fill(spec, BALANCED);
        if let Some(balancer) = at(service, "status").and_then(|status| at(status, "loadBalancer")) {
            each(balancer, "ingress", |ingress| {
                if !is_empty(ingress, "ip") {
                    fill(ingress, INGRESS);
                }
            });
        }
    }
}

/// A client stays with its pod for three hours.
fn sticky(spec: &mut Map) {
    let unset = |value: &Value| matches!(value, Value::Null | Value::Map(_));
    let config = spec.entry(Name::Static("sessionAffinityConfig"));
    if unset(config) {
        let client = config.make_map().entry(Name::Static("clientIP"));
        if unset(client) {
            fill(client.make_map(), STICKY);
        }
    }
}

/// A port leads to the same port of the pod.
fn port(port: &mut Map) {
    fill(port, PORT);
    let unset = !is_set(port, "targetPort") || is_empty(port, "targetPort");
    let own = port.get("port").and_then(Value::as_int).unwrap_or(0);
    if unset && own != 0 {
        port.set("targetPort", own);
    }
}
