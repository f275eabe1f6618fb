use std::path::Path;

use super::*;
use crate::generate::NodeView;
use crate::generate::testing::{Fixture, pod, value};

/// The mounts of a container with these members, in a pod with an address unless its spec is of the host.
fn made(
    spec: &str,
    container: &str,
    node: impl FnOnce(&mut NodeView<'_>),
) -> Result<Vec<cri::Mount>, String> {
    let fixture = Fixture::new();
    let (pod, container) = (pod(spec), value(container));
    let mut view = fixture.node();
    node(&mut view);
    let image = cri::ImageSpec { image: "i@sha256:2".to_owned(), ..Default::default() };
    let volumes = BTreeMap::from([
        ("data".to_owned(), MountedVolume { host_path: "/volumes/data".into(), ..Default::default() }),
        (
            "fixed".to_owned(),
            MountedVolume { host_path: "/volumes/fixed".into(), read_only: true, ..Default::default() },
        ),
        ("image".to_owned(), MountedVolume { image: Some(image), read_only: true, ..Default::default() }),
        ("disk".to_owned(), MountedVolume { device: Some("/dev/sdb".into()), ..Default::default() }),
    ]);
    let log = Path::new("/var/lib/kubelet/pods/1234/containers/c/0000002a");
    // Prepared where they are asked for, but for one.
    let prepared = list(&container, &["volumeMounts"]).iter().enumerate().filter_map(|(index, mount)| {
        let volume = volumes.get(text(mount, &["name"]))?;
        let path = sub_path(mount, &env()).ok().filter(|path| path != "broken")?;
        Some((index, volume.host_path.join(path)))
    });
    let parts = prepared.collect();
    let inputs = ContainerInputs {
        volumes: &volumes,
        parts: &parts,
        termination_log: Some(log),
        pod_ips: if spec.contains("hostNetwork") {
            &[]
        } else {
            fixture.inputs(&view, &pod, &container).pod_ips
        },
        ..fixture.inputs(&view, &pod, &container)
    };
    mounts(&inputs, &env())
}

fn env() -> Environment {
    Environment::from([("POD".to_owned(), b"web".to_vec()), ("NONE".to_owned(), Vec::new())])
}

fn shown(mount: &cri::Mount) -> String {
    let mut text = format!("{} -> {}", mount.host_path, mount.container_path);
    for (set, word) in
        [(mount.readonly, " ro"), (mount.recursive_read_only, " rro"), (mount.selinux_relabel, " z")]
    {
        text.push_str(if set { word } else { "" });
    }
    if mount.propagation != 0 {
        text.push_str(&format!(" propagation {}", mount.propagation));
    }
    if let Some(image) = &mount.image {
        text.push_str(&format!(" image {} {}", image.image, mount.image_sub_path));
    }
    text
}

fn of(mounts: &str) -> Result<Vec<String>, String> {
    let container = format!(r#"{{"name":"c","volumeMounts":[{mounts}]}}"#);
    let all = made("{}", &container, |node| node.recursive_read_only = true)?;
    // The hosts file has its own test.
    Ok(all.iter().filter(|mount| mount.container_path != "/etc/hosts").map(shown).collect())
}

#[test]
fn volumes_are_mounted_where_the_container_says() {
    for (mount, expected) in [
        (r#"{"name":"data","mountPath":"/d"}"#, "/volumes/data -> /d"),
        (r#"{"name":"data","mountPath":"d"}"#, "/volumes/data -> /d"),
        (r#"{"name":"data","mountPath":"/d","readOnly":true}"#, "/volumes/data -> /d ro"),
        (r#"{"name":"fixed","mountPath":"/d"}"#, "/volumes/fixed -> /d ro"),
        (r#"{"name":"data","mountPath":"/d","subPath":"a/b"}"#, "/volumes/data/a/b -> /d"),
        (r#"{"name":"data","mountPath":"/d","subPathExpr":"x-$(POD)"}"#, "/volumes/data/x-web -> /d"),
        (r#"{"name":"data","mountPath":"/d","subPathExpr":"$$(POD)"}"#, "/volumes/data/$(POD) -> /d"),
        (r#"{"name":"data","mountPath":"/d","mountPropagation":"None"}"#, "/volumes/data -> /d"),
        (
            r#"{"name":"data","mountPath":"/d","mountPropagation":"HostToContainer"}"#,
            "/volumes/data -> /d propagation 1",
        ),
        (
            r#"{"name":"data","mountPath":"/d","mountPropagation":"Bidirectional"}"#,
            "/volumes/data -> /d propagation 2",
        ),
        (
            r#"{"name":"data","mountPath":"/d","readOnly":true,"recursiveReadOnly":"Enabled"}"#,
            "/volumes/data -> /d ro rro",
        ),
        (
            r#"{"name":"data","mountPath":"/d","readOnly":true,"recursiveReadOnly":"IfPossible"}"#,
            "/volumes/data -> /d ro rro",
        ),
        (
            r#"{"name":"data","mountPath":"/d","readOnly":true,"recursiveReadOnly":"Disabled"}"#,
            "/volumes/data -> /d ro",
        ),
        (r#"{"name":"image","mountPath":"/i","subPath":"s"}"#, " -> /i ro image i@sha256:2 s"),
    ] {
        assert_eq!(of(mount), Ok(vec![expected.to_owned()]), "{mount}");
    }
}

#[test]
fn what_cannot_be_mounted_is_said() {
    for (mount, error) in [
        (r#"{"name":"gone","mountPath":"/d"}"#, r#"cannot find volume "gone" to mount into container "c""#),
        (r#"{"name":"disk","mountPath":"/d"}"#, r#"cannot find volume "disk" to mount into container "c""#),
        (r#"{"name":"data","subPath":"/a"}"#, "error SubPath `/a` must not be an absolute path"),
        (
            r#"{"name":"data","subPath":"a/../b"}"#,
            "unable to provision SubPath `a/../b`: must not contain '..'",
        ),
        (r#"{"name":"data","subPathExpr":"$(X)/$(NONE)/$(B)"}"#, "missing value for B, NONE, X"),
        (
            r#"{"name":"data","subPath":"broken"}"#,
            r#"failed to prepare subPath for volumeMount "data" of container "c""#,
        ),
        (r#"{"name":"data","mountPropagation":"Odd"}"#, r#"invalid MountPropagation mode: "Odd""#),
        (
            r#"{"name":"data","recursiveReadOnly":"Enabled"}"#,
            "failed to resolve recursive read-only mode: \
             volume \"data\" requested recursive read-only mode, but it is not read-only",
        ),
        (
            r#"{"name":"data","readOnly":true,"recursiveReadOnly":"Enabled","mountPropagation":"HostToContainer"}"#,
            "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, \
             but it is not compatible with propagation \"HostToContainer\"",
        ),
        (
            r#"{"name":"data","readOnly":true,"recursiveReadOnly":"Odd"}"#,
            "failed to resolve recursive read-only mode: unknown recursive read-only mode \"Odd\"",
        ),
    ] {
        assert_eq!(of(mount), Err(error.to_owned()), "{mount}");
    }
}

#[test]
fn a_runtime_without_recursive_read_only_does_what_it_can() {
    let with = |mode: &str| {
        let mount =
            format!(r#"{{"name":"data","mountPath":"/d","readOnly":true,"recursiveReadOnly":"{mode}"}}"#);
        let all = made("{}", &format!(r#"{{"name":"c","volumeMounts":[{mount}]}}"#), |_| {})?;
        Ok(shown(&all[0]))
    };
    assert_eq!(with("IfPossible"), Ok("/volumes/data -> /d ro".to_owned()));
    let error = "failed to resolve recursive read-only mode: volume \"data\" requested recursive read-only mode, \
                 but it is not supported by the runtime";
    assert_eq!(with("Enabled"), Err::<String, _>(error.to_owned()));
}

#[test]
fn hosts_and_last_words_are_mounted_behind_the_volumes() {
    let all = |spec: &str, container: &str| {
        made(spec, container, |node| node.selinux = true).unwrap().iter().map(shown).collect::<Vec<_>>()
    };
    let hosts = "/var/lib/kubelet/pods/1234/etc-hosts -> /etc/hosts z";
    let container =
        r#"{"name":"c","terminationMessagePath":"dev/x","volumeMounts":[{"name":"data","mountPath":"/d"}]}"#;
    let log = "/var/lib/kubelet/pods/1234/containers/c/0000002a -> /dev/x z";
    assert_eq!(all("{}", container), ["/volumes/data -> /d", hosts, log]);
    assert_eq!(all(r#"{"hostNetwork":true}"#, r#"{"name":"c"}"#), [hosts]);
    // Without an address there is nothing to say yet.
    assert_eq!(all(r#"{"hostNetwork":false}"#, r#"{"name":"c"}"#), [] as [&str; 0]);
    let own = r#"{"name":"c","volumeMounts":[{"name":"data","mountPath":"/etc/hosts","subPath":"h"}]}"#;
    assert_eq!(all("{}", own), ["/volumes/data/h -> /etc/hosts"]);
}

#[test]
fn block_volumes_are_devices() {
    let volumes = BTreeMap::from([
        ("disk".to_owned(), MountedVolume { device: Some("/dev/sdb".into()), ..Default::default() }),
        (
            "seen".to_owned(),
            MountedVolume { device: Some("/dev/sdc".into()), read_only: true, ..Default::default() },
        ),
        ("data".to_owned(), MountedVolume::default()),
    ]);
    let of = |devices: &str| {
        let made =
            block_devices(&value(&format!(r#"{{"name":"c","volumeDevices":[{devices}]}}"#)), &volumes)?;
        Ok(made
            .iter()
            .map(|d| format!("{} {} {}", d.host_path, d.container_path, d.permissions))
            .collect::<Vec<_>>())
    };
    let both = r#"{"name":"disk","devicePath":"/dev/x"},{"name":"seen","devicePath":"/dev/y"}"#;
    assert_eq!(of(both), Ok(vec!["/dev/sdb /dev/x mrw".to_owned(), "/dev/sdc /dev/y r".to_owned()]));
    for (device, error) in [
        (r#"{"name":"disk","devicePath":"x"}"#, "error DevicePath `x` must be an absolute path"),
        (r#"{"name":"gone","devicePath":"/x"}"#, r#"cannot find volume "gone" to pass into container "c""#),
        (r#"{"name":"data","devicePath":"/x"}"#, r#"cannot find volume "data" to pass into container "c""#),
    ] {
        assert_eq!(of(device), Err::<Vec<String>, _>(error.to_owned()));
    }
}

#[test]
fn parts_of_volumes_are_listed_before_a_container_is_made() {
    let fixture = Fixture::new();
    let parts = |mounts: &str| {
        let container = format!(
            r#"{{"name":"c","env":[{{"name":"DAY","value":"monday"}},{{"name":"NONE"}}],"volumeMounts":[{mounts}]}}"#
        );
        let (pod, container) = (pod("{}"), value(&container));
        let node = fixture.node();
        let all = wanted_parts(&fixture.inputs(&node, &pod, &container))?;
        Ok(all
            .into_iter()
            .map(|part| format!("{} {} {}", part.index, part.volume, part.path))
            .collect::<Vec<_>>())
    };
    let mounts = r#"{"name":"data","mountPath":"/a"},{"name":"data","mountPath":"/b","subPathExpr":"logs/$(DAY)"},
                    {"name":"other","mountPath":"/c","subPath":"x"}"#;
    assert_eq!(parts(mounts), Ok(vec!["1 data logs/monday".to_owned(), "2 other x".to_owned()]));
    assert_eq!(parts(r#"{"name":"data","mountPath":"/a"}"#), Ok(vec![]));
    let missing = parts(r#"{"name":"data","subPathExpr":"$(NONE)"}"#);
    assert_eq!(missing, Err::<Vec<String>, _>(GenerateError::config("missing value for NONE")));
}
