//! The rules of services, checked after addresses and ports were allocated.

mod addresses;

use object::Value;

use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, Raw, Seen, int, items, member, text, texts};
use crate::workload::{SPEC, STATUS};
use crate::write::Write;

use super::update::{is_external, needs_health_check};

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const AFFINITY_SECONDS_MAX: i64 = 86_400;
const BALANCER_ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    write.check_metadata(errors);
    let (spec, old) = (write.spec(), write.old_spec());
    if write.is_status() {
        let old = write.old_status().and_then(|s| s.get("loadBalancer"));
        return check_balancer_status(write.status(), old, text(spec, "type"), errors);
    }
    if let Some(old) = old {
        addresses::check_update(spec, old, errors);
        check_class(spec, Some(old), errors);
        if needs_health_check(spec)
            && needs_health_check(old)
            && int(spec, "healthCheckNodePort") != int(old, "healthCheckNodePort")
        {
            errors.forbidden(&SPEC.child("healthCheckNodePort"), crate::check::IMMUTABLE);
        }
    }
    check_service(write, spec, errors);
}

/// What is wrong with a service's addresses, families and policy before any are allocated.
pub fn service_address_errors(service: &Value, old: Option<&Value>) -> Vec<object::FieldError> {
    let none = Value::Null;
    let mut errors = Errors::default();
    let spec = |service: &'_ Value| service.get("spec").unwrap_or(&none).clone();
    addresses::check(&spec(service), old.map(spec).as_ref(), &mut errors);
    errors.list
}

fn check_service(write: &Write<'_>, spec: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let annotations = write.new.at(&["metadata", "annotations"]).unwrap_or(&none);
    let annotations_at = Path::Root("metadata.annotations");
    let (mode, hints) = (member(annotations, TOPOLOGY_MODE), member(annotations, TOPOLOGY_HINTS));
    if mode.is_some() && hints.is_some() && mode != hints {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&annotations_at.key(TOPOLOGY_MODE), text(annotations, TOPOLOGY_MODE), detail);
    }
    let kind = text(spec, "type");
    let ports = items(spec, "ports");
    if ports.is_empty() && !addresses::is_headless(spec) && kind != "ExternalName" {
        errors.required(&SPEC.child("ports"), "");
    }
    check_type(spec, kind, errors);
    let mut names = Seen::default();
    for (i, port) in ports.iter().enumerate() {
        let list = SPEC.child("ports");
        check_port(port, names.again(text(port, "name")), ports.len() > 1, &list.index(i), errors);
    }
    errors.labels(&SPEC.child("selector"), spec.get("selector"));
    check_affinity(spec, errors);
    addresses::check(spec, write.old_spec(), errors);
    let before: Vec<&str> =
        write.old_spec().map(|old| texts(old, "externalIPs").collect()).unwrap_or_default();
    for (i, ip) in texts(spec, "externalIPs").enumerate() {
        let list = SPEC.child("externalIPs");
        let at = list.index(i);
        let found = errors.len();
        errors.ip(&at, ip, &before);
        if errors.len() == found {
            endpoint_ip(ip, &at, errors);
        }
    }
    errors.choice(&SPEC.child("type"), kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]);
    check_unique_ports(ports, kind, errors);
    check_source_ranges(write, spec, kind, annotations, errors);
    let allocate = member(spec, "allocateLoadBalancerNodePorts");
    if allocate.is_some() && kind != "LoadBalancer" {
        errors.forbidden(&SPEC.child("allocateLoadBalancerNodePorts"), BALANCER_ONLY);
    }
    if allocate.is_none() && kind == "LoadBalancer" {
        errors.required(&Path::Root("allocateLoadBalancerNodePorts"), "");
    }
    check_class(spec, None, errors);
    check_traffic(spec, kind, errors);
}

fn check_type(spec: &Value, kind: &str, errors: &mut Errors) {
    match kind {
        "LoadBalancer" | "NodePort" if addresses::is_headless(spec) => {
            let at = SPEC.child("clusterIPs");
            errors.invalid(&at.index(0), "None", format!("may not be set to 'None' for {kind} services"));
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            for list in ["clusterIPs", "ipFamilies"] {
                if !items(spec, list).is_empty() {
                    errors.forbidden(&SPEC.child(list), detail);
                }
            }
            if member(spec, "ipFamilyPolicy").is_some() {
                errors.forbidden(&SPEC.child("ipFamilyPolicy"), detail);
            }
            let name = text(spec, "externalName");
            errors.need_subdomain(&SPEC.child("externalName"), name.strip_suffix('.').unwrap_or(name));
        }
        _ => {}
    }
}

