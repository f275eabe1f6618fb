//! Cluster addresses of a service and their families: how many, which, and that they stay.

use object::Value;

use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, Seen, items, member, text, texts};
use crate::workload::SPEC;

const ONCE: &str = "may not change once set";

pub(super) fn is_headless(spec: &Value) -> bool {
    let mut ips = texts(spec, "clusterIPs");
    ips.next() == Some("None") && ips.next().is_none()
}

pub(super) fn check(spec: &Value, old: Option<&Value>, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let (ip, ips) = (text(spec, "clusterIP"), items(spec, "clusterIPs"));
    let list = spec.get("clusterIPs");
    let at = SPEC.child("clusterIPs");
    match (ip.is_empty(), ips.first().map(|v| v.as_str().unwrap_or_default())) {
        (false, None) => errors.required(&at, ""),
        (false, Some(first)) if first != ip => {
            errors.invalid(&at, list, "first value must match `clusterIP`")
        }
        (true, Some(_)) => errors.invalid(&at, list, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let families: Vec<&str> = texts(spec, "ipFamilies").collect();
    let mut seen = Seen::default();
    for (i, family) in families.iter().enumerate() {
        let at = SPEC.child("ipFamilies");
        errors.one_of(&at.index(i), family, &["IPv4", "IPv6"]);
        if seen.again(family) {
            errors.duplicate(&at.index(i), *family);
        }
    }
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    errors.one_of_member(&SPEC, spec, "ipFamilyPolicy", &policies);
    let before: Vec<&str> = old.map(|old| texts(old, "clusterIPs").collect()).unwrap_or_default();
    let found = errors.len();
    for (i, ip) in texts(spec, "clusterIPs").enumerate() {
        if i == 0 && ip == "None" {
            if ips.len() > 1 {
                errors.invalid(&at, list, "'None' must be the first and only value");
            }
            continue;
        }
        errors.ip(&at.index(i), ip, &before);
    }
    let readable = errors.len() == found;
    if ips.len() > 2 {
        errors.invalid(&at, list, "may only hold up to 2 values");
    }
    if readable {
        check_families(spec, &families, &at, errors);
    }
}

fn is_v6(ip: &str) -> bool {
    matches!(parse_ip(ip), Ip::Good(ip) if ip.is_ipv6())
}

fn check_families(spec: &Value, families: &[&str], at: &Path<'_>, errors: &mut Errors) {
    let ips: Vec<&str> = texts(spec, "clusterIPs").collect();
    if ips.len() > 1 && ips.iter().all(|ip| is_v6(ip) == is_v6(ips[0])) {
        errors.invalid(at, spec.get("clusterIPs"), "may specify no more than one IP for each IP family");
    }
    if is_headless(spec) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(families).enumerate() {
        let wrong = match *family {
            "IPv4" => is_v6(ip),
            "IPv6" => !is_v6(ip),
            _ => false,
        };
        if wrong {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&at.index(i), *ip, detail);
        }
    }
}

/// The first address and family stay; a second may come and go.
pub(super) fn check_update(spec: &Value, old: &Value, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" || text(old, "type") == "ExternalName" {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        check_list(spec, old, "clusterIPs", errors);
    }
    if !headless && !was_headless {
        check_list(spec, old, "ipFamilies", errors);
    }
}

fn check_list(spec: &Value, old: &Value, list: &str, errors: &mut Errors) {
    let (now, before) = (items(spec, list), items(old, list));
    let at = SPEC.child(list);
    let (one, unset) = match list {
        "clusterIPs" => ("clusterIP", "primary clusterIP can not be unset"),
        _ => ("ipFamily", "primary ipFamily can not be unset"),
    };
    if now.len() == before.len() {
        for (i, _) in before.iter().zip(now).enumerate().filter(|(_, (a, b))| a != b) {
            // Families are all reported at the first.
            let i = if list == "clusterIPs" { i } else { 0 };
            errors.invalid(&at.index(i), spec.get(list), ONCE);
        }
        return;
    }
    if now.len() < before.len() && items(spec, "clusterIPs").is_empty() {
        errors.invalid(&at.index(0), spec.get(list), unset);
    }
    if let (Some(a), Some(b)) = (now.first(), before.first())
        && a != b
    {
        errors.invalid(&at.index(0), spec.get("clusterIPs"), ONCE);
    }
    let single = text(spec, "ipFamilyPolicy") == "SingleStack";
    if now.len() < before.len() && now.len() == 1 && !single {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {one}");
        errors.invalid(&SPEC.child("ipFamilyPolicy"), member(spec, "ipFamilyPolicy"), detail);
    }
}
