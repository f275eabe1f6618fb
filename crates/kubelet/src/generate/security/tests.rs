use super::*;
use crate::generate::testing::{Fixture, pod, value};

fn context(pod_context: &str, container_context: &str) -> Result<cri::LinuxContainerSecurityContext, String> {
    context_of(&format!(r#"{{"securityContext":{pod_context}}}"#), container_context, &ImageUser::Uid(0))
}

fn context_of(
    spec: &str,
    container_context: &str,
    image_user: &ImageUser,
) -> Result<cri::LinuxContainerSecurityContext, String> {
    let fixture = Fixture::new();
    let (pod, container) =
        (pod(spec), value(&format!(r#"{{"name":"c","securityContext":{container_context}}}"#)));
    let node = fixture.node();
    security_context(&ContainerInputs { image_user, ..fixture.inputs(&node, &pod, &container) })
}

#[test]
fn the_container_goes_before_the_pod() {
    let made = context(
        r#"{"runAsUser":1,"runAsGroup":2,"fsGroup":3,"supplementalGroups":[4],"seLinuxOptions":{"user":"pod"}}"#,
        r#"{"runAsUser":11,"privileged":true,"readOnlyRootFilesystem":true,"seLinuxOptions":{"type":"own"},
            "capabilities":{"add":["NET_ADMIN"],"drop":["ALL"]},"allowPrivilegeEscalation":false}"#,
    );
    let made = made.unwrap();
    assert_eq!((made.run_as_user.unwrap().value, made.run_as_group.unwrap().value), (11, 2));
    assert_eq!(made.supplemental_groups, [3, 4]);
    assert!(made.privileged && made.readonly_rootfs && made.no_new_privs);
    let selinux = made.selinux_options.unwrap();
    assert_eq!((selinux.r#type.as_str(), selinux.user.as_str()), ("own", ""));
    let capabilities = made.capabilities.unwrap();
    assert_eq!(
        (capabilities.add_capabilities, capabilities.drop_capabilities),
        (vec!["NET_ADMIN".into()], vec!["ALL".into()])
    );
    let plain = context("{}", "{}").unwrap();
    assert!(!plain.privileged && !plain.readonly_rootfs && !plain.no_new_privs);
    assert_eq!((plain.capabilities, plain.selinux_options, plain.run_as_group), (None, None, None));
}

#[test]
fn an_image_says_who_runs_if_nobody_else_does() {
    let user = |container: &str, image: &ImageUser| {
        let made = context_of("{}", container, image).unwrap();
        (made.run_as_user.map(|user| user.value), made.run_as_username)
    };
    assert_eq!(user("{}", &ImageUser::Uid(7)), (Some(7), String::new()));
    assert_eq!(user("{}", &ImageUser::Name("web".to_owned())), (None, "web".to_owned()));
    assert_eq!(user(r#"{"runAsUser":5}"#, &ImageUser::Name("web".to_owned())), (Some(5), String::new()));
    let image = |uid: Option<i64>, username: &str| {
        let uid = uid.map(|value| cri::Int64Value { value });
        ImageUser::of(Some(&cri::Image { uid, username: username.to_owned(), ..Default::default() }))
    };
    assert_eq!(image(Some(3), ""), ImageUser::Uid(3));
    assert_eq!(image(None, "web"), ImageUser::Name("web".to_owned()));
    assert_eq!((image(None, ""), ImageUser::of(None)), (ImageUser::Uid(0), ImageUser::Uid(0)));
}

#[test]
fn root_is_refused_where_it_must_not_be() {
    let verify = |pod_context: &str, container: &str, user: ImageUser| {
        let pod = pod(&format!(r#"{{"securityContext":{pod_context}}}"#));
        let container = value(&format!(r#"{{"name":"c","securityContext":{container}}}"#));
        verify_non_root(&pod, &container, &user)
    };
    let place = r#"(pod: "web_shop(1234)", container: c)"#;
    let root = ImageUser::Uid(0);
    assert_eq!(verify("{}", "{}", root.clone()), Ok(()));
    assert_eq!(verify(r#"{"runAsNonRoot":true}"#, r#"{"runAsNonRoot":false}"#, root.clone()), Ok(()));
    assert_eq!(verify(r#"{"runAsNonRoot":true,"runAsUser":5}"#, "{}", root.clone()), Ok(()));
    assert_eq!(verify(r#"{"runAsNonRoot":true}"#, "{}", ImageUser::Uid(5)), Ok(()));
    for (container, user, error) in [
        (
            r#"{"runAsNonRoot":true,"runAsUser":0}"#,
            ImageUser::Uid(5),
            "container's runAsUser breaks non-root policy",
        ),
        (r#"{"runAsNonRoot":true}"#, root, "container has runAsNonRoot and image will run as root"),
        (
            r#"{"runAsNonRoot":true}"#,
            ImageUser::Name("web".to_owned()),
            "container has runAsNonRoot and image has non-numeric user (web), cannot verify user is non-root",
        ),
        (
            r#"{"runAsNonRoot":true}"#,
            ImageUser::Uid(-1),
            "container has runAsNonRoot and image has an invalid user id (-1). (Must be 1-(2147483647)): \
             must be between 0 and 2147483647, inclusive",
        ),
    ] {
        assert_eq!(verify("{}", container, user), Err(format!("{error} {place}")));
    }
}

#[test]
fn groups_of_volumes_are_added_and_the_policy_kept() {
    let fixture = Fixture::new();
    let pod = pod(
        r#"{"securityContext":{"supplementalGroups":[4],"fsGroup":3,"supplementalGroupsPolicy":"Strict"}}"#,
    );
    let container = value("{}");
    let volume = crate::generate::MountedVolume { group: Some(99), ..Default::default() };
    let volumes = [("v".to_owned(), volume)].into();
    let node = fixture.node();
    let made =
        security_context(&ContainerInputs { volumes: &volumes, ..fixture.inputs(&node, &pod, &container) });
    let made = made.unwrap();
    assert_eq!(made.supplemental_groups, [3, 4, 99]);
    assert_eq!(made.supplemental_groups_policy, SupplementalGroupsPolicy::Strict as i32);
    let odd = context(r#"{"supplementalGroupsPolicy":"Odd"}"#, "{}");
    assert_eq!(odd, Err("unsupported supplementalGroupsPolicy: Odd".to_owned()));
}

#[test]
fn proc_is_covered_unless_it_must_not_be() {
    let fixture = Fixture::new();
    let more = ["/sys/devices/system/cpu/cpu0/thermal_throttle".to_owned()];
    let node = NodeView { masked_paths: &more, ..fixture.node() };
    let (pod, container) = (pod("{}"), value("{}"));
    let made = security_context(&fixture.inputs(&node, &pod, &container)).unwrap();
    assert_eq!(made.masked_paths.len(), 13);
    assert_eq!(made.masked_paths.last(), more.first());
    assert_eq!(made.readonly_paths, READONLY_PATHS);
    let open = context("{}", r#"{"procMount":"Unmasked"}"#).unwrap();
    assert!(open.masked_paths.is_empty() && open.readonly_paths.is_empty());
    assert_eq!(context("{}", r#"{"procMount":"Default"}"#).unwrap().masked_paths.len(), 12);
}

#[test]
fn system_calls_are_filtered_as_asked() {
    let profile = |pod: &str, container: &str, default: bool| {
        let fixture = Fixture::new();
        let config = crate::config::Config { seccomp_default: default, ..fixture.config.clone() };
        let pod = crate::generate::testing::pod(&format!(r#"{{"securityContext":{pod}}}"#));
        let container = value(&format!(r#"{{"securityContext":{container}}}"#));
        let node = NodeView { config: &config, ..fixture.node() };
        let made = security_context(&fixture.inputs(&node, &pod, &container))?.seccomp.unwrap();
        Ok((made.profile_type, made.localhost_ref))
    };
    let (default, unconfined, localhost) = (0, 1, 2);
    let of =
        |kind: &str| format!(r#"{{"seccompProfile":{{"type":"{kind}","localhostProfile":"p/x.json"}}}}"#);
    let path = "/var/lib/kubelet/seccomp/p/x.json".to_owned();
    for (pod, container, on, expected) in [
        ("{}", "{}", false, (unconfined, String::new())),
        ("{}", "{}", true, (default, String::new())),
        (&of("Unconfined"), "{}", true, (unconfined, String::new())),
        (&of("Unconfined"), &of("RuntimeDefault"), false, (default, String::new())),
        (&of("Localhost"), "{}", false, (localhost, path)),
    ] {
        assert_eq!(profile(pod, container, on), Ok(expected), "{pod} {container}");
    }
    let unnamed = r#"{"seccompProfile":{"type":"Localhost"}}"#;
    let error = "localhostProfile must be set if seccompProfile type is Localhost.".to_owned();
    assert_eq!(profile("{}", unnamed, false), Err::<(i32, String), _>(error));
}

#[test]
fn apparmor_comes_from_the_container_an_annotation_or_the_pod() {
    let profile = |annotation: Option<&str>, pod_context: &str, container_context: &str| {
        let mut pod = pod(&format!(r#"{{"securityContext":{pod_context}}}"#));
        if let Some(value) = annotation {
            let key: std::sync::Arc<str> = format!("{APPARMOR_ANNOTATION}c").into();
            pod.map_at(&["metadata", "annotations"]).set(catalog::Name::Shared(key), value);
        }
        let container = value(&format!(r#"{{"name":"c","securityContext":{container_context}}}"#));
        let made = apparmor(&Context { pod: &pod, container: &container })?;
        Ok(made.map(|made| (made.profile_type, made.localhost_ref)))
    };
    let of = |kind: &str, name: &str| {
        format!(r#"{{"appArmorProfile":{{"type":"{kind}","localhostProfile":"{name}"}}}}"#)
    };
    let some = |kind: ProfileType, name: &str| Ok(Some((kind as i32, name.to_owned())));
    assert_eq!(profile(None, "{}", "{}"), Ok(None));
    assert_eq!(profile(None, &of("RuntimeDefault", ""), "{}"), some(ProfileType::RuntimeDefault, ""));
    assert_eq!(profile(None, "{}", &of("Localhost", "x")), some(ProfileType::Localhost, "x"));
    assert_eq!(
        profile(Some("unconfined"), &of("RuntimeDefault", ""), "{}"),
        some(ProfileType::Unconfined, "")
    );
    assert_eq!(profile(Some("localhost/y"), "{}", "{}"), some(ProfileType::Localhost, "y"));
    assert_eq!(
        profile(Some("runtime/default"), "{}", &of("Unconfined", "")),
        some(ProfileType::Unconfined, "")
    );
    assert_eq!(profile(Some("odd"), &of("RuntimeDefault", ""), "{}"), some(ProfileType::RuntimeDefault, ""));
    let unnamed = profile(None, "{}", r#"{"appArmorProfile":{"type":"Localhost"}}"#);
    assert_eq!(unnamed, Err("missing localhost apparmor profile name".to_owned()));
    assert_eq!(
        profile(None, "{}", &of("Odd", "")),
        Err(r#"unknown apparmor profile type: "Odd""#.to_owned())
    );
}

#[test]
fn a_debugging_container_sees_the_processes_of_its_target() {
    let pid = |spec: &str| {
        let fixture = Fixture::new();
        let (pod, container) = (pod(spec), value("{}"));
        let node = fixture.node();
        let inputs = ContainerInputs { target_id: Some("abc"), ..fixture.inputs(&node, &pod, &container) };
        let options = security_context(&inputs).unwrap().namespace_options.unwrap();
        (options.pid, options.target_id)
    };
    assert_eq!(pid("{}"), (cri::NamespaceMode::Target as i32, "abc".to_owned()));
    assert_eq!(pid(r#"{"shareProcessNamespace":true}"#), (cri::NamespaceMode::Pod as i32, String::new()));
    assert_eq!(pid(r#"{"hostPID":true}"#), (cri::NamespaceMode::Node as i32, String::new()));
}
