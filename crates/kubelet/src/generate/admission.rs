//! What a pod may not ask of this machine: said when it arrives, before anything is made for it.

use object::Value;

use crate::config::Config;
use crate::generate::GenerateError;
use crate::generate::read::{flag, list, text};
use crate::generate::security::apparmor_profile;

/// Those that concern nobody but the pod, and the kernel they do so from on.
const SAFE_SYSCTLS: [(&str, (u32, u32)); 12] = [
    ("kernel.shm_rmid_forced", (0, 0)),
    ("net.ipv4.ip_local_port_range", (0, 0)),
    ("net.ipv4.tcp_syncookies", (0, 0)),
    ("net.ipv4.ping_group_range", (0, 0)),
    ("net.ipv4.ip_unprivileged_port_start", (0, 0)),
    ("net.ipv4.ip_local_reserved_ports", (3, 16)),
    ("net.ipv4.tcp_keepalive_time", (4, 5)),
    ("net.ipv4.tcp_fin_timeout", (4, 6)),
    ("net.ipv4.tcp_keepalive_intvl", (4, 5)),
    ("net.ipv4.tcp_keepalive_probes", (4, 5)),
    ("net.ipv4.tcp_rmem", (4, 15)),
    ("net.ipv4.tcp_wmem", (4, 15)),
];

