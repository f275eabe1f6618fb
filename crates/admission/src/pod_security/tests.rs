//! Every check, with what it allows, what it forbids and in which words.

use codec::json;

use super::checks::{Pod, details, evaluate};
use super::policy::{Level, LevelVersion, Policy, Version};

/// All of the restricted level is satisfied by this, so that only what a case adds is found.
const GOOD: &str = r#""allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}"#;

fn found(level: Level, version: Version, spec: &str, annotations: &str) -> String {
    let text = format!(r#"{{"metadata":{{"annotations":{{{annotations}}}}},"spec":{{{spec}}}}}"#);
    let pod = json::parse(text.as_bytes(), None).expect(&text);
    details(&evaluate(LevelVersion { level, version }, &Pod::of(&pod)))
}

/// A pod of one container with these members beside the good ones.
fn container(members: &str) -> String {
    format!(r#""containers":[{{"name":"c",{members}}}]"#)
}

#[test]
fn baseline_checks() {
    let context = |text: &str| container(&format!(r#""securityContext":{{{text}}}"#));
    for (spec, annotations, wanted) in [
        (container(r#""image":"x""#), "", ""),
        (context(r#""appArmorProfile":{"type":"Localhost"}"#), "", ""),
        (
            format!(
                r#""securityContext":{{"appArmorProfile":{{"type":"Unconfined"}}}},{}"#,
                context(r#""appArmorProfile":{"type":"Odd"}"#)
            ),
            r#""container.apparmor.security.beta.kubernetes.io/c":"unconfined""#,
            r#"forbidden AppArmor profiles (pod and container "c" and annotation must not set AppArmor profile type to "Odd", "Unconfined", "container.apparmor.security.beta.kubernetes.io/c="unconfined"")"#,
        ),
        (context(r#""capabilities":{"add":["CHOWN"]}"#), "", ""),
        (
            context(r#""capabilities":{"add":["SYS_ADMIN","NET_RAW","CHOWN"]}"#),
            "",
            r#"non-default capabilities (container "c" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)"#,
        ),
        (
            r#""hostNetwork":true,"hostPID":true,"hostIPC":true"#.into(),
            "",
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            r#""volumes":[{"name":"a","hostPath":{"path":"/"}},{"name":"b","hostPath":{"path":"/"}}]"#.into(),
            "",
            r#"hostPath volumes (volumes "a", "b")"#,
        ),
        (
            container(r#""ports":[{"hostPort":80},{"hostPort":443},{"containerPort":1}]"#),
            "",
            r#"hostPort (container "c" uses hostPorts 443, 80)"#,
        ),
        (
            container(
                r#""livenessProbe":{"httpGet":{"host":"h"}},"lifecycle":{"preStop":{"tcpSocket":{"host":"g"}}}"#,
            ),
            "",
            r#"probe or lifecycle host (container "c" uses probe or lifecycle hosts "g", "h")"#,
        ),
        (
            context(r#""privileged":true"#),
            "",
            r#"privileged (container "c" must not set securityContext.privileged=true)"#,
        ),
        (
            context(r#""procMount":"Unmasked""#),
            "",
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (format!(r#""hostUsers":false,{}"#, context(r#""procMount":"Unmasked""#)), "", ""),
        (context(r#""seLinuxOptions":{"type":"container_engine_t"}"#), "", ""),
        (
            context(r#""seLinuxOptions":{"type":"t","user":"u","role":"r"}"#),
            "",
            r#"seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "t"; user may not be set; role may not be set)"#,
        ),
        (
            context(r#""seccompProfile":{"type":"Unconfined"}"#),
            "",
            r#"seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")"#,
        ),
        (r#""securityContext":{"sysctls":[{"name":"net.ipv4.tcp_rmem"}]}"#.into(), "", ""),
        (
            r#""securityContext":{"sysctls":[{"name":"kernel.msgmax"},{"name":"a"}]}"#.into(),
            "",
            "forbidden sysctls (kernel.msgmax, a)",
        ),
        (
            context(r#""windowsOptions":{"hostProcess":true}"#),
            "",
            r#"hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)"#,
        ),
    ] {
        assert_eq!(found(Level::Baseline, Version::Latest, &spec, annotations), wanted, "{spec}");
    }
}

#[test]
fn restricted_checks() {
    let good = |more: &str| container(&format!(r#""securityContext":{{{GOOD}{more}}}"#));
    for (spec, wanted) in [
        (good(""), ""),
        (
            format!(
                r#"{},"volumes":[{{"name":"v","nfs":{{}}}},{{"name":"w","emptyDir":{{}}}},{{"name":"x"}},{{"name":"h","hostPath":{{}}}}]"#,
                good("")
            ),
            r#"restricted volume types (volumes "v", "x", "h" use restricted volume types "hostPath", "nfs", "unknown")"#,
        ),
        (good(r#","runAsUser":0"#), r#"runAsUser=0 (container "c" must not set runAsUser=0)"#),
        (format!(r#""hostUsers":false,{}"#, good(r#","runAsUser":0"#)), ""),
        (
            good(r#","procMount":"Unmasked""#)
                .replace(r#""containers""#, r#""hostUsers":false,"containers""#),
            r#"procMount (container "c" must not set securityContext.procMount to "Unmasked")"#,
        ),
        (
            good("").replace(r#""runAsNonRoot":true"#, r#""runAsNonRoot":false"#),
            r#"runAsNonRoot != true (container "c" must not set securityContext.runAsNonRoot=false)"#,
        ),
        (
            good("").replace(r#""drop":["ALL"]"#, r#""drop":["CHOWN"],"add":["CHOWN","NET_BIND_SERVICE"]"#),
            r#"unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]; container "c" must not include "CHOWN" in securityContext.capabilities.add)"#,
        ),
        (
            format!(
                r#""os":{{"name":"windows"}},{}"#,
                container(r#""securityContext":{"runAsNonRoot":true}"#)
            ),
            "",
        ),
    ] {
        assert_eq!(found(Level::Restricted, Version::Latest, &spec, ""), wanted, "{spec}");
    }
}

#[test]
fn versions_have_their_own_checks() {
    let engine = container(r#""securityContext":{"seLinuxOptions":{"type":"container_engine_t"}}"#);
    let probe = container(r#""livenessProbe":{"httpGet":{"host":"h"}}"#);
    let sysctl = r#""securityContext":{"sysctls":[{"name":"net.ipv4.ip_local_reserved_ports"}]}"#.to_owned();
    for (minor, spec, clean) in [
        (30, &engine, false),
        (31, &engine, true),
        (33, &probe, true),
        (34, &probe, false),
        (26, &sysctl, false),
        (27, &sysctl, true),
    ] {
        let told = found(Level::Baseline, Version::Minor(minor), spec, "");
        assert_eq!(told.is_empty(), clean, "v1.{minor} {spec}: {told}");
    }
    let annotated = r#""seccomp.security.alpha.kubernetes.io/pod":"unconfined""#;
    let told = found(Level::Baseline, Version::Minor(18), "", annotated);
    assert_eq!(
        told,
        r#"seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")"#
    );
    assert_eq!(found(Level::Baseline, Version::Minor(19), "", annotated), "");
    // Before v1.19 restricted has the baseline's check of seccomp.
    assert_eq!(
        found(
            Level::Restricted,
            Version::Minor(7),
            &container(r#""securityContext":{"runAsNonRoot":true}"#),
            annotated
        ),
        told
    );
}

#[test]
fn labels_make_a_policy() {
    let of = |labels: &[(&str, &str)]| {
        let label = |name: &str| {
            let short = name.strip_prefix("pod-security.kubernetes.io/").expect("one of ours");
            labels.iter().find(|(k, _)| *k == short).map(|(_, v)| (*v).to_owned())
        };
        let (policy, broken) = Policy::of(Policy::default(), label);
        (format!("{} {} {}", policy.enforce, policy.audit, policy.warn), broken.len())
    };
    let open = "privileged:latest";
    for (labels, policy, broken) in [
        (&[][..], format!("{open} {open} {open}"), 0),
        (
            &[("enforce", "baseline"), ("enforce-version", "v1.20")],
            format!("baseline:v1.20 {open} baseline:v1.20"),
            0,
        ),
        (
            &[("enforce", "baseline"), ("warn-version", "v1.3")],
            format!("baseline:latest {open} baseline:v1.3"),
            0,
        ),
        (
            &[("enforce", "restricted"), ("warn", "baseline")],
            format!("restricted:latest {open} baseline:latest"),
            0,
        ),
        (&[("enforce", "x"), ("audit", "y"), ("warn", "z")], format!("restricted:latest {open} {open}"), 3),
        (&[("enforce-version", "v1.01"), ("warn-version", "1.2")], format!("{open} {open} {open}"), 2),
    ] {
        assert_eq!(of(labels), (policy, broken), "{labels:?}");
    }
}
