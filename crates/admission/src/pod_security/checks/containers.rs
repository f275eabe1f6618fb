//! What containers may gain: privileges, capabilities, a bare /proc.

use object::Value;

use super::{Finding, Pod, Sorted, context, found, named, quoted};
use crate::tree::text;

/// The capabilities container runtimes give anyway.
const DEFAULT: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub fn privileged(pod: &Pod<'_>) -> Option<Finding> {
    let bad = pod.names_where(|c| context(c, "privileged").and_then(Value::as_bool) == Some(true));
    if bad.is_empty() {
        return None;
    }
    found("privileged", format!("{} must not set securityContext.privileged=true", named(&bad)))
}

pub fn default_capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let (bad, added) = adding(pod, |capability| DEFAULT.contains(&capability));
    if bad.is_empty() {
        return None;
    }
    found("non-default capabilities", must_not_add(&bad, &added))
}

pub fn no_capabilities(pod: &Pod<'_>) -> Option<Finding> {
    let keeping = pod.names_where(|c| !capabilities(c, "drop").any(|dropped| dropped == "ALL"));
    let (bad, added) = adding(pod, |capability| capability == "NET_BIND_SERVICE");
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", named(&keeping)));
    }
    if !bad.is_empty() {
        details.push(must_not_add(&bad, &added));
    }
    if details.is_empty() {
        return None;
    }
    found("unrestricted capabilities", details.join("; "))
}

pub fn no_capabilities_but_windows(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { no_capabilities(pod) }
}

pub fn no_escalation(pod: &Pod<'_>) -> Option<Finding> {
    let allowed = |c: &&Value| context(c, "allowPrivilegeEscalation").and_then(Value::as_bool) != Some(false);
    let bad = pod.names_where(allowed);
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", named(&bad));
    found("allowPrivilegeEscalation != false", detail)
}

pub fn no_escalation_but_windows(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { no_escalation(pod) }
}

pub fn proc_mount(pod: &Pod<'_>) -> Option<Finding> {
    let mut kinds = Sorted::new();
    let bad = pod.names_where(|c| {
        let kind = context(c, "procMount").and_then(Value::as_str).filter(|kind| *kind != "Default");
        kinds.extend(kind);
        kind.is_some()
    });
    if bad.is_empty() {
        return None;
    }
    let detail = format!("{} must not set securityContext.procMount to {}", named(&bad), quoted(kinds));
    found("procMount", detail)
}

pub fn proc_mount_or_user_namespace(pod: &Pod<'_>) -> Option<Finding> {
    if pod.has_user_namespace() { None } else { proc_mount(pod) }
}

/// Containers that add a capability they may not, and which ones.
fn adding<'a>(pod: &Pod<'a>, may: impl Fn(&str) -> bool) -> (Vec<&'a str>, Sorted<'a>) {
    let (mut bad, mut added) = (Vec::new(), Sorted::new());
    for container in pod.containers() {
        let before = bad.len();
        for capability in capabilities(container, "add").filter(|c| !may(c)) {
            added.insert(capability);
            bad.truncate(before);
            bad.push(text(container, "name"));
        }
    }
    (bad, added)
}

fn must_not_add(bad: &[&str], added: &Sorted<'_>) -> String {
    format!("{} must not include {} in securityContext.capabilities.add", named(bad), quoted(added))
}

fn capabilities<'a>(container: &'a Value, which: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let list = context(container, "capabilities").and_then(|c| c.get(which)).and_then(Value::as_list);
    list.unwrap_or_default().iter().filter_map(Value::as_str)
}
