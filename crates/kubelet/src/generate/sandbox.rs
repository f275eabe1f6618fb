//! The sandbox of a pod: what its containers share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use cri::Protocol;
use object::Value;

use crate::generate::admission::normal_sysctl_name;
use crate::generate::dns::dns_config;
use crate::generate::groups::pod_group;
use crate::generate::hosts::Hostname;
use crate::generate::limits::{sandbox_overhead, sandbox_resources};
use crate::generate::namespaces::namespace_options;
use crate::generate::read::{flag, int, list, present, string_map, text};
use crate::generate::security::{selinux_options, supplemental_groups, supplemental_groups_policy};
use crate::generate::{Event, GenerateError, NodeView, labels};

/// What the runtime is asked for, and what is to be told about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    pub config: cri::PodSandboxConfig,
    pub events: Vec<Event>,
}

/// `attempt` counts the sandboxes a pod had before; `groups` are those of its volumes.
pub fn sandbox_config(
    pod: &Value,
    attempt: u32,
    groups: &[i64],
    node: &NodeView<'_>,
) -> Result<Sandbox, GenerateError> {
    let meta = |name: &str| text(pod, &["metadata", name]).to_owned();
    let (dns, events) = dns_config(pod, node);
    let mut hostname = String::new();
    if !flag(pod, &["spec", "hostNetwork"]).unwrap_or(false) {
        let named = Hostname::of(pod, node.config).and_then(|hostname| hostname.for_kernel(pod));
        hostname = named.map_err(GenerateError::sandbox)?;
    }
    let logs = labels::log_directory(&node.config.pod_logs_directory, pod);
    let config = cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: meta("name"),
            uid: meta("uid"),
            namespace: meta("namespace"),
            attempt,
        }),
        hostname,
        log_directory: logs.to_string_lossy().into_owned(),
        dns_config: Some(dns),
        port_mappings: list(pod, &["spec", "containers"]).iter().flat_map(port_mappings).collect(),
        labels: labels::of_sandbox(pod),
        annotations: string_map(pod, &["metadata", "annotations"]),
        linux: Some(linux(pod, groups, node).map_err(GenerateError::sandbox)?),
    };
    Ok(Sandbox { config, events })
}

fn linux(pod: &Value, groups: &[i64], node: &NodeView<'_>) -> Result<cri::LinuxPodSandboxConfig, String> {
    Ok(cri::LinuxPodSandboxConfig {
        cgroup_parent: pod_group(pod, node.config).to_string_lossy().into_owned(),
        security_context: Some(security_context(pod, groups, node)?),
        sysctls: sysctls(pod),
        overhead: Some(sandbox_overhead(pod, node)),
        resources: Some(sandbox_resources(pod, node)),
    })
}

fn security_context(
    pod: &Value,
    groups: &[i64],
    node: &NodeView<'_>,
) -> Result<cri::LinuxSandboxSecurityContext, String> {
    let context = |name: &'static str| ["spec", "securityContext", name];
    let id = |name: &'static str| int(pod, &context(name)).map(|value| cri::Int64Value { value });
    Ok(cri::LinuxSandboxSecurityContext {
        namespace_options: Some(namespace_options(pod, node)?),
        selinux_options: present(pod, &context("seLinuxOptions")).map(selinux_options),
        run_as_user: id("runAsUser"),
        run_as_group: id("runAsGroup"),
        readonly_rootfs: false,
        supplemental_groups: supplemental_groups(pod, groups.iter().copied()),
        supplemental_groups_policy: supplemental_groups_policy(pod)?,
        privileged: all_containers(pod)
            .any(|container| flag(container, &["securityContext", "privileged"]) == Some(true)),
        // The sandbox itself needs little, whatever its containers are allowed.
        seccomp: Some(cri::SecurityProfile::default()),
        apparmor: None,
    })
}

/// The last setting of a name counts.
fn sysctls(pod: &Value) -> BTreeMap<String, String> {
    let all = list(pod, &["spec", "securityContext", "sysctls"]).iter();
    all.map(|set| (normal_sysctl_name(text(set, &["name"])), text(set, &["value"]).to_owned())).collect()
}

/// A port that is said twice is mapped once.
fn port_mappings(container: &Value) -> Vec<cri::PortMapping> {
    let mut names = BTreeSet::new();
    let mut mappings = Vec::new();
    for port in list(container, &["ports"]) {
        let number = |name: &str| int(port, &[name]).and_then(|n| i32::try_from(n).ok()).unwrap_or(0);
        let (host_ip, protocol) = (text(port, &["hostIP"]), text(port, &["protocol"]));
        let (container_port, host_port) = (number("containerPort"), number("hostPort"));
        let name = match text(port, &["name"]) {
            "" => format!("{}-{protocol}-{host_ip}:{container_port}:{host_port}", family(host_ip)),
            name => name.to_owned(),
        };
        if names.insert(name) {
            mappings.push(cri::PortMapping {
                protocol: protocol_of(protocol) as i32,
                container_port,
                host_port,
                host_ip: host_ip.to_owned(),
            });
        }
    }
    mappings
}

fn family(host_ip: &str) -> &'static str {
    match host_ip.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => "v6",
        _ if host_ip.is_empty() => "any",
        _ => "v4",
    }
}

fn protocol_of(name: &str) -> Protocol {
    match name {
        "UDP" => Protocol::Udp,
        "SCTP" => Protocol::Sctp,
        _ => Protocol::Tcp,
    }
}

fn all_containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .into_iter()
        .flat_map(|name| list(pod, &["spec", name]))
}

#[cfg(test)]
mod tests;
