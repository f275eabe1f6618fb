//! Profiles that confine processes: AppArmor, SELinux, seccomp.

use std::collections::BTreeSet;

use object::{Value, quote};

use super::{Finding, Pod, Sorted, context, found, named, plural, quoted, setters};
use crate::tree::text;

const APP_ARMOR_ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD_ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_ANNOTATION: &str = "container.seccomp.security.alpha.kubernetes.io/";
const CONFINED: [&str; 2] = ["RuntimeDefault", "Localhost"];
const SE_LINUX_1_0: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
const SE_LINUX_1_31: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

pub fn app_armor(pod: &Pod<'_>) -> Option<Finding> {
    let mut values = Sorted::new();
    let mut unconfined = |of| {
        let kind = profile(of, "appArmorProfile").filter(|kind| !CONFINED.contains(kind));
        values.extend(kind);
        kind.is_some()
    };
    let by_pod = unconfined(pod.spec);
    let bad = pod.names_where(|c| unconfined(c));
    let fine =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let annotations: BTreeSet<String> = pod
        .annotations()
        .filter(|(name, value)| name.starts_with(APP_ARMOR_ANNOTATION) && !fine(value))
        .map(|(name, value)| format!("{name}={}", quote(value)))
        .collect();
    let mut who: Vec<String> = setters(by_pod, &bad).into_iter().collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let all: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", all.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&all));
    found(reason.to_owned(), detail)
}

pub fn se_linux_1_0(pod: &Pod<'_>) -> Option<Finding> {
    se_linux(pod, &SE_LINUX_1_0)
}
pub fn se_linux_1_31(pod: &Pod<'_>) -> Option<Finding> {
    se_linux(pod, &SE_LINUX_1_31)
}

fn se_linux(pod: &Pod<'_>, allowed: &[&str]) -> Option<Finding> {
    let mut types = Sorted::new();
    let (mut user, mut role) = (false, false);
    let mut is_bad = |of| {
        let Some(options) = context(of, "seLinuxOptions") else { return false };
        let kind = Some(text(options, "type")).filter(|kind| !allowed.contains(kind));
        types.extend(kind);
        let (has_user, has_role) = (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        user |= has_user;
        role |= has_role;
        kind.is_some() || has_user || has_role
    };
    let by_pod = is_bad(pod.spec);
    let bad = pod.names_where(|c| is_bad(c));
    let who = setters(by_pod, &bad)?;
    let mut what = Vec::new();
    if !types.is_empty() {
        what.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    if user {
        what.push("user may not be set".to_owned());
    }
    if role {
        what.push("role may not be set".to_owned());
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", what.join("; "));
    found("seLinuxOptions", detail)
}

/// Before v1.19 seccomp was asked for by annotations.
pub fn seccomp_annotations(pod: &Pod<'_>) -> Option<Finding> {
    let names: Vec<&str> = pod.containers().map(|c| text(c, "name")).collect();
    let concerns = |annotation: &str| {
        annotation == SECCOMP_POD_ANNOTATION
            || annotation.strip_prefix(SECCOMP_ANNOTATION).is_some_and(|name| names.contains(&name))
    };
    let fine = |v: &str| matches!(v, "runtime/default" | "docker/default") || v.starts_with("localhost/");
    let bad: BTreeSet<String> = pod
        .annotations()
        .filter(|(name, value)| concerns(name) && !fine(value))
        .map(|(name, value)| format!("{name}={}", quote(value)))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let count = bad.len();
    let list = bad.into_iter().collect::<Vec<_>>().join(", ");
    found("seccompProfile", format!("forbidden {} {list}", plural("annotation", "annotations", count)))
}

pub fn seccomp(pod: &Pod<'_>) -> Option<Finding> {
    let mut values = Sorted::new();
    let mut unconfined = |of| {
        let kind = profile(of, "seccompProfile").filter(|kind| !CONFINED.contains(kind));
        values.extend(kind);
        kind.is_some()
    };
    let by_pod = unconfined(pod.spec);
    let bad = pod.names_where(|c| unconfined(c));
    let who = setters(by_pod, &bad)?;
    found(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&values)),
    )
}

/// It must not only be right where it is set, but be set.
pub fn seccomp_required(pod: &Pod<'_>) -> Option<Finding> {
    let wrong = seccomp(pod);
    if wrong.is_some() || profile(pod.spec, "seccompProfile").is_some() {
        return wrong;
    }
    let bad = pod.names_where(|c| profile(c, "seccompProfile").is_none());
    if bad.is_empty() {
        return None;
    }
    let who = named(&bad);
    found(
        "seccompProfile",
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}

pub fn seccomp_required_but_windows(pod: &Pod<'_>) -> Option<Finding> {
    if pod.is_windows() { None } else { seccomp_required(pod) }
}

/// The type of a profile, where there is a profile.
fn profile<'a>(of: &'a Value, which: &str) -> Option<&'a str> {
    context(of, which).map(|profile| text(profile, "type"))
}
