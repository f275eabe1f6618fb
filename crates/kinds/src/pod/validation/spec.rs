//! The spec as a whole: its parts in upstream's order, and the members too small for a file of their own.

use object::{Value, validate_text};
use std::collections::BTreeMap;

use super::container::{self, Scope};
use super::{Options, affinity, containers_of, os, resources, scheduling, security, volumes};
use crate::check::{Errors, Path, Seen, flag, int, items, member, quantity, text, texts};

const DNS_NAMESERVERS_MAX: usize = 3;
const DNS_SEARCHES_MAX: usize = 32;
const DNS_SEARCH_LIST_MAX_BYTES: usize = 2048;

/// `metadata` is the pod's; a template has none here.
pub(super) fn check(
    spec: &Value,
    metadata: Option<&Value>,
    at: &Path<'_>,
    options: &Options,
    errors: &mut Errors,
) {
    if member(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(&at.child("terminationGracePeriodSeconds"), "");
    }
    let host_users = member(spec, "hostUsers").and_then(Value::as_bool) != Some(false);
    let volumes = volumes::check(items(spec, "volumes"), metadata, &at.child("volumes"), options, errors);
    resources::pod_claims(metadata, items(spec, "resourceClaims"), &at.child("resourceClaims"), errors);
    let scope = Scope { spec, volumes: &volumes, host_users, options };
    container::check_containers(&scope, &at.child("containers"), errors);
    container::check_init_containers(&scope, &at.child("initContainers"), errors);
    container::check_ephemeral_containers(&scope, &at.child("ephemeralContainers"), errors);
    check_pod_resources(spec, at, options, errors);
    check_host_network(spec, at, options, errors);
    errors.choice(&at.child("restartPolicy"), text(spec, "restartPolicy"), &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.choice(&at.child("dnsPolicy"), text(spec, "dnsPolicy"), &policies);
    errors.labels(&at.child("nodeSelector"), spec.get("nodeSelector"));
    security::check_pod(spec, at, options, errors);
    affinity::check(spec, &at.child("affinity"), options, errors);
    check_dns(spec, &at.child("dnsConfig"), errors);
    check_gates(spec, at, errors);
    affinity::check_spread(spec, &at.child("topologySpreadConstraints"), options, errors);
    os::check_host_process(spec, at, errors);
    check_host_users(spec, at, options, errors);
    check_hostname_override(spec, at, errors);
    check_names(spec, at, options, errors);
    os::check(spec, at, errors);
    if let Some(group) = member(spec, "schedulingGroup") {
        let group_at = at.child("schedulingGroup");
        let name_at = group_at.child("podGroupName");
        match member(group, "podGroupName") {
            None => errors.invalid(&name_at, None, "must specify one of: `podGroupName`"),
            Some(name) => errors.subdomain(&name_at, name.as_str().unwrap_or_default()),
        }
    }
    check_file_keys(spec, at, errors);
}

fn check_names(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.subdomain(&at.child(name), value);
        }
    }
    if let Some(seconds) = int(spec, "activeDeadlineSeconds") {
        for problem in validate_text::in_range(seconds, 1, i64::from(i32::MAX)) {
            errors.invalid(&at.child("activeDeadlineSeconds"), seconds, problem);
        }
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.dns_label(&at.child(name), value);
        }
    }
    let tolerated = items(spec, "tolerations");
    scheduling::tolerations(tolerated, &at.child("tolerations"), options.comparison_operators, errors);
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let list = at.child("hostAliases");
        let at = list.index(i);
        errors.ip(&at.child("ip"), text(alias, "ip"), &[]);
        for (j, name) in texts(alias, "hostnames").enumerate() {
            errors.subdomain(&at.child("hostnames").index(j), name);
        }
    }
    let class = text(spec, "priorityClassName");
    if !class.is_empty() {
        errors.subdomain(&at.child("priorityClassName"), class);
    }
    if let Some(class) = member(spec, "runtimeClassName") {
        errors.subdomain(&at.child("runtimeClassName"), class.as_str().unwrap_or_default());
    }
    if let Some(policy) = member(spec, "preemptionPolicy") {
        let policy = policy.as_str().unwrap_or_default();
        errors.choice(&at.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    if let Some(overhead) = member(spec, "overhead") {
        resources::overhead(overhead, &at.child("overhead"), options, errors);
    }
}

/// Resources of the pod as a whole hold those of its containers.
fn check_pod_resources(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let Some(own) = member(spec, "resources") else { return };
    let at = at.child("resources");
    if spec.at(&["os", "name"]).and_then(Value::as_str) == Some("windows") {
        errors.forbidden(&at, "may not be set for a windows pod");
        return;
    }
    if member(own, "claims").is_some() {
        errors.forbidden(&at.child("claims"), "claims may not be set for Resources at pod-level");
    }
    resources::pod_resources(own, spec, &at, options, errors);
    for (name, list) in [("requests", "requests"), ("limits", "limits")] {
        for (resource, wanted) in own.get(list).and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
            if name == "limits" && !resources::is_huge_page(resource) {
                continue;
            }
            let Some(sum) = resources::aggregate(spec, list, resource) else { continue };
            if sum > quantity(wanted) {
                let list_at = at.child(list);
                let detail = format!("must be greater than or equal to aggregate container {name} of {sum}");
                errors.invalid(&list_at.key(resource), wanted.as_str().unwrap_or_default(), detail);
            }
        }
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        let limits = container.at(&["resources", "limits"]).and_then(Value::as_map);
        for (resource, limit) in limits.into_iter().flat_map(|m| m.iter()) {
            let Some(most) = own.at(&["limits", resource]) else { continue };
            if quantity(limit) > quantity(most) {
                let list = at.child("containers");
                let container = list.index(i);
                let key = container.key(resource);
                let detail = format!(
                    "must be less than or equal to pod limits of {}",
                    most.as_str().unwrap_or_default()
                );
                errors.invalid(&key.child("limits"), limit.as_str().unwrap_or_default(), detail);
            }
        }
    }
}