/// Refuses kernel parameters that are not allowed here, or would be the host's. `kernel` is its version.
pub fn check_sysctls(pod: &Value, config: &Config, kernel: (u32, u32)) -> Result<(), GenerateError> {
    let host = |name: &str| flag(pod, &["spec", name]).unwrap_or(false);
    for sysctl in list(pod, &["spec", "securityContext", "sysctls"]) {
        let name = normal_sysctl_name(text(sysctl, &["name"]));
        let forbidden = |why: String| GenerateError {
            reason: "SysctlForbidden",
            message: format!("forbidden sysctl: {} {why}", object::quote(&name)),
        };
        let Some(entry) = allowed_by(&name, config, kernel) else {
            return Err(forbidden("not allowlisted".to_owned()));
        };
        match namespace_of(&entry) {
            Some("IPC") if host("hostIPC") => {
                return Err(forbidden("not allowed with host IPC enabled".to_owned()));
            }
            Some("Net") if host("hostNetwork") => {
                return Err(forbidden("not allowed with host Net enabled".to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What is wrong with the configured list; `None`: nothing.
pub fn unsafe_sysctls_problem(config: &Config) -> Option<String> {
    let patterns = config.allowed_unsafe_sysctls.iter().map(|pattern| prefix_of(pattern).0);
    let unknown = patterns.into_iter().find(|name| namespace_of(name).is_none());
    unknown.map(|name| format!("the sysctls {} are not known to be namespaced", object::quote(&name)))
}

/// Refuses profiles where the machine cannot enforce any.
pub fn check_apparmor(pod: &Value, enabled: bool) -> Result<(), GenerateError> {
    let containers = ["initContainers", "containers", "ephemeralContainers"];
    let all = || containers.into_iter().flat_map(|name| list(pod, &["spec", name]));
    let refused = |why: String| {
        Err(GenerateError { reason: "AppArmor", message: format!("Cannot enforce AppArmor: {why}") })
    };
    let profiles = all().filter_map(|container| apparmor_profile(pod, container));
    for (kind, name) in profiles.filter(|(kind, _)| *kind != "Unconfined") {
        if !enabled {
            return refused("AppArmor is not enabled on the host".to_owned());
        }
        if kind == "Localhost" && name.unwrap_or("").trim().is_empty() {
            return refused(format!("invalid empty AppArmor profile name: {}", object::quote(kind)));
        }
    }
    Ok(())
}

/// With dots between its parts, also where it was written as a path: then dots and slashes change places.
pub(super) fn normal_sysctl_name(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => {
            let swapped = |c: char| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swapped).collect()
        }
        _ => name.to_owned(),
    }
}

/// The entry of the lists that allows it: a name, or how names begin.
fn allowed_by(name: &str, config: &Config, kernel: (u32, u32)) -> Option<String> {
    if SAFE_SYSCTLS.iter().any(|(safe, since)| *safe == name && kernel >= *since) {
        return Some(name.to_owned());
    }
    let patterns = config.allowed_unsafe_sysctls.iter().map(|pattern| prefix_of(pattern));
    let allows =
        |allowed: &str, prefix: bool| if prefix { name.starts_with(allowed) } else { name == allowed };
    patterns.into_iter().find(|(allowed, prefix)| allows(allowed, *prefix)).map(|(allowed, _)| allowed)
}

/// What stands before a star, and whether there is one.
fn prefix_of(pattern: &str) -> (String, bool) {
    let name = normal_sysctl_name(pattern);
    match name.split_once('*') {
        Some((prefix, _)) => (prefix.to_owned(), true),
        None => (name, false),
    }
}

/// Which namespace of the kernel has it for its own; `None`: it is the host's.
fn namespace_of(name: &str) -> Option<&'static str> {
    match name {
        "kernel.sem" | "kernel.shm" | "kernel.msg" => return Some("IPC"),
        "kernel.shmall" | "kernel.shmmax" | "kernel.shmmni" | "kernel.shm_rmid_forced" => return Some("IPC"),
        "kernel.msgmax" | "kernel.msgmnb" | "kernel.msgmni" => return Some("IPC"),
        _ => {}
    }
    if name.starts_with("net.") {
        return Some("Net");
    }
    name.starts_with("fs.mqueue.").then_some("IPC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{config, pod};

    const KERNEL: (u32, u32) = (6, 1);

    fn checked(spec: &str, allowed: &[&str], kernel: (u32, u32)) -> Result<(), String> {
        let allowed_unsafe_sysctls = allowed.iter().map(|name| (*name).to_owned()).collect();
        let config = Config { allowed_unsafe_sysctls, ..config() };
        check_sysctls(&pod(spec), &config, kernel).map_err(|error| {
            assert_eq!(error.reason, "SysctlForbidden");
            error.message
        })
    }

    fn with(name: &str, more: &str) -> String {
        format!(r#"{{"securityContext":{{"sysctls":[{{"name":"{name}","value":"1"}}]}}{more}}}"#)
    }

    #[test]
    fn only_what_is_safe_or_allowed_may_be_set() {
        for name in ["kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net/ipv4/tcp_wmem"] {
            assert_eq!(checked(&with(name, ""), &[], KERNEL), Ok(()), "{name}");
        }
        let not_listed = |name: &str| Err(format!("forbidden sysctl: \"{name}\" not allowlisted"));
        for name in ["kernel.shmmax", "net.ipv4.ip_local_port_range_x", "vm.swappiness", ""] {
            assert_eq!(checked(&with(name, ""), &[], KERNEL), not_listed(name), "{name}");
        }
        assert_eq!(checked(&with("net.ipv4.tcp_rmem", ""), &[], (4, 14)), not_listed("net.ipv4.tcp_rmem"));
        let listed = ["kernel.shm*", "net.core.somaxconn", "net/ipv4/conf/*"];
        for name in ["kernel.shmmax", "net.core.somaxconn", "net.ipv4.conf.eth0/1.x"] {
            assert_eq!(checked(&with(name, ""), &listed, KERNEL), Ok(()), "{name}");
        }
        assert_eq!(
            checked(&with("net.core.somaxconnx", ""), &listed, KERNEL),
            not_listed("net.core.somaxconnx")
        );
        assert_eq!(checked("{}", &[], KERNEL), Ok(()));
    }

    #[test]
    fn the_hosts_own_may_not_be_set() {
        for (name, more, why) in [
            (
                "kernel.shm_rmid_forced",
                r#","hostIPC":true"#,
                "\"kernel.shm_rmid_forced\" not allowed with host IPC enabled",
            ),
            (
                "net.ipv4.tcp_syncookies",
                r#","hostNetwork":true"#,
                "\"net.ipv4.tcp_syncookies\" not allowed with host Net enabled",
            ),
            (
                "kernel.shm_next",
                r#","hostIPC":true"#,
                "\"kernel.shm_next\" not allowed with host IPC enabled",
            ),
            ("fs.mqueue.x", r#","hostIPC":true"#, "\"fs.mqueue.x\" not allowed with host IPC enabled"),
        ] {
            let refused = Err(format!("forbidden sysctl: {why}"));
            assert_eq!(
                checked(&with(name, more), &["fs.mqueue.*", "kernel.shm*"], KERNEL),
                refused,
                "{name}"
            );
        }
        let other = with("net.ipv4.tcp_syncookies", r#","hostIPC":true"#);
        assert_eq!(checked(&other, &[], KERNEL), Ok(()));
    }

    #[test]
    fn names_written_as_paths_are_turned() {
        for (name, normal) in [
            ("kernel/shm_rmid_forced", "kernel.shm_rmid_forced"),
            ("kernel.shm_rmid_forced", "kernel.shm_rmid_forced"),
            ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
            ("kernel", "kernel"),
        ] {
            assert_eq!(normal_sysctl_name(name), normal);
        }
    }

    #[test]
    fn the_configured_list_must_be_of_namespaces() {
        let problem = |name: &str| {
            unsafe_sysctls_problem(&Config { allowed_unsafe_sysctls: vec![name.to_owned()], ..config() })
        };
        assert_eq!(problem("kernel.msg*"), None);
        assert_eq!(problem("net.*"), None);
        assert_eq!(problem("vm.*").as_deref(), Some("the sysctls \"vm.\" are not known to be namespaced"));
    }

    #[test]
    fn profiles_need_a_machine_that_has_them() {
        let check =
            |spec: &str, enabled: bool| check_apparmor(&pod(spec), enabled).map_err(|error| error.message);
        let of_pod = r#"{"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}},"containers":[{"name":"c"}]}"#;
        let off = Err("Cannot enforce AppArmor: AppArmor is not enabled on the host".to_owned());
        assert_eq!(check(of_pod, false), off);
        assert_eq!(check(of_pod, true), Ok(()));
        let unconfined = r#"{"containers":[{"securityContext":{"appArmorProfile":{"type":"Unconfined"}}}]}"#;
        assert_eq!(check(unconfined, false), Ok(()));
        let empty = r#"{"containers":[{"securityContext":{"appArmorProfile":{"type":"Localhost"}}}]}"#;
        assert!(
            check(empty, true)
                .unwrap_err()
                .starts_with("Cannot enforce AppArmor: invalid empty AppArmor profile name")
        );
    }
}
