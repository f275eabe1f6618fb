use super::*;
use crate::generate::testing::{config, pod, resolv, value};

fn sandbox(pod: &Value) -> Result<Sandbox, GenerateError> {
    let (config, resolv) = (config(), resolv());
    sandbox_config(pod, 3, &[99], &NodeView::new(&config, &resolv))
}

fn made(spec: &str) -> cri::PodSandboxConfig {
    sandbox(&pod(spec)).unwrap().config
}

#[test]
fn a_sandbox_is_named_after_its_pod() {
    let mut pod = pod(r#"{"dnsPolicy":"ClusterFirst","containers":[]}"#);
    pod.map_at(&["metadata", "annotations"]).set("a", "b");
    let Sandbox { config, events } = sandbox(&pod).unwrap();
    assert_eq!(events, []);
    let meta = config.metadata.unwrap();
    assert_eq!(
        (meta.name.as_str(), meta.namespace.as_str(), meta.uid.as_str(), meta.attempt),
        ("web", "shop", "1234", 3)
    );
    assert_eq!(config.hostname, "web");
    assert_eq!(config.log_directory, "/var/lib/kubelet/logs/shop_web_1234");
    assert_eq!(config.dns_config.unwrap().servers, ["10.96.0.10"]);
    assert_eq!((config.labels["app"].as_str(), config.annotations["a"].as_str()), ("web", "b"));
    let linux = config.linux.unwrap();
    assert_eq!(linux.cgroup_parent, "/kubepods/besteffort/pod1234");
    let context = linux.security_context.unwrap();
    assert_eq!(context.seccomp.unwrap().profile_type, cri::ProfileType::RuntimeDefault as i32);
    assert_eq!((context.privileged, context.run_as_user), (false, None));
}

#[test]
fn the_pods_context_is_the_sandboxs() {
    let config = made(
        r#"{"securityContext":{"runAsUser":1,"runAsGroup":2,"fsGroup":3,"supplementalGroups":[4,5],
              "supplementalGroupsPolicy":"Strict","seLinuxOptions":{"type":"t","level":"l"},
              "sysctls":[{"name":"kernel/shm_rmid_forced","value":"1"},{"name":"net.ipv4.tcp_syncookies","value":"0"}]},
            "ephemeralContainers":[{"securityContext":{"privileged":true}}]}"#,
    );
    let linux = config.linux.unwrap();
    let context = linux.security_context.unwrap();
    assert_eq!((context.run_as_user.unwrap().value, context.run_as_group.unwrap().value), (1, 2));
    assert_eq!(context.supplemental_groups, [3, 4, 5, 99]);
    assert_eq!(context.supplemental_groups_policy, cri::SupplementalGroupsPolicy::Strict as i32);
    let selinux = context.selinux_options.unwrap();
    assert_eq!((selinux.r#type.as_str(), selinux.level.as_str(), selinux.user.as_str()), ("t", "l", ""));
    assert!(context.privileged);
    let sysctls: Vec<_> = linux.sysctls.into_iter().collect();
    assert_eq!(
        sysctls,
        [
            ("kernel.shm_rmid_forced".to_owned(), "1".to_owned()),
            ("net.ipv4.tcp_syncookies".to_owned(), "0".to_owned())
        ]
    );
}

#[test]
fn a_pod_of_the_hosts_network_has_no_name_of_its_own() {
    assert_eq!(made(r#"{"hostNetwork":true,"hostname":"x"}"#).hostname, "");
    assert_eq!(made(r#"{"hostname":"x"}"#).hostname, "x");
}

#[test]
fn ports_are_mapped_once() {
    let config = made(
        r#"{"containers":[{"ports":[{"containerPort":80,"hostPort":8080,"protocol":"TCP"},
                                    {"containerPort":80,"hostPort":8080,"protocol":"TCP"},
                                    {"containerPort":80,"hostPort":8080,"protocol":"TCP","hostIP":"::1"},
                                    {"name":"a","containerPort":53,"protocol":"UDP"},
                                    {"name":"a","containerPort":54,"protocol":"UDP"},
                                    {"containerPort":99,"hostPort":99,"protocol":"SCTP","hostIP":"10.0.0.1"}]},
                          {"ports":[{"name":"a","containerPort":1}]}]}"#,
    );
    let ports: Vec<_> = config
        .port_mappings
        .iter()
        .map(|p| format!("{} {} {} {}", p.protocol, p.container_port, p.host_port, p.host_ip))
        .collect();
    assert_eq!(ports, ["0 80 8080 ", "0 80 8080 ::1", "1 53 0 ", "2 99 99 10.0.0.1", "0 1 0 "]);
}

#[test]
fn what_cannot_be_made_is_said() {
    let error = |spec: &str| sandbox(&pod(spec)).unwrap_err();
    let userns = error(r#"{"hostUsers":false}"#);
    assert_eq!(userns.reason, "CreatePodSandboxError");
    assert_eq!(userns.message, "can't set `spec.hostUsers: false`, runtime does not support user namespaces");
    let policy = error(r#"{"securityContext":{"supplementalGroupsPolicy":"Odd"}}"#);
    assert_eq!(policy.message, "unsupported supplementalGroupsPolicy: Odd");
    assert!(
        error(r#"{"hostname":"A"}"#).message.starts_with("pod Hostname \"A\" is not a valid DNS label: ")
    );
    // Anything can come in; it must only not fall over.
    assert!(sandbox(&value("[]")).is_ok());
}
