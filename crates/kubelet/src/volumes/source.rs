//! What the volumes of a pod are, and which of them its containers use.

use std::collections::BTreeSet;

use object::Value;

/// One volume of the pod's spec.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<'a> {
    EmptyDir(&'a Value),
    HostPath {
        path: &'a str,
        kind: &'a str,
    },
    ConfigMap(&'a Value),
    Secret(&'a Value),
    DownwardApi(&'a Value),
    Projected(&'a Value),
    Claim {
        name: String,
        read_only: bool,
        ephemeral: bool,
    },
    Image {
        reference: &'a str,
        pull_policy: Option<&'a str>,
    },
    /// What it is called.
    Unsupported(&'a str),
}

impl<'a> Source<'a> {
    pub fn read(pod: &Value, volume: &'a Value) -> Source<'a> {
        fn text<'v>(source: &'v Value, name: &str) -> &'v str {
            source.str_at(&[name]).unwrap_or_default()
        }
        let name = text(volume, "name");
        // A volume has one source; one without any is an emptyDir, as API servers make it.
        let source = volume.as_map().and_then(|map| map.iter().find(|(key, _)| key.as_str() != "name"));
        let Some((kind, source)) = source else { return Source::EmptyDir(volume) };
        match kind.as_str() {
            "emptyDir" => Source::EmptyDir(source),
            "hostPath" => Source::HostPath { path: text(source, "path"), kind: text(source, "type") },
            "configMap" => Source::ConfigMap(source),
            "secret" => Source::Secret(source),
            "downwardAPI" => Source::DownwardApi(source),
            "projected" => Source::Projected(source),
            "persistentVolumeClaim" => Source::Claim {
                name: text(source, "claimName").to_owned(),
                read_only: source.get("readOnly").and_then(Value::as_bool).unwrap_or(false),
                ephemeral: false,
            },
            "ephemeral" => Source::Claim {
                name: format!("{}-{name}", pod.str_at(&["metadata", "name"]).unwrap_or_default()),
                read_only: false,
                ephemeral: true,
            },
            "image" => Source::Image {
                reference: text(source, "reference"),
                pull_policy: source.str_at(&["pullPolicy"]),
            },
            other => Source::Unsupported(other),
        }
    }

    /// Kubelet's name for the plugin, in which directories of pods lie.
    pub fn directory(&self) -> &'static str {
        match self {
            Source::EmptyDir(_) => EMPTY_DIR,
            Source::ConfigMap(_) => "kubernetes.io~configmap",
            Source::Secret(_) => "kubernetes.io~secret",
            Source::DownwardApi(_) => "kubernetes.io~downward-api",
            Source::Projected(_) => "kubernetes.io~projected",
            Source::Claim { .. } => LOCAL_VOLUME,
            Source::HostPath { .. } | Source::Image { .. } | Source::Unsupported(_) => "",
        }
    }

    /// Holds files that follow something else.
    pub fn is_refreshed(&self) -> bool {
        matches!(
            self,
            Source::ConfigMap(_) | Source::Secret(_) | Source::DownwardApi(_) | Source::Projected(_)
        )
    }
}

pub const EMPTY_DIR: &str = "kubernetes.io~empty-dir";
pub const LOCAL_VOLUME: &str = "kubernetes.io~local-volume";

pub const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// All containers of the pod.
pub fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = CONTAINERS.into_iter().filter_map(|list| pod.at(&["spec", list]).and_then(Value::as_list));
    lists.flatten()
}

/// The names of volumes that containers mount, read variables from, or use as devices; others are not made.
pub fn used(pod: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut mounts, mut devices) = (BTreeSet::new(), BTreeSet::new());
    for container in containers(pod) {
        let entries = |name: &str| container.get(name).and_then(Value::as_list).unwrap_or_default();
        mounts.extend(entries("volumeMounts").iter().filter_map(|mount| mount.str_at(&["name"])));
        let of_file = |variable| Value::str_at(variable, &["valueFrom", "fileKeyRef", "volumeName"]);
        mounts.extend(entries("env").iter().filter_map(of_file));
        devices.extend(entries("volumeDevices").iter().filter_map(|device| device.str_at(&["name"])));
    }
    (mounts, devices)
}

/// Places within a volume where other volumes are mounted: directories that must be there, since nobody can make them later.
pub fn nested_mount_points(volume: &str, pod: &Value) -> Result<Vec<String>, String> {
    let mut nested = Vec::new();
    for container in containers(pod) {
        let mounts = container.get("volumeMounts").and_then(Value::as_list).unwrap_or_default();
        let mut all: Vec<(String, &str)> = mounts
            .iter()
            .map(|m| {
                (clean(m.str_at(&["mountPath"]).unwrap_or_default()), m.str_at(&["name"]).unwrap_or_default())
            })
            .collect();
        all.sort();
        for (own, _) in all.iter().filter(|(_, name)| *name == volume) {
            if own.starts_with("../") {
                return Err(format!("invalid container mount point {own}"));
            }
            let mut found: Vec<String> = Vec::new();
            for (path, _) in &all {
                let Some(below) = path.strip_prefix(own.as_str()).and_then(|rest| rest.strip_prefix('/'))
                else {
                    continue;
                };
                if below.is_empty() || found.iter().any(|before| path.starts_with(before.as_str())) {
                    continue;
                }
                found.push(format!("{path}/"));
                nested.push(below.to_owned());
            }
        }
    }
    Ok(nested)
}

/// A path without empty parts, `.` and, as far as possible, `..`.
fn clean(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", _) if absolute => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
    }

    #[test]
    fn only_volumes_that_are_used_are_made() {
        let pod = parse(
            "
spec:
  initContainers: [{volumeMounts: [{name: a, mountPath: /a}]}]
  containers:
  - volumeDevices: [{name: d, devicePath: /d}]
    env: [{name: V, valueFrom: {fileKeyRef: {volumeName: f, path: x, key: y}}}]
  ephemeralContainers: [{volumeMounts: [{name: e, mountPath: /e}]}]
",
        );
        assert_eq!(used(&pod), (BTreeSet::from(["a", "e", "f"]), BTreeSet::from(["d"])));
    }

    #[test]
    fn a_volume_is_read_by_its_only_source() {
        let pod = parse("{metadata: {name: web}}");
        let read = |text: &'static str| {
            let volume: &'static Value = Box::leak(Box::new(parse(text)));
            Source::read(&pod, volume)
        };
        assert!(matches!(read("{name: a}"), Source::EmptyDir(_)));
        assert_eq!(read("{name: a, nfs: {server: s, path: /}}"), Source::Unsupported("nfs"));
        let claim = Source::Claim { name: "web-a".to_owned(), read_only: false, ephemeral: true };
        assert_eq!(read("{name: a, ephemeral: {volumeClaimTemplate: {}}}"), claim);
        let image = Source::Image { reference: "app", pull_policy: Some("Never") };
        assert_eq!(read("{name: a, image: {reference: app, pullPolicy: Never}}"), image);
    }

    #[test]
    fn nested_mounts_have_their_directories_once() {
        let pod = parse(
            "
spec:
  containers:
  - volumeMounts:
    - {name: outer, mountPath: /dir}
    - {name: b, mountPath: /dir/nested/}
    - {name: c, mountPath: /dir/nested/double}
    - {name: d, mountPath: /dir/nested-vol}
    - {name: e, mountPath: /directory}
    - {name: f, mountPath: /dir/./x/../y}
",
        );
        assert_eq!(
            nested_mount_points("outer", &pod),
            Ok(["nested", "nested-vol", "y"].map(str::to_owned).to_vec())
        );
        assert_eq!(nested_mount_points("e", &pod), Ok(Vec::new()));
        let bad = parse("{spec: {containers: [{volumeMounts: [{name: a, mountPath: ../x}]}]}}");
        assert_eq!(nested_mount_points("a", &bad), Err("invalid container mount point ../x".to_owned()));
    }
}
