//! Security contexts of pods and containers: ids, profiles, sysctls, Windows users.

use object::{Value, validate_text};

use super::Options;
use super::volume_sources::descending_path;
use crate::check::internal::internal;
use crate::check::internal::pod::{SECCOMP_PROFILE, SECURITY_CONTEXT};
use crate::check::{Errors, Path, Raw, Seen, flag, int, items, member, text, texts};

const LOCALHOST_PROFILE_MAX_BYTES: usize = 4095;
const SYSCTL_MAX_BYTES: usize = 253;
const SYSCTL_REGEX: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const CREDENTIAL_SPEC_MAX_BYTES: usize = 64 * 1024;
const DOMAIN_MAX_BYTES: usize = 256;
const USER_MAX_BYTES: usize = 104;

/// The pod's own context. `at` is the spec's path.
pub(super) fn check_pod(spec: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let none = Value::Null;
    let context = member(spec, "securityContext").unwrap_or(&none);
    let at = at.child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(int(context, name), &at.child(name), errors);
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        check_id(group.as_int(), &at.child("supplementalGroups").index(i), errors);
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&at.child("shareProcessNamespace"), true, detail);
    }
    check_sysctls(spec, context, &at.child("sysctls"), options, errors);
    errors.one_of_member(&at, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    check_seccomp(context, &at.child("seccompProfile"), errors);
    check_windows(context, &at.child("windowsOptions"), errors);
    check_app_armor(context, &at.child("appArmorProfile"), errors);
    errors.one_of_member(&at, context, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    let policies: &[&str] =
        if options.any_selinux_change_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    errors.one_of_member(&at, context, "seLinuxChangePolicy", policies);
}

pub(super) fn check_container(container: &Value, host_users: bool, at: &Path<'_>, errors: &mut Errors) {
    let Some(context) = member(container, "securityContext") else { return };
    for name in ["runAsUser", "runAsGroup"] {
        check_id(int(context, name), &at.child(name), errors);
    }
    if let Some(mount) = member(context, "procMount").and_then(Value::as_str) {
        errors.one_of(&at.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(&at.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    check_seccomp(context, &at.child("seccompProfile"), errors);
    if member(context, "allowPrivilegeEscalation").and_then(Value::as_bool) == Some(false) {
        if flag(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(at, Raw(&internal(Some(context), SECURITY_CONTEXT)), detail);
        }
        let added = member(context, "capabilities").map(|c| texts(c, "add")).into_iter().flatten();
        for _ in added.filter(|c| *c == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(at, Raw(&internal(Some(context), SECURITY_CONTEXT)), detail);
        }
    }
    check_windows(context, &at.child("windowsOptions"), errors);
    check_app_armor(context, &at.child("appArmorProfile"), errors);
}

/// Of a user or a group.
pub(super) fn check_id(id: Option<i64>, at: &Path<'_>, errors: &mut Errors) {
    let Some(id) = id else { return };
    for problem in validate_text::in_range(id, 0, i64::from(i32::MAX)) {
        errors.invalid(at, id, problem);
    }
}

fn check_seccomp(context: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = member(context, "seccompProfile") else { return };
    let kind = text(profile, "type");
    match kind {
        "" => errors.required(&at.child("type"), "type is required when seccompProfile is set"),
        _ => errors.one_of(&at.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    let at = at.child("localhostProfile");
    match (kind, member(profile, "localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => errors.required(&at, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(path)) => descending_path(path, &at, errors),
        (_, Some(_)) => {
            let shown = internal(Some(profile), SECCOMP_PROFILE);
            errors.invalid(&at, Raw(&shown), "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

fn check_app_armor(context: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(profile) = member(context, "appArmorProfile") else { return };
    let file = member(profile, "localhostProfile").and_then(Value::as_str);
    let file_at = at.child("localhostProfile");
    match (text(profile, "type"), file) {
        ("Localhost", None) => errors.required(&file_at, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(file)) => {
            if file.trim() != file {
                errors.invalid(&file_at, file, "must not be padded with whitespace");
            } else if file.is_empty() {
                errors.required(&file_at, "must be set when AppArmor type is Localhost");
            }
            if file.len() > LOCALHOST_PROFILE_MAX_BYTES {
                errors.too_long(&file_at, LOCALHOST_PROFILE_MAX_BYTES);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(file)) => {
            errors.invalid(&file_at, file, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&at.child("type"), "type is required when appArmorProfile is set"),
        (other, _) => {
            let kinds = ["Localhost", "RuntimeDefault", "Unconfined"];
            errors.not_supported(&at.child("type"), other, &kinds);
        }
    }
}

fn check_sysctls(spec: &Value, context: &Value, at: &Path<'_>, options: &Options, errors: &mut Errors) {
    let sysctls = items(context, "sysctls");
    let mut seen = Seen::default();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let name = text(sysctl, "name");
        let list = at;
        let at = list.index(i);
        let at = at.child("name");
        if name.is_empty() {
            errors.required(&at, "");
        } else if !is_sysctl(name) {
            let detail =
                format!("must have at most {SYSCTL_MAX_BYTES} characters and match regex {SYSCTL_REGEX}");
            errors.invalid(&at, name, detail);
        } else if seen.again(name) {
            errors.duplicate(&at, name);
        }
        if !options.host_sysctls {
            check_host_sysctl(spec, name, &at, errors);
        }
    }
}

/// Only the errors a stored pod may keep.
pub(super) fn host_sysctls(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(context) = member(spec, "securityContext") else { return };
    for sysctl in items(context, "sysctls") {
        check_host_sysctl(spec, text(sysctl, "name"), at, errors);
    }
}

/// In the host's namespace a sysctl would be the host's.
fn check_host_sysctl(spec: &Value, name: &str, at: &Path<'_>, errors: &mut Errors) {
    // `net/ipv4/ip_forward` is `net.ipv4.ip_forward`; the first separator decides which form it is.
    let first = name.find(['.', '/']);
    let name_with_dots = match first.map(|i| &name[i..=i]) {
        Some("/") => name.replace('.', "\0").replace('/', ".").replace('\0', "/"),
        _ => name.to_owned(),
    };
    let plain = name_with_dots.split('*').next().unwrap_or_default();
    let ipc = [
        "kernel.sem",
        "kernel.shmall",
        "kernel.shmmax",
        "kernel.shmmni",
        "kernel.shm_rmid_forced",
        "kernel.shm",
        "kernel.msgmax",
        "kernel.msgmnb",
        "kernel.msgmni",
        "kernel.msg",
    ];
    if flag(spec, "hostNetwork") && plain.starts_with("net.") {
        errors.invalid(at, name, "may not be specified when 'hostNetwork' is true");
    } else if flag(spec, "hostIPC") && (ipc.contains(&plain) || plain.starts_with("fs.mqueue.")) {
        errors.invalid(at, name, "may not be specified when 'hostIPC' is true");
    }
}

/// What [`SYSCTL_REGEX`] matches.
fn is_sysctl(name: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let segment = |s: &str| {
        let bytes = s.as_bytes();
        let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    name.len() <= SYSCTL_MAX_BYTES && name.split(['.', '/']).all(segment)
}

fn check_windows(context: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Some(windows) = member(context, "windowsOptions") else { return };
    if let Some(name) = member(windows, "gmsaCredentialSpecName").and_then(Value::as_str) {
        errors.subdomain(&at.child("gmsaCredentialSpecName"), name);
    }
    if let Some(spec) = member(windows, "gmsaCredentialSpec").and_then(Value::as_str) {
        let at = at.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&at, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_SPEC_MAX_BYTES {
            errors.invalid(&at, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = member(windows, "runAsUserName").and_then(Value::as_str) {
        check_windows_user(name, &at.child("runAsUserName"), errors);
    }
}

/// `DOMAIN\user`.
fn check_windows_user(name: &str, at: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.invalid(at, name, "runAsUserName cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return errors.invalid(at, name, "runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        None => (None, name),
        Some((_, user)) if user.contains('\\') => {
            return errors.invalid(at, name, "runAsUserName cannot contain more than one backslash");
        }
        Some((domain, user)) => (Some(domain), user),
    };
    if domain.is_some_and(|d| d.len() >= DOMAIN_MAX_BYTES) {
        let detail = format!("runAsUserName's Domain length must be under {DOMAIN_MAX_BYTES} characters");
        errors.invalid(at, name, detail);
    }
    if domain.is_some_and(|d| !is_windows_domain(d)) {
        errors.invalid(at, name, "runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        errors.invalid(at, name, "runAsUserName's User cannot be empty");
    } else if user.len() > USER_MAX_BYTES {
        let detail =
            format!("runAsUserName's User length must not be longer than {USER_MAX_BYTES} characters");
        errors.invalid(at, name, detail);
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        errors.invalid(at, name, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| r#""/\:;|=,+*?<>@[]"#.contains(c)) {
        let detail = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        errors.invalid(at, name, detail);
    }
}

fn is_windows_domain(domain: &str) -> bool {
    let forbidden = |c: char| r#"\/:*?"<>|"#.contains(c);
    let net_bios =
        (1..=15).contains(&domain.chars().count()) && !domain.contains(forbidden) && !domain.starts_with('.');
    let label = |l: &str| {
        let bytes = l.as_bytes();
        let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
        let inner = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
        bytes.len() <= 63 && edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    net_bios || domain.split('.').all(label)
}
