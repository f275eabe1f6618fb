//! What a write to a pod's status may say.

use object::Value;

use super::security::check_id;
use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, int, items, member, text};

const STATUS: Path<'static> = Path::Root("status");

pub(super) fn check(new: &Value, old: &Value, errors: &mut Errors) {
    let none = Value::Null;
    let part = |pod: &'_ Value, name: &str| pod.get(name).unwrap_or(&none).clone();
    let (spec, old_spec) = (part(new, "spec"), part(old, "spec"));
    let (status, old_status) = (part(new, "status"), part(old, "status"));
    check_conditions(&status, errors);
    if text(&spec, "nodeName") != text(&old_spec, "nodeName") {
        errors.forbidden(&STATUS.child("nodeName"), "may not be changed directly");
    }
    let (nominated, before) = (text(&status, "nominatedNodeName"), text(&old_status, "nominatedNodeName"));
    if nominated != before && !nominated.is_empty() {
        let at = STATUS.child("nominatedNodeName");
        errors.subdomain(&at, nominated);
        if !text(&old_spec, "nodeName").is_empty() {
            errors.forbidden(&at, "may not be set on pods that are already bound to a node");
        }
    }
    if let Some(generation) = int(&status, "observedGeneration").filter(|g| *g < 0) {
        let at = STATUS.child("observedGeneration");
        errors.invalid(&at, generation, "must be a non-negative integer");
    }
    if text(&status, "qosClass") != text(&old_status, "qosClass") {
        errors.invalid(&STATUS.child("qosClass"), text(&status, "qosClass"), crate::check::IMMUTABLE);
    }
    check_transitions(&status, &old_status, &old_spec, errors);
    check_claims(&status, &spec, errors);
    check_addresses(&status, &old_status, "podIPs", errors);
    check_addresses(&status, &old_status, "hostIPs", errors);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        check_users(&status, &spec, list, errors);
    }
    for (i, container) in items(&status, "ephemeralContainerStatuses").iter().enumerate() {
        if !items(container, "allocatedResourcesStatus").is_empty() {
            let at = STATUS.child("ephemeralContainerStatuses");
            let detail = "must not be specified in container status";
            errors.forbidden(&at.index(i).child("allocatedResourcesStatus"), detail);
        }
    }
}

fn check_conditions(status: &Value, errors: &mut Errors) {
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let list = STATUS.child("conditions");
        let at = list.index(i);
        if let Some(generation) = int(condition, "observedGeneration").filter(|g| *g < 0) {
            let at = at.child("observedGeneration");
            errors.invalid(&at, generation, "must be a non-negative integer");
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            errors.qualified(&at.child("Type"), kind);
        }
    }
}

/// A container that ended for good does not run again.
fn check_transitions(new: &Value, old: &Value, spec: &Value, errors: &mut Errors) {
    let restarts_all = ["containers", "initContainers"].iter().flat_map(|list| items(spec, list)).any(|c| {
        items(c, "restartPolicyRules").iter().any(|rule| text(rule, "action") == "RestartAllContainers")
    });
    for (list, of) in [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ] {
        if restarts_all && !of.is_empty() {
            continue;
        }
        let ended = |status: &Value| status.at(&["state", "terminated"]).filter(|t| !t.is_null()).cloned();
        for (i, before) in items(old, list).iter().enumerate() {
            let Some(end) = ended(before) else { continue };
            let name = text(before, "name");
            let Some(after) = items(new, list).iter().find(|s| text(s, "name") == name && ended(s).is_none())
            else {
                continue;
            };
            let container = items(spec, of).iter().find(|c| text(c, "name") == name);
            let code = int(&end, "exitCode").unwrap_or(0);
            if !after.is_null() && !container.is_some_and(|c| should_restart(c, spec, code)) {
                let at = STATUS.child(list);
                let detail = "may not be transitioned to non-terminated state";
                errors.forbidden(&at.index(i).child("state"), detail);
            }
        }
    }
}

/// Rules of the container first, then its policy, then the pod's.
fn should_restart(container: &Value, spec: &Value, code: i64) -> bool {
    for rule in items(container, "restartPolicyRules") {
        let Some(codes) = member(rule, "exitCodes") else { continue };
        let listed = items(codes, "values").iter().any(|v| v.as_int() == Some(code));
        let applies = match text(codes, "operator") {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        if applies && text(rule, "action") == "Restart" {
            return true;
        }
    }
    let policy = member(container, "restartPolicy").and_then(Value::as_str);
    match policy.unwrap_or_else(|| text(spec, "restartPolicy")) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    }
}

fn check_claims(status: &Value, spec: &Value, errors: &mut Errors) {
    let claims = items(status, "resourceClaimStatuses");
    for (i, claim) in claims.iter().enumerate() {
        let list = STATUS.child("resourceClaimStatuses");
        let at = list.index(i);
        let name = text(claim, "name");
        if !items(spec, "resourceClaims").iter().any(|c| text(c, "name") == name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&at.child("name"), name, detail);
        }
        if claims[..i].iter().any(|c| text(c, "name") == name) {
            errors.duplicate(&at.child("name"), name);
        }
        if let Some(name) = member(claim, "resourceClaimName").and_then(Value::as_str) {
            errors.subdomain(&at.child("resourceClaimName"), name);
        }
    }
}

/// One address, or one of each family.
fn check_addresses(status: &Value, old: &Value, list: &str, errors: &mut Errors) {
    let addresses: Vec<&str> = items(status, list).iter().map(|a| text(a, "ip")).collect();
    let before: Vec<&str> = items(old, list).iter().map(|a| text(a, "ip")).collect();
    let at = STATUS.child(list);
    if let Some(first) = addresses.first().filter(|_| list == "hostIPs")
        && text(status, "hostIP") != *first
    {
        errors.invalid(&at.index(0).child("ip"), *first, "must be equal to `hostIP`");
    }
    for (i, address) in addresses.iter().enumerate() {
        errors.ip(&at.index(i), address, &before);
    }
    if addresses.len() > 1 {
        let family = |a: &&str| match parse_ip(a) {
            Ip::Good(ip) => Some(ip.is_ipv4()),
            _ => None,
        };
        let families: Vec<Option<bool>> = addresses.iter().map(family).collect();
        let dual = families.contains(&Some(true)) && families.contains(&Some(false));
        if !dual || addresses.len() > 2 {
            let detail = "may specify no more than one IP for each IP family";
            errors.invalid(&at, status.get(list), detail);
        }
    }
}

fn check_users(status: &Value, spec: &Value, list: &str, errors: &mut Errors) {
    let windows = spec.at(&["os", "name"]).and_then(Value::as_str) == Some("windows");
    for (i, container) in items(status, list).iter().enumerate() {
        let Some(user) = container.at(&["user", "linux"]).filter(|u| !u.is_null()) else { continue };
        let list_at = STATUS.child(list);
        let container_at = list_at.index(i);
        let user_at = container_at.child("user");
        let at = user_at.child("linux");
        if windows {
            errors.forbidden(&at, "cannot be set for a windows pod");
            continue;
        }
        check_id(int(user, "uid"), &at.child("uid"), errors);
        check_id(int(user, "gid"), &at.child("gid"), errors);
        for (j, group) in items(user, "supplementalGroups").iter().enumerate() {
            check_id(group.as_int(), &at.child("supplementalGroups").index(j), errors);
        }
    }
}
