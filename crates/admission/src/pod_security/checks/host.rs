//! What of its host a pod may touch: namespaces, paths, ports, kernel parameters.

use std::collections::BTreeSet;

use object::Value;

use super::{Finding, Pod, Sorted, context, found, named, plural, quoted, setters};
use crate::tree::{flag, items, member, text};

const SYSCTLS_1_0: [&str; 5] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
];
const SYSCTLS_1_27: [&str; 1] = ["net.ipv4.ip_local_reserved_ports"];
const SYSCTLS_1_29: [&str; 4] = [
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
];
const SYSCTLS_1_32: [&str; 2] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
/// Volumes that bring nothing of the host along.
const SAFE_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// All others.
const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub fn namespaces(pod: &Pod<'_>) -> Option<Finding> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|name| flag(pod.spec, name) == Some(true))
        .map(|name| format!("{name}=true"))
        .collect();
    if shared.is_empty() { None } else { found("host namespaces", shared.join(", ")) }
}

pub fn path_volumes(pod: &Pod<'_>) -> Option<Finding> {
    let volumes = items(pod.spec, "volumes").iter().filter(|v| member(v, "hostPath").is_some());
    let bad: Vec<&str> = volumes.map(|v| text(v, "name")).collect();
    if bad.is_empty() {
        return None;
    }
    found("hostPath volumes", format!("{} {}", plural("volume", "volumes", bad.len()), quoted(&bad)))
}

pub fn volumes(pod: &Pod<'_>) -> Option<Finding> {
    let (mut bad, mut kinds) = (Vec::new(), Sorted::new());
    for volume in items(pod.spec, "volumes") {
        let has = |kind: &&&str| member(volume, kind).is_some();
        if SAFE_VOLUMES.iter().any(|kind| has(&kind)) {
            continue;
        }
        bad.push(text(volume, "name"));
        kinds.insert(OTHER_VOLUMES.iter().find(has).copied().unwrap_or("unknown"));
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(&bad),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    found("restricted volume types", detail)
}

pub fn ports(pod: &Pod<'_>) -> Option<Finding> {
    let mut ports = BTreeSet::new();
    let bad = pod.names_where(|c| {
        let used: Vec<String> = items(c, "ports")
            .iter()
            .filter_map(|p| p.get("hostPort").and_then(Value::as_int).filter(|port| *port != 0))
            .map(|port| port.to_string())
            .collect();
        let any = !used.is_empty();
        ports.extend(used);
        any
    });
    if bad.is_empty() {
        return None;
    }
    let count = ports.len();
    let detail = format!(
        "{} {} {} {}",
        named(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", count),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    found("hostPort", detail)
}

/// Probes and hooks that reach for another host than the pod.
pub fn probes(pod: &Pod<'_>) -> Option<Finding> {
    let (mut bad, mut hosts) = (Sorted::new(), Sorted::new());
    for container in pod.containers() {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|name| container.get(name));
        let hooks = ["postStart", "preStop"].map(|name| container.at(&["lifecycle", name]));
        for handler in probes.into_iter().chain(hooks).flatten() {
            for action in ["httpGet", "tcpSocket"] {
                if let Some(host) = handler.str_at(&[action, "host"]).filter(|host| !host.is_empty()) {
                    bad.insert(text(container, "name"));
                    hosts.insert(host);
                }
            }
        }
    }
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        named(&bad),
        plural("uses", "use", bad.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(&hosts)
    );
    found("probe or lifecycle host", detail)
}

pub fn sysctls_1_0(pod: &Pod<'_>) -> Option<Finding> {
    sysctls(pod, &[&SYSCTLS_1_0])
}
pub fn sysctls_1_27(pod: &Pod<'_>) -> Option<Finding> {
    sysctls(pod, &[&SYSCTLS_1_0, &SYSCTLS_1_27])
}
pub fn sysctls_1_29(pod: &Pod<'_>) -> Option<Finding> {
    sysctls(pod, &[&SYSCTLS_1_0, &SYSCTLS_1_27, &SYSCTLS_1_29])
}
pub fn sysctls_1_32(pod: &Pod<'_>) -> Option<Finding> {
    sysctls(pod, &[&SYSCTLS_1_0, &SYSCTLS_1_27, &SYSCTLS_1_29, &SYSCTLS_1_32])
}

fn sysctls(pod: &Pod<'_>, allowed: &[&[&str]]) -> Option<Finding> {
    let set = context(pod.spec, "sysctls").and_then(Value::as_list).unwrap_or_default();
    let names = set.iter().map(|s| text(s, "name"));
    let bad: Vec<&str> = names.filter(|name| !allowed.iter().any(|list| list.contains(name))).collect();
    if bad.is_empty() { None } else { found("forbidden sysctls", bad.join(", ")) }
}

pub fn windows_process(pod: &Pod<'_>) -> Option<Finding> {
    let is = |of: &Value| context(of, "windowsOptions").and_then(|w| flag(w, "hostProcess")) == Some(true);
    let who = setters(is(pod.spec), &pod.names_where(|c| is(c)))?;
    found("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
