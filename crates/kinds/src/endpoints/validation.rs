//! The rules of endpoints: addresses that can be reached, ports that have names.

use object::Value;

use crate::check::{Errors, Path, int, items, member, text};
use crate::same;
use crate::service::endpoint_ip;
use crate::write::Write;

const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

pub(super) fn check(write: &Write<'_>, errors: &mut Errors) {
    if write.old.is_some() {
        write.check_metadata(errors);
    }
    write.check_whole_metadata(errors);
    if let Some(time) = write.new.str_at(&["metadata", "annotations", TRIGGER_TIME])
        && object::time::parse(time).is_none()
    {
        let at = Path::Root("annotations");
        let detail = format!("parsing time {} as \"2006-01-02T15:04:05Z07:00\"", object::quote(time));
        errors.invalid(&at.key(TRIGGER_TIME), time, detail);
    }
    // What is stored already is not validated again.
    if write.old.is_some_and(|old| same(old.get("subsets"), write.new.get("subsets"))) {
        return;
    }
    for (i, subset) in items(write.new, "subsets").iter().enumerate() {
        let list = Path::Root("subsets");
        check_subset(subset, &list.index(i), errors);
    }
}

fn check_subset(subset: &Value, at: &Path<'_>, errors: &mut Errors) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| items(subset, list).is_empty()) {
        errors.required(at, "must specify `addresses` or `notReadyAddresses`");
    }
    for list in lists {
        for (i, address) in items(subset, list).iter().enumerate() {
            let at = at.child(list);
            let at = at.index(i);
            let ip = text(address, "ip");
            errors.ip(&at.child("ip"), ip, &[]);
            let host = text(address, "hostname");
            if !host.is_empty() {
                errors.dns_label(&at.child("hostname"), host);
            }
            if let Some(node) = member(address, "nodeName").and_then(Value::as_str) {
                errors.subdomain(&at.child("nodeName"), node);
            }
            endpoint_ip(ip, &at.child("ip"), errors);
        }
    }
    let ports = items(subset, "ports");
    for (i, port) in ports.iter().enumerate() {
        let at = at.child("ports");
        let at = at.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            errors.dns_label(&at.child("name"), name);
        } else if ports.len() > 1 {
            errors.required(&at.child("name"), "");
        }
        errors.port_number(&at.child("port"), int(port, "port").unwrap_or(0));
        errors.choice(&at.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
        if let Some(protocol) = member(port, "appProtocol").and_then(Value::as_str) {
            errors.qualified(&at.child("appProtocol"), protocol);
        }
    }
}
