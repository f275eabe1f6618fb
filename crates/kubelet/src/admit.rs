//! What this machine says against a pod before it takes it: what the kernel does not allow or have, and what is not built yet.

use std::path::Path;
use std::sync::Arc;

use node::admit::Rejection;
use node::agent::LocalAdmit;
use node::pod::Pod;
use object::Value;

use crate::config::Config;
use crate::generate::GenerateError;
use crate::generate::admission::{check_apparmor, check_sysctls};
use crate::machine::LocalMachine;
use crate::volumes::source::{Source, used};

/// What of the machine is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub version: (u32, u32),
    pub apparmor: bool,
}

impl Kernel {
    /// `release` as `uname -r` has it.
    pub fn read(root: &Path, release: &str) -> Kernel {
        let enabled = std::fs::read_to_string(root.join("sys/module/apparmor/parameters/enabled"));
        // A kernel that has it cannot be asked for profiles unless securityfs is mounted.
        let apparmor = root.join("sys/kernel/security/apparmor").exists()
            && enabled.is_ok_and(|text| text.starts_with('Y'));
        Kernel { version: version(release), apparmor }
    }
}

/// For the agent to ask.
pub fn local(config: Arc<Config>, kernel: Kernel, machine: Arc<LocalMachine>) -> LocalAdmit {
    Arc::new(move |pod: &Pod<'_>| admit(pod, &config, kernel, machine.has_supplemental_groups_policy()))
}

/// `Err`: the first thing that speaks against it.
pub fn admit(
    pod: &Pod<'_>,
    config: &Config,
    kernel: Kernel,
    supplemental_groups_policy: bool,
) -> Result<(), Rejection> {
    let refused = |GenerateError { reason, message }| Rejection { reason: reason.to_owned(), message };
    check_sysctls(pod.tree, config, kernel.version).map_err(refused)?;
    if !supplemental_groups_policy {
        check_supplemental_groups_policy(pod.tree)?;
    }
    check_volumes(pod.tree)?;
    check_claims(pod.tree)?;
    check_apparmor(pod.tree, kernel.apparmor).map_err(refused)
}

/// For a runtime that adds the groups of the image to those of the pod, whatever it is told.
fn check_supplemental_groups_policy(pod: &Value) -> Result<(), Rejection> {
    if pod.str_at(&["spec", "securityContext", "supplementalGroupsPolicy"]) != Some("Strict") {
        return Ok(());
    }
    Err(Rejection {
        reason: "SupplementalGroupsPolicyNotSupported".to_owned(),
        message: "SupplementalGroupsPolicy=Strict is not supported in this node".to_owned(),
    })
}

/// Differs from kubelet: it tries to mount such a volume for ever, since a plugin may come; nothing of the kind can come here.
fn check_volumes(pod: &Value) -> Result<(), Rejection> {
    let (mounts, devices) = used(pod);
    let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default();
    for volume in volumes {
        let name = volume.str_at(&["name"]).unwrap_or_default();
        if let Source::Unsupported(kind) = Source::read(pod, volume)
            && (mounts.contains(name) || devices.contains(name))
        {
            let name = object::quote(name);
            return Err(unexpected(format!("volume {name}: {kind} volumes are not supported by this node")));
        }
    }
    Ok(())
}

/// Differs from kubelet: it waits for the driver of a claim to register, which no driver can here.
fn check_claims(pod: &Value) -> Result<(), Rejection> {
    let claims = pod.at(&["spec", "resourceClaims"]).and_then(Value::as_list).unwrap_or_default();
    let Some(claim) = claims.first() else { return Ok(()) };
    let name = object::quote(claim.str_at(&["name"]).unwrap_or_default());
    Err(unexpected(format!("resource claim {name}: dynamic resources are not supported by this node")))
}

fn unexpected(why: String) -> Rejection {
    let message = format!("Allocate failed due to {why}, which is unexpected");
    Rejection { reason: "UnexpectedAdmissionError".to_owned(), message }
}

/// Major and minor; zeros where there is no number.
fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::testing::{config, pod};

    #[test]
    fn what_the_machine_cannot_do_is_refused_with_a_reason() {
        let kernel = Kernel { version: (6, 1), apparmor: false };
        let sysctl = r#"{"securityContext":{"sysctls":[{"name":"vm.swappiness","value":"1"}]}}"#;
        let profile = r#"{"containers":[{"securityContext":{"appArmorProfile":{"type":"RuntimeDefault"}}}]}"#;
        let local = r#"{"securityContext":{"appArmorProfile":{"type":"Localhost","localhostProfile":"p"}},"containers":[{"name":"c"}]}"#;
        let unconfined = r#"{"containers":[{"securityContext":{"appArmorProfile":{"type":"Unconfined"}}}]}"#;
        let csi = r#"{"volumes":[{"name":"v","csi":{"driver":"d"}}],"containers":[{"volumeMounts":[{"name":"v"}]}]}"#;
        let unused = r#"{"volumes":[{"name":"v","csi":{"driver":"d"}}],"containers":[{"name":"c"}]}"#;
        let claim = r#"{"resourceClaims":[{"name":"gpu","resourceClaimName":"g"}]}"#;
        for (spec, told) in [
            (r#"{"containers":[{"name":"c"}]}"#, None),
            (unused, None),
            (sysctl, Some("SysctlForbidden: forbidden sysctl: \"vm.swappiness\" not allowlisted")),
            (profile, Some("AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host")),
            (local, Some("AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host")),
            (unconfined, None),
            (
                csi,
                Some(
                    "UnexpectedAdmissionError: Allocate failed due to volume \"v\": csi volumes are not supported by this node, which is unexpected",
                ),
            ),
            (
                claim,
                Some(
                    "UnexpectedAdmissionError: Allocate failed due to resource claim \"gpu\": dynamic resources are not supported by this node, which is unexpected",
                ),
            ),
        ] {
            let tree = pod(spec);
            let refused = admit(&Pod::read(&tree), &config(), kernel, true).err();
            let refused = refused.map(|refused| format!("{}: {}", refused.reason, refused.message));
            assert_eq!(refused.as_deref(), told, "{spec}");
        }
        let with = Kernel { apparmor: true, ..kernel };
        assert_eq!(admit(&Pod::read(&pod(profile)), &config(), with, true), Ok(()));
    }

    #[test]
    fn strict_groups_need_a_runtime_that_has_them() {
        let kernel = Kernel { version: (6, 1), apparmor: false };
        let of = |policy: &str| format!(r#"{{"securityContext":{{"supplementalGroupsPolicy":"{policy}"}}}}"#);
        for (policy, supported, reason) in [
            ("Strict", false, Some("SupplementalGroupsPolicyNotSupported")),
            ("Strict", true, None),
            ("Merge", false, None),
        ] {
            let tree = pod(&of(policy));
            let refused = admit(&Pod::read(&tree), &config(), kernel, supported).err();
            assert_eq!(refused.map(|refused| refused.reason).as_deref(), reason, "{policy} {supported}");
        }
    }

    #[test]
    fn apparmor_is_there_when_the_kernel_can_be_asked() {
        let root = tempfile::tempdir().unwrap();
        let has = || Kernel::read(root.path(), "6.1").apparmor;
        let parameters = root.path().join("sys/module/apparmor/parameters");
        std::fs::create_dir_all(&parameters).unwrap();
        std::fs::write(parameters.join("enabled"), "Y\n").unwrap();
        assert!(!has());
        std::fs::create_dir_all(root.path().join("sys/kernel/security/apparmor")).unwrap();
        assert!(has());
        std::fs::write(parameters.join("enabled"), "N\n").unwrap();
        assert!(!has());
    }

    #[test]
    fn the_version_of_a_kernel_is_read_from_its_release() {
        for (release, read) in
            [("6.1.0-13-amd64", (6, 1)), ("5.15", (5, 15)), ("6", (6, 0)), ("", (0, 0)), ("x.y", (0, 0))]
        {
            assert_eq!(version(release), read, "{release}");
        }
    }
}
