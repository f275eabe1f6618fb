//! The rules of endpoint slices: addresses of one family, and not too many of anything.

use std::net::IpAddr;

use object::{Value, validate_text};

use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, Seen, entries, items, member, text, texts};
use crate::same;
use crate::service::endpoint_ip;
use crate::write::Write;

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    // Updates are validated as whole slices.
    write.check_whole_metadata(errors);
    let slice = write.new;
    let family = text(slice, "addressType");
    errors.choice(&Path::Root("addressType"), family, &["FQDN", "IPv4", "IPv6"]);
    check_ports(items(slice, "ports"), &Path::Root("ports"), errors);
    // What is stored already is not validated again.
    if !write.old.is_some_and(|old| same(old.get("endpoints"), slice.get("endpoints"))) {
        check_endpoints(items(slice, "endpoints"), family, &Path::Root("endpoints"), errors);
    }
    if let Some(old) = write.old {
        errors.immutable(&Path::Root("addressType"), slice.get("addressType"), old.get("addressType"));
    }
}

fn check_ports(ports: &[Value], at: &Path<'_>, errors: &mut Errors) {
    if ports.len() > PORTS_MAX {
        return errors.too_many(at, ports.len(), PORTS_MAX);
    }
    // Names are looked up sorted: a slice may have thousands.
    let mut names: Vec<&str> = Vec::with_capacity(ports.len());
    for (i, port) in ports.iter().enumerate() {
        let at = at.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            errors.dns_label(&at.child("name"), name);
        }
        match names.binary_search(&name) {
            Ok(_) => errors.duplicate(&at.child("name"), name),
            Err(place) => names.insert(place, name),
        }
        match member(port, "protocol").and_then(Value::as_str) {
            None => errors.required(&at.child("protocol"), ""),
            Some(protocol) => errors.one_of(&at.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]),
        }
        if let Some(protocol) = member(port, "appProtocol").and_then(Value::as_str) {
            errors.qualified(&at.child("appProtocol"), protocol);
        }
    }
}

fn check_endpoints(endpoints: &[Value], family: &str, at: &Path<'_>, errors: &mut Errors) {
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(at, endpoints.len(), ENDPOINTS_MAX);
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let at = at.index(i);
        let addresses = at.child("addresses");
        match items(endpoint, "addresses").len() {
            0 => errors.required(&addresses, "must contain at least 1 address"),
            count if count > ADDRESSES_MAX => errors.too_many(&addresses, count, ADDRESSES_MAX),
            _ => {}
        }
        for (j, address) in texts(endpoint, "addresses").enumerate() {
            check_address(address, family, &addresses, j, errors);
        }
        if let Some(node) = member(endpoint, "nodeName").and_then(Value::as_str) {
            errors.subdomain(&at.child("nodeName"), node);
        }
        let topology = at.child("deprecatedTopology");
        let labels = entries(endpoint, "deprecatedTopology").count();
        if labels > TOPOLOGY_MAX {
            errors.too_many(&topology, labels, TOPOLOGY_MAX);
        }
        errors.labels(&topology, endpoint.get("deprecatedTopology"));
        if let Some(host) = member(endpoint, "hostname").and_then(Value::as_str) {
            errors.dns_label(&at.child("hostname"), host);
        }
        if let Some(hints) = member(endpoint, "hints") {
            check_hints(hints, &at.child("hints"), errors);
        }
    }
}

fn check_address(address: &str, family: &str, list: &Path<'_>, i: usize, errors: &mut Errors) {
    let at = list.index(i);
    match family {
        "IPv4" | "IPv6" => {
            let before = errors.len();
            errors.ip(&at, address, &[]);
            let Ip::Good(ip) = parse_ip(address) else { return };
            if errors.len() == before && family == "IPv6" && address != ip.to_string() {
                errors.invalid(&at, address, format!("must be in canonical form (\"{ip}\")"));
            }
            if errors.len() > before {
                return;
            }
            if matches!(ip, IpAddr::V4(_)) != (family == "IPv4") {
                errors.invalid(list, address, format!("must be an {family} address"));
            }
            endpoint_ip(address, &at, errors);
        }
        "FQDN" => check_domain(address, &at, errors),
        _ => {}
    }
}

/// At least two labels.
fn check_domain(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(at, "");
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let problems = validate_text::dns1123_subdomain(name);
    if !problems.is_empty() {
        return errors.invalid(at, name, problems.join(","));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return errors.invalid(at, name, detail);
    }
    for label in name.split('.') {
        let problems = validate_text::dns1123_label(label);
        if !problems.is_empty() {
            return errors.invalid(at, label, problems.join(","));
        }
    }
}

fn check_hints(hints: &Value, at: &Path<'_>, errors: &mut Errors) {
    for list in ["forZones", "forNodes"] {
        let at = at.child(list);
        let targets = items(hints, list);
        if targets.len() > HINTS_MAX {
            return errors.too_many(&at, targets.len(), HINTS_MAX);
        }
        let mut seen = Seen::default();
        for (i, target) in targets.iter().enumerate() {
            let at = at.index(i);
            let at = at.child("name");
            let name = text(target, "name");
            if seen.again(name) {
                errors.duplicate(&at, name);
            }
            match list {
                "forZones" => errors.each(&at, name, validate_text::label_value(name)),
                _ => errors.subdomain(&at, name),
            }
        }
    }
}