fn check_port(port: &Value, again: bool, named: bool, at: &Path<'_>, errors: &mut Errors) {
    let name = text(port, "name");
    if !name.is_empty() {
        errors.dns_label(&at.child("name"), name);
        if again {
            errors.duplicate(&at.child("name"), name);
        }
    } else if named {
        errors.required(&at.child("name"), "");
    }
    errors.port_number(&at.child("port"), int(port, "port").unwrap_or(0));
    errors.choice(&at.child("protocol"), text(port, "protocol"), &PROTOCOLS);
    errors.port_number_or_name(&at.child("targetPort"), port.get("targetPort"));
    if let Some(protocol) = member(port, "appProtocol").and_then(Value::as_str) {
        errors.qualified(&at.child("appProtocol"), protocol);
    }
}

fn check_affinity(spec: &Value, errors: &mut Errors) {
    let affinity = text(spec, "sessionAffinity");
    errors.choice(&SPEC.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    let config = member(spec, "sessionAffinityConfig");
    let at = SPEC.child("sessionAffinityConfig");
    let when = "when session affinity type is ClientIP";
    match (affinity, config) {
        ("None", Some(_)) => errors.forbidden(&at, "must not be set when session affinity is None"),
        ("ClientIP", None) => errors.required(&at, when),
        ("ClientIP", Some(config)) => {
            let client_at = at.child("clientIP");
            let Some(client) = member(config, "clientIP") else { return errors.required(&client_at, when) };
            let seconds_at = client_at.child("timeoutSeconds");
            match int(client, "timeoutSeconds") {
                None => errors.required(&seconds_at, when),
                Some(seconds) if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) => {
                    let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                    errors.invalid(&seconds_at, seconds, detail);
                }
                Some(_) => {}
            }
        }
        _ => {}
    }
}

fn check_unique_ports(ports: &[Value], kind: &str, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let node_port = |p: &Value| int(p, "nodePort").unwrap_or(0);
    if kind == "ClusterIP" {
        for (i, _) in ports.iter().enumerate().filter(|(_, p)| node_port(p) != 0) {
            let at = list.index(i);
            errors.forbidden(&at.child("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = Seen::default();
    for (i, port) in ports.iter().enumerate().filter(|(_, p)| node_port(p) != 0) {
        if seen.again((node_port(port), text(port, "protocol"))) {
            errors.duplicate(&list.index(i).child("nodePort"), node_port(port));
        }
    }
    let mut seen = Seen::default();
    for (i, port) in ports.iter().enumerate() {
        let number = |p: &Value| int(p, "port").unwrap_or(0);
        if seen.again((number(port), text(port, "protocol"))) {
            // The key upstream compares by, as its internal type prints it.
            let shown = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{},"TargetPort":0,"NodePort":0}}"#,
                object::quote(text(port, "protocol")),
                number(port)
            );
            errors.duplicate(&list.index(i), Raw(&shown));
        }
    }
}

fn check_source_ranges(
    write: &Write<'_>,
    spec: &Value,
    kind: &str,
    annotations: &Value,
    errors: &mut Errors,
) {
    if !items(spec, "loadBalancerSourceRanges").is_empty() {
        let at = SPEC.child("LoadBalancerSourceRanges");
        if kind != "LoadBalancer" {
            errors.forbidden(&at, BALANCER_ONLY);
        }
        let ranges = |spec: &Value| -> Vec<String> {
            texts(spec, "loadBalancerSourceRanges").map(|r| r.trim().to_owned()).collect()
        };
        let old = write.old_spec().map(ranges).unwrap_or_default();
        let before: Vec<&str> = old.iter().map(String::as_str).collect();
        for (i, range) in ranges(spec).iter().enumerate() {
            errors.cidr(&at.index(i), range, &before);
        }
        return;
    }
    let Some(value) = member(annotations, SOURCE_RANGES).and_then(Value::as_str) else { return };
    let parent = Path::Root("metadata.annotations");
    let at = parent.key(SOURCE_RANGES);
    if kind != "LoadBalancer" {
        errors.forbidden(&at, BALANCER_ONLY);
    }
    let before = write.old.and_then(|old| old.str_at(&["metadata", "annotations", SOURCE_RANGES]));
    if before.unwrap_or_default() != value || write.old.is_none() {
        for range in value.split(',').filter(|_| !value.trim().is_empty()) {
            errors.cidr(&at, range.trim(), &[]);
        }
    }
}

fn check_class(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    let class = member(spec, "loadBalancerClass");
    let at = SPEC.child("loadBalancerClass");
    let balancer = |spec: &Value| text(spec, "type") == "LoadBalancer";
    if let Some(old) = old
        && balancer(old)
        && balancer(spec)
        && class != member(old, "loadBalancerClass")
    {
        errors.invalid(&at, class, "may not change once set");
    }
    match class {
        Some(class) if balancer(spec) => errors.qualified(&at, class.as_str().unwrap_or_default()),
        Some(_) => errors.forbidden(&at, BALANCER_ONLY),
        None => {}
    }
}

fn check_traffic(spec: &Value, kind: &str, errors: &mut Errors) {
    let policy = text(spec, "externalTrafficPolicy");
    let at = SPEC.child("externalTrafficPolicy");
    if is_external(spec) {
        errors.choice(&at, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        errors.invalid(&at, policy, "may only be set for externally-accessible services");
    }
    let port = int(spec, "healthCheckNodePort").unwrap_or(0);
    let at = SPEC.child("healthCheckNodePort");
    match (needs_health_check(spec), port) {
        (false, 0) => {}
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&at, port, detail);
        }
        (true, 0) => errors.required(&at, ""),
        (true, port) => errors.port_number(&at, port),
    }
    let at = SPEC.child("internalTrafficPolicy");
    match member(spec, "internalTrafficPolicy").and_then(Value::as_str) {
        None if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") => errors.required(&at, ""),
        None => {}
        Some(policy) => errors.one_of(&at, policy, &["Cluster", "Local"]),
    }
    let ways = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    errors.one_of_member(&SPEC, spec, "trafficDistribution", &ways);
}

