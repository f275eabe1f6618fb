//! The checks of the pod security standards: which level has them since which version.

mod containers;
mod host;
mod profiles;
mod user;

use std::borrow::Cow;
use std::collections::BTreeSet;

use object::Value;

use super::policy::{Level, LevelVersion};
use crate::tree::{flag, items, text};

/// A pod, or the template of pods.
pub struct Pod<'a> {
    pub metadata: &'a Value,
    pub spec: &'a Value,
}

/// What a check found.
pub struct Finding {
    reason: Cow<'static, str>,
    detail: String,
}

type CheckFn = fn(&Pod<'_>) -> Option<Finding>;

/// One rule: its form changes with versions, the last that is not newer than the policy counts.
struct Check {
    id: &'static str,
    level: Level,
    versions: &'static [(u64, CheckFn)],
    /// The restricted level has this in place of a baseline check.
    instead_of: Option<&'static str>,
}

const fn baseline(id: &'static str, versions: &'static [(u64, CheckFn)]) -> Check {
    Check { id, level: Level::Baseline, versions, instead_of: None }
}

const fn restricted(
    id: &'static str,
    versions: &'static [(u64, CheckFn)],
    instead_of: Option<&'static str>,
) -> Check {
    Check { id, level: Level::Restricted, versions, instead_of }
}

/// In the order findings are told: baseline first, each level by id.
const CHECKS: &[Check] = &[
    baseline("appArmorProfile", &[(0, profiles::app_armor)]),
    baseline("capabilities_baseline", &[(0, containers::default_capabilities)]),
    baseline("hostNamespaces", &[(0, host::namespaces)]),
    baseline("hostPathVolumes", &[(0, host::path_volumes)]),
    baseline("hostPorts", &[(0, host::ports)]),
    baseline("hostProbesAndHostLifecycle", &[(34, host::probes)]),
    baseline("privileged", &[(0, containers::privileged)]),
    baseline("procMount", &[(0, containers::proc_mount), (35, containers::proc_mount_or_user_namespace)]),
    baseline("seLinuxOptions", &[(0, profiles::se_linux_1_0), (31, profiles::se_linux_1_31)]),
    baseline("seccompProfile_baseline", &[(0, profiles::seccomp_annotations), (19, profiles::seccomp)]),
    baseline(
        "sysctls",
        &[
            (0, host::sysctls_1_0),
            (27, host::sysctls_1_27),
            (29, host::sysctls_1_29),
            (32, host::sysctls_1_32),
        ],
    ),
    baseline("windowsHostProcess", &[(0, host::windows_process)]),
    restricted(
        "allowPrivilegeEscalation",
        &[(8, containers::no_escalation), (25, containers::no_escalation_but_windows)],
        None,
    ),
    restricted(
        "capabilities_restricted",
        &[(22, containers::no_capabilities), (25, containers::no_capabilities_but_windows)],
        Some("capabilities_baseline"),
    ),
    restricted("procMount_restricted", &[(35, containers::proc_mount)], Some("procMount")),
    restricted("restrictedVolumes", &[(0, host::volumes)], Some("hostPathVolumes")),
    restricted("runAsNonRoot", &[(0, user::non_root), (35, user::non_root_or_user_namespace)], None),
    restricted("runAsUser", &[(23, user::not_zero), (35, user::not_zero_or_user_namespace)], None),
    restricted(
        "seccompProfile_restricted",
        &[(19, profiles::seccomp_required), (25, profiles::seccomp_required_but_windows)],
        Some("seccompProfile_baseline"),
    ),
];

/// Everything a policy finds wrong with a pod.
pub fn evaluate(policy: LevelVersion, pod: &Pod<'_>) -> Vec<Finding> {
    if policy.level == Level::Privileged {
        return Vec::new();
    }
    let version = policy.version.effective();
    let active = |check: &Check| {
        let form = check.versions.iter().rev().find(|(since, _)| *since <= version);
        form.filter(|_| check.level <= policy.level).map(|(_, form)| *form)
    };
    let replaced = |check: &Check| {
        CHECKS.iter().any(|other| other.instead_of == Some(check.id) && active(other).is_some())
    };
    CHECKS.iter().filter(|c| !replaced(c)).filter_map(active).filter_map(|form| form(pod)).collect()
}

/// `reason (detail), reason (detail)`
pub fn details(found: &[Finding]) -> String {
    let one = |f: &Finding| {
        if f.detail.is_empty() { f.reason.to_string() } else { format!("{} ({})", f.reason, f.detail) }
    };
    found.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub fn reasons(found: &[Finding]) -> String {
    found.iter().map(|f| &*f.reason).collect::<Vec<_>>().join(", ")
}

impl<'a> Pod<'a> {
    /// `object` has the metadata and spec of a pod.
    pub fn of(object: &'a Value) -> Pod<'a> {
        let part = |name| object.get(name).unwrap_or(&Value::Null);
        Pod { metadata: part("metadata"), spec: part("spec") }
    }

    /// All of them: those that start first, the usual ones, and those that came later.
    fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |l| items(spec, l))
    }

    /// The names of containers that are so.
    fn names_where(&self, is: impl FnMut(&&'a Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(is).map(|c| text(c, "name")).collect()
    }

    fn annotations(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let all = self.metadata.get("annotations").and_then(Value::as_map);
        all.into_iter().flat_map(|m| m.iter()).map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default()))
    }

    fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == Some("windows")
    }

    /// Root inside is nobody outside.
    fn has_user_namespace(&self) -> bool {
        flag(self.spec, "hostUsers") == Some(false)
    }
}

/// A member of a container's, or the pod's, securityContext.
fn context<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    of.at(&["securityContext", name]).filter(|value| !value.is_null())
}

fn found(reason: impl Into<Cow<'static, str>>, detail: String) -> Option<Finding> {
    Some(Finding { reason: reason.into(), detail })
}

/// `"a", "b"`
fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("\"{}\"", n.as_ref())).collect();
    names.join(", ")
}

fn plural<'a>(one: &'a str, several: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { several }
}

/// `container "a"` or `containers "a", "b"`
fn named(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

/// `pod and container "a"`: who set something.
fn setters(pod: bool, containers: &[&str]) -> Option<String> {
    match (pod, containers.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(named(containers)),
        (true, false) => Some(format!("pod and {}", named(containers))),
    }
}

/// Values in order, each once.
type Sorted<'a> = BTreeSet<&'a str>;
