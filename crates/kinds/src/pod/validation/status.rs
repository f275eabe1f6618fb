//! The rules of status writes of pods.

use object::Value;

use super::security::check_id;
use crate::check::internal::{Go, TEXT};
use crate::check::text::{Ip, parse_ip};
use crate::check::{Errors, Path, Raw, Seen, all_of, int, items, member, text};

const ADDRESSES: Go = Go::List(&[("ip", "IP", TEXT)]);
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
    if let Some(claim) = member(&status, "extendedResourceClaimStatus") {
        check_extended(claim, &spec, &STATUS.child("extendedResourceClaimStatus"), errors);
    }
    check_allocatable(&status, &spec, errors);
    check_addresses(&status, &old_status, "podIPs", errors);
    check_addresses(&status, &old_status, "hostIPs", errors);
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        check_users(&status, &spec, list, errors);
    }
    for (list, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        check_allocated(&status, list, items(&spec, containers), errors);
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
    let of_pod = all_of(items(spec, "resourceClaims"), "name");
    let mut seen = Seen::default();
    for (i, claim) in claims.iter().enumerate() {
        let list = STATUS.child("resourceClaimStatuses");
        let at = list.index(i);
        let name = text(claim, "name");
        if !of_pod.has(&name) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&at.child("name"), name, detail);
        }
        if seen.again(name) {
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
            let shown = ADDRESSES.show(status.get(list));
            errors.invalid(&at, Raw(&shown), detail);
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

/// The claim made for the extended resources a pod asks for.
fn check_extended(claim: &Value, spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let list = at.child("requestMappings");
    let mappings = items(claim, "requestMappings");
    if mappings.is_empty() {
        errors.required(&list, "at least one request mapping is required");
    }
    let key = |mapping: &Value| {
        ["containerName", "resourceName", "requestName"].map(|name| text(mapping, name).to_owned())
    };
    let mut seen = Seen::default();
    for (i, mapping) in mappings.iter().enumerate() {
        let own = list.index(i);
        let (container, resource) = (text(mapping, "containerName"), text(mapping, "resourceName"));
        let mut all = items(spec, "initContainers").iter().chain(items(spec, "containers"));
        match all.rfind(|c| text(c, "name") == container) {
            None => {
                let detail =
                    "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.invalid(&own.child("containerName"), container, detail);
            }
            Some(found) if found.at(&["resources", "requests", resource]).is_none() => {
                let detail = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.invalid(&own.child("resourceName"), resource, detail);
            }
            Some(_) => {}
        }
        // Upstream's path has no index here.
        errors.dns_label(&at.child("requestName"), text(mapping, "requestName"));
        if seen.again(key(mapping)) {
            for name in ["containerName", "resourceName", "requestName"] {
                errors.duplicate(&own.child(name), text(mapping, name));
            }
        }
    }
    errors.need_subdomain(&at.child("resourceClaimName"), text(claim, "resourceClaimName"));
}

/// Claims of node-allocatable resources must be claims of this pod.
fn check_allocatable(status: &Value, spec: &Value, errors: &mut Errors) {
    let list = STATUS.child("nodeAllocatableResourceClaimStatuses");
    for (i, own) in items(status, "nodeAllocatableResourceClaimStatuses").iter().enumerate() {
        let at = list.index(i);
        let name = text(own, "resourceClaimName");
        if name.is_empty() {
            errors.required(&at.child("resourceClaimName"), "must not be empty");
        }
        let known = |of: &Value, list: &str| {
            items(of, list)
                .iter()
                .any(|c| member(c, "resourceClaimName").and_then(Value::as_str) == Some(name))
        };
        if !known(spec, "resourceClaims") && !known(status, "resourceClaimStatuses") {
            errors.invalid(&at.child("resourceClaimName"), name, "no mapping found in pod reference");
        }
    }
}

const HEALTH_MESSAGE_MAX_BYTES: usize = 1024;

/// Resources a container is said to have are ones it asks for.
fn check_allocated(status: &Value, list: &str, containers: &[Value], errors: &mut Errors) {
    for (i, own) in items(status, list).iter().enumerate() {
        let container = containers.iter().find(|c| text(c, "name") == text(own, "name"));
        for (j, allocated) in items(own, "allocatedResourcesStatus").iter().enumerate() {
            let at = STATUS.child(list);
            let at = at.index(i);
            let at = at.child("allocatedResourcesStatus");
            let at = at.index(j);
            let name = text(allocated, "name");
            if let Some(detail) = container.and_then(|container| unasked(container, name)) {
                errors.invalid(&at.child("name"), name, detail);
            }
            let resources = items(allocated, "resources");
            let mut seen = Seen::default();
            for (k, resource) in resources.iter().enumerate() {
                let list = at.child("resources");
                let at = list.index(k);
                errors.one_of(
                    &at.child("health"),
                    text(resource, "health"),
                    &["Healthy", "Unhealthy", "Unknown"],
                );
                match member(resource, "message").and_then(Value::as_str).map(str::len) {
                    Some(0) => errors.required(&at.child("message"), "must be non-empty if specified"),
                    Some(bytes) if bytes > HEALTH_MESSAGE_MAX_BYTES => {
                        errors.too_long(&at.child("message"), HEALTH_MESSAGE_MAX_BYTES);
                    }
                    _ => {}
                }
                let id = text(resource, "resourceID");
                if seen.again(id) {
                    errors.duplicate(&at.child("resourceID"), id);
                }
            }
        }
    }
}

fn unasked(container: &Value, name: &str) -> Option<&'static str> {
    let none = Value::Null;
    let resources = container.get("resources").unwrap_or(&none);
    if !name.starts_with("claim:") {
        let asked = resources.at(&["requests", name]).is_some();
        return (!asked).then_some("must match one of the container's resource requests");
    }
    let named = |claim: &Value| match text(claim, "request") {
        "" => format!("claim:{}", text(claim, "name")),
        request => format!("claim:{}/{request}", text(claim, "name")),
    };
    let detail = "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty";
    (!items(resources, "claims").iter().any(|claim| named(claim) == name)).then_some(detail)
}