/// An address that traffic can be sent to from elsewhere.
pub(crate) fn endpoint_ip(value: &str, at: &Path<'_>, errors: &mut Errors) {
    let Ip::Good(ip) = parse_ip(value) else {
        if matches!(parse_ip(value), Ip::Bad) {
            errors.invalid(at, value, "must be a valid IP address");
        }
        return;
    };
    let ip = ip.to_canonical();
    if ip.is_unspecified() {
        errors.invalid(at, value, format!("may not be unspecified ({value})"));
    }
    if ip.is_loopback() {
        errors.invalid(at, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    let (local, multicast) = match ip {
        std::net::IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        std::net::IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if local {
        errors.invalid(at, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        errors.invalid(at, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

/// The status of a load balancer, of services and ingresses.
fn check_balancer_status(status: &Value, old: Option<&Value>, kind: &str, errors: &mut Errors) {
    let Some(balancer) = member(status, "loadBalancer") else { return };
    let at = STATUS.child("loadBalancer");
    let at = at.child("ingress");
    let entries = items(balancer, "ingress");
    if kind != "LoadBalancer" && !entries.is_empty() {
        return errors.forbidden(&at, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let before: Vec<&str> =
        old.map(|o| items(o, "ingress").iter().map(|i| text(i, "ip")).collect()).unwrap_or_default();
    for (i, entry) in entries.iter().enumerate() {
        let at = at.index(i);
        let (ip, host) = (text(entry, "ip"), text(entry, "hostname"));
        if !ip.is_empty() {
            errors.ip(&at.child("ip"), ip, &before);
        }
        let mode_at = at.child("ipMode");
        match (member(entry, "ipMode").and_then(Value::as_str), ip.is_empty()) {
            (None, false) => errors.required(&mode_at, "must be specified when `ip` is set"),
            (Some(_), true) => errors.forbidden(&mode_at, "may not be specified when `ip` is not set"),
            (Some(mode), false) => errors.one_of(&mode_at, mode, &["Proxy", "VIP"]),
            (None, true) => {}
        }
        if !host.is_empty() {
            errors.subdomain(&at.child("hostname"), host);
            if !matches!(parse_ip(host), Ip::Bad) {
                errors.invalid(&at.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}
