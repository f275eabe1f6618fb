//! Who may change which part of a claim's status: allocating needs one permission, the state of devices one for each driver.
//!
//! The permission to write the status is only the door; what it opens are subresources that exist for this check alone.

use std::collections::{BTreeMap, BTreeSet};

use object::Value;

use super::status::device_id;
use crate::check::{Errors, items, member, text};
use crate::kind::{Permission, Requester};
use crate::same;
use crate::workload::STATUS;
use crate::write::Write;

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// Says in a service account's token on which node its pod runs.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

pub(super) fn check(write: &Write<'_>, status: &Value, old: &Value, errors: &mut Errors) {
    check_binding(write, status, old, errors);
    // Without an allocation there is nothing left to say of devices.
    if let Some(allocation) = member(status, "allocation") {
        check_devices(write, allocation, status, old, errors);
    }
}

fn check_binding(write: &Write<'_>, status: &Value, old: &Value, errors: &mut Errors) {
    let unchanged = |name: &str| write.same(&["status", name], member(status, name), member(old, name));
    if unchanged("allocation") && unchanged("reservedFor") {
        return;
    }
    let permissions = write.ctx.permissions;
    let verb = permissions.verb();
    let wanted = Permission { verb, resource: None, subresource: "binding", namespace: "", name: "" };
    if let Err(why) = permissions.check(&wanted) {
        let detail = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {why}"
        );
        errors.forbidden(&STATUS.child("allocation"), &detail);
    }
}

fn check_devices(write: &Write<'_>, allocation: &Value, status: &Value, old: &Value, errors: &mut Errors) {
    let drivers = changed_drivers(items(status, "devices"), items(old, "devices"));
    if drivers.is_empty() {
        return;
    }
    let permissions = write.ctx.permissions;
    let with = |prefix: &str| format!("{prefix}:{}", permissions.verb());
    let mut verbs = vec![with("arbitrary-node")];
    if runs_on(&write.ctx.requester, allocated_node(allocation)) {
        verbs.insert(0, with("associated-node"));
    }
    let namespace = text(write.new.get("metadata").unwrap_or(&Value::Null), "namespace");
    for driver in drivers {
        let ask = |verb: &String| {
            let name = driver;
            permissions.check(&Permission { verb, resource: None, subresource: "driver", namespace, name })
        };
        // One is enough; of several refusals the first is told.
        let answers: Vec<Result<(), String>> = verbs.iter().map(ask).collect();
        if answers.iter().any(Result::is_ok) {
            continue;
        }
        let why = answers.into_iter().find_map(Result::err).unwrap_or_default();
        let detail = format!(
            "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
            verbs.join(" ")
        );
        errors.forbidden(&STATUS.child("devices"), &detail);
    }
}

/// The drivers of devices that are new, gone, or said to be in another state.
fn changed_drivers<'a>(new: &'a [Value], old: &'a [Value]) -> BTreeSet<&'a str> {
    let mut before: BTreeMap<String, &Value> = old.iter().map(|device| (device_id(device), device)).collect();
    let mut changed = BTreeSet::new();
    for device in new {
        let known = before.remove(&device_id(device));
        if !known.is_some_and(|known| same(Some(known), Some(device))) {
            changed.insert(text(device, "driver"));
        }
    }
    changed.extend(before.into_values().map(|gone| text(gone, "driver")));
    changed
}

/// The one node the devices can be reached from, if the allocation says it by name.
fn allocated_node(allocation: &Value) -> Option<&str> {
    let [term] = items(allocation.get("nodeSelector")?, "nodeSelectorTerms") else { return None };
    let ([], [field]) = (items(term, "matchExpressions"), items(term, "matchFields")) else { return None };
    let [Value::Str(name)] = items(field, "values") else { return None };
    (text(field, "key") == "metadata.name" && text(field, "operator") == "In").then_some(&**name)
}

/// Is it a service account whose pod runs on that node?
fn runs_on(requester: &Requester<'_>, node: Option<&str>) -> bool {
    let Some(node) = node.filter(|node| !node.is_empty()) else { return false };
    let account = requester.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let told = requester.extra.and_then(|extra| extra.get(NODE_NAME));
    account.is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'))
        && told.is_some_and(|told| matches!(&told[..], [name] if name == node))
}
