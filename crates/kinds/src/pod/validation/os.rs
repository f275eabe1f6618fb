//! Operating systems: fields not allowed for Linux pods, for Windows pods, and host processes.

use object::Value;

use super::containers_of;
use crate::check::{Errors, Path, flag, items, member, text};

const NOT_FOR_WINDOWS: &str = "cannot be set for a windows pod";
const NOT_FOR_LINUX: &str = "windows options cannot be set for a linux pod";

pub(super) fn check(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(os) = member(spec, "os") else { return };
    match text(os, "name") {
        "" => errors.required(&at.child("os").child("name"), ""),
        "linux" => check_linux(spec, at, errors),
        "windows" => check_windows(spec, at, errors),
        other => errors.not_supported(&at.child("os"), other, &["linux", "windows"]),
    }
}

fn check_linux(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    if spec.at(&["securityContext", "windowsOptions"]).is_some_and(|w| !w.is_null()) {
        errors.forbidden(&at.child("securityContext").child("windowsOptions"), NOT_FOR_LINUX);
    }
    for (list, i, container) in containers_of(spec) {
        if container.at(&["securityContext", "windowsOptions"]).is_some_and(|w| !w.is_null()) {
            let list = at.child(list);
            errors.forbidden(&list.index(i).child("securityContext").child("windowsOptions"), NOT_FOR_LINUX);
        }
    }
}

fn check_windows(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let none = Value::Null;
    let context = member(spec, "securityContext").unwrap_or(&none);
    let context_at = at.child("securityContext");
    let own = |name: &str, errors: &mut Errors| {
        if member(context, name).is_some() {
            errors.forbidden(&context_at.child(name), NOT_FOR_WINDOWS);
        }
    };
    own("appArmorProfile", errors);
    own("seLinuxOptions", errors);
    if member(spec, "hostUsers").is_some() {
        errors.forbidden(&at.child("hostUsers"), NOT_FOR_WINDOWS);
    }
    for name in ["hostPID", "hostIPC"] {
        if flag(spec, name) {
            errors.forbidden(&at.child(name), NOT_FOR_WINDOWS);
        }
    }
    for name in ["seccompProfile", "fsGroup", "fsGroupChangePolicy"] {
        own(name, errors);
    }
    if !items(context, "sysctls").is_empty() {
        errors.forbidden(&context_at.child("sysctls"), NOT_FOR_WINDOWS);
    }
    if member(spec, "shareProcessNamespace").is_some() {
        errors.forbidden(&at.child("shareProcessNamespace"), NOT_FOR_WINDOWS);
    }
    for name in
        ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"]
    {
        own(name, errors);
    }
    for (list, i, container) in containers_of(spec) {
        let Some(context) = member(container, "securityContext") else { continue };
        for name in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            if member(context, name).is_some() {
                let list = at.child(list);
                errors.forbidden(&list.index(i).child("securityContext").child(name), NOT_FOR_WINDOWS);
            }
        }
    }
}

/// Containers that are processes of a Windows host: all or none, and on its network.
pub(super) fn check_host_process(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let host_process =
        |of: &Value| of.at(&["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool);
    let of_pod = host_process(spec);
    let (mut all, mut count) = (0, 0);
    for (list, i, container) in containers_of(spec) {
        all += 1;
        let own = host_process(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let detail =
                format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            let list = at.child(list);
            let at = list.index(i);
            errors.invalid(
                &at.child("securityContext").child("windowsOptions").child("hostProcess"),
                own,
                detail,
            );
        }
        if own.or(of_pod) == Some(true) {
            count += 1;
        }
    }
    if count == 0 {
        return;
    }
    if count != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", detail);
    }
    if !flag(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.child("hostNetwork"), false, detail);
    }
}
