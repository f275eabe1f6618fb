//! Fields of the pod as variables.

use std::net::IpAddr;

use object::{Value, validate_text};

use crate::generate::ContainerInputs;
use crate::generate::read::{flag, string_map, text};

pub(super) fn value(inputs: &ContainerInputs<'_>, field: &Value) -> Result<String, String> {
    let version = field.str_at(&["apiVersion"]).filter(|version| !version.is_empty()).unwrap_or("v1");
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    let path = text(field, &["fieldPath"]);
    check_path(path)?;
    let host_ips = inputs.node.host_ips;
    match path {
        "spec.nodeName" | "spec.host" => Ok(text(inputs.pod, &["spec", "nodeName"]).to_owned()),
        "spec.serviceAccountName" => Ok(text(inputs.pod, &["spec", "serviceAccountName"]).to_owned()),
        "status.hostIP" | "status.hostIPs" if host_ips.is_empty() => Err(format!(
            "failed to find the addresses of node {}",
            object::quote(&inputs.node.config.node_name)
        )),
        "status.hostIP" => Ok(host_ips.first().map(IpAddr::to_string).unwrap_or_default()),
        "status.hostIPs" => Ok(joined(host_ips)),
        "status.podIP" => Ok(pod_ips(inputs).first().map(IpAddr::to_string).unwrap_or_default()),
        "status.podIPs" => Ok(joined(&pod_ips(inputs))),
        _ => metadata_field(inputs.pod, path),
    }
}

/// A field of the metadata, also one label or annotation (`metadata.labels['x']`).
pub fn metadata_field(object: &Value, path: &str) -> Result<String, String> {
    if let Some((whole, key)) = subscript(path) {
        let (member, problems) = match whole {
            "metadata.annotations" => {
                ("annotations", validate_text::qualified_name(&key.to_ascii_lowercase()))
            }
            "metadata.labels" => ("labels", validate_text::qualified_name(key)),
            _ => return Err(format!("fieldPath {} does not support subscript", object::quote(path))),
        };
        if !problems.is_empty() {
            return Err(format!("invalid key subscript in {path}: {}", problems.join(";")));
        }
        return Ok(text(object, &["metadata", member, key]).to_owned());
    }
    match path {
        "metadata.annotations" => Ok(format_map(object, "annotations")),
        "metadata.labels" => Ok(format_map(object, "labels")),
        "metadata.name" => Ok(text(object, &["metadata", "name"]).to_owned()),
        "metadata.namespace" => Ok(text(object, &["metadata", "namespace"]).to_owned()),
        "metadata.uid" => Ok(text(object, &["metadata", "uid"]).to_owned()),
        _ => Err(format!("unsupported fieldPath: {path}")),
    }
}

/// A line `name="value"` for each, by name.
pub fn format_map(object: &Value, member: &str) -> String {
    let lines = string_map(object, &["metadata", member]).into_iter();
    lines.map(|(name, value)| format!("{name}={}", object::quote(&value))).collect::<Vec<_>>().join("\n")
}

/// What a variable may name at all.
fn check_path(path: &str) -> Result<(), String> {
    if let Some((whole, _)) = subscript(path) {
        return match whole {
            "metadata.annotations" | "metadata.labels" => Ok(()),
            _ => Err(format!("field label does not support subscript: {path}")),
        };
    }
    match path {
        "metadata.annotations"
        | "metadata.labels"
        | "metadata.name"
        | "metadata.namespace"
        | "metadata.uid"
        | "spec.nodeName"
        | "spec.host"
        | "spec.restartPolicy"
        | "spec.serviceAccountName"
        | "spec.schedulerName"
        | "status.phase"
        | "status.hostIP"
        | "status.hostIPs"
        | "status.podIP"
        | "status.podIPs" => Ok(()),
        _ => Err(format!("field label not supported: {path}")),
    }
}

fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(whole, _)| !whole.is_empty())
}

/// One of each family at most, the one of the node's primary address first. In the host's network they are the host's.
fn pod_ips(inputs: &ContainerInputs<'_>) -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = inputs.pod_ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    if all.is_empty() && flag(inputs.pod, &["spec", "hostNetwork"]) == Some(true) {
        all.extend(inputs.node.host_ips);
    }
    let ipv6_first = inputs.node.host_ips.first().is_some_and(IpAddr::is_ipv6);
    let of = |ipv6: bool| all.iter().copied().find(|ip| ip.is_ipv6() == ipv6);
    of(ipv6_first).into_iter().chain(of(!ipv6_first)).collect()
}

fn joined(ips: &[IpAddr]) -> String {
    ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}