/// On the host's network a container's port is the host's.
fn check_host_network(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (i, container) in items(spec, "containers").iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or(0);
            if (options.is_pod || host != 0) && host != int(port, "containerPort").unwrap_or(0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                let port_at = at.child("containers");
                errors.invalid(&port_at.index(i).child("ports").index(j).child("hostPort"), host, detail);
            }
        }
    }
}

fn check_dns(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let config = member(spec, "dnsConfig");
    let servers = config.map(|c| items(c, "nameservers")).unwrap_or_default();
    if text(spec, "dnsPolicy") == "None" {
        if config.is_none() {
            errors.required(at, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.required(&at.child("nameservers"), detail);
            return;
        }
    }
    let Some(config) = config else { return };
    if servers.len() > DNS_NAMESERVERS_MAX {
        let detail = format!("must not have more than {DNS_NAMESERVERS_MAX} nameservers");
        errors.invalid(&at.child("nameservers"), config.get("nameservers"), detail);
    }
    for (i, server) in texts(config, "nameservers").enumerate() {
        errors.ip(&at.child("nameservers").index(i), server, &[]);
    }
    let searches = items(config, "searches");
    if searches.len() > DNS_SEARCHES_MAX {
        let detail = format!("must not have more than {DNS_SEARCHES_MAX} search paths");
        errors.invalid(&at.child("searches"), config.get("searches"), detail);
    }
    let bytes: usize = texts(config, "searches").map(|s| s.len() + 1).sum();
    if bytes.saturating_sub(1) > DNS_SEARCH_LIST_MAX_BYTES {
        let detail = format!(
            "must not have more than {DNS_SEARCH_LIST_MAX_BYTES} characters (including spaces) in the search list"
        );
        errors.invalid(&at.child("searches"), config.get("searches"), detail);
    }
    for (i, search) in texts(config, "searches").enumerate().filter(|(_, s)| *s != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        let problems = validate_text::dns1123_subdomain_with_underscore(search);
        errors.each(&at.child("searches").index(i), search, problems);
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&at.child("options").index(i), "must not be empty");
        }
    }
}

fn check_gates(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for (i, gate) in items(spec, "readinessGates").iter().enumerate() {
        let list = at.child("readinessGates");
        errors.qualified(&list.index(i).child("conditionType"), text(gate, "conditionType"));
    }
    let gates = items(spec, "schedulingGates");
    let mut seen = Seen::default();
    for (i, gate) in gates.iter().enumerate() {
        let list = at.child("schedulingGates");
        let name = text(gate, "name");
        errors.qualified(&list.index(i), name);
        if seen.again(name) {
            errors.duplicate(&list.index(i), name);
        }
    }
}

/// A user namespace of its own cannot share the host's others.
fn check_host_users(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    if member(spec, "hostUsers").and_then(Value::as_bool) != Some(false) {
        return;
    }
    let detail = "when `hostUsers` is false";
    if flag(spec, "hostNetwork") && !options.user_namespace_host_network {
        errors.forbidden(&at.child("hostNetwork"), detail);
    }
    for (member, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, member) {
            errors.forbidden(&at.child(shown), detail);
        }
    }
    if options.user_namespace_devices {
        return;
    }
    for (list, i, container) in containers_of(spec) {
        if !items(container, "volumeDevices").is_empty() {
            errors.forbidden(&at.child(list).index(i).child("volumeDevices"), detail);
        }
    }
}

fn check_hostname_override(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(name) = member(spec, "hostnameOverride").and_then(Value::as_str) else { return };
    let at = at.child("hostnameOverride");
    if flag(spec, "setHostnameAsFQDN") {
        errors.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
    if flag(spec, "hostNetwork") {
        errors.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.too_long(&at, 64);
    }
    errors.subdomain(&at, name);
}

/// A variable read from a file needs the volume the file is written to.
fn check_file_keys(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    // Looked up where the first is needed; of two volumes with one name the last counts here.
    let by_name = || items(spec, "volumes").iter().map(|v| (text(v, "name"), v)).collect();
    let mut volumes: Option<BTreeMap<&str, &Value>> = None;
    for (list, i, container) in containers_of(spec) {
        for (j, variable) in items(container, "env").iter().enumerate() {
            let Some(file) = variable.at(&["valueFrom", "fileKeyRef"]).filter(|f| !f.is_null()) else {
                continue;
            };
            let name = text(file, "volumeName");
            let list_at = at.child(list);
            let container_at = list_at.index(i);
            let env = container_at.child("env");
            let variable_at = env.index(j);
            let from = variable_at.child("valueFrom.fileKeyRef");
            let at = from.child("volumeName");
            match volumes.get_or_insert_with(by_name).get(name) {
                None => errors.not_found(&at, name, ""),
                Some(volume) if member(volume, "emptyDir").is_none() => {
                    errors.invalid(&at, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    }
}
