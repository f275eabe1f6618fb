//! Which ConfigMaps and Secrets a pod names.

use std::collections::BTreeSet;

use object::Value;

use super::{Key, ObjectKind};

/// Of its volumes, the environment of its containers, and its pull secrets.
pub(super) fn of(pod: &Value) -> BTreeSet<Key> {
    let namespace = pod.str_at(&["metadata", "namespace"]).unwrap_or_default();
    let mut keys = BTreeSet::new();
    let mut add = |kind: ObjectKind, name: Option<&str>| {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            keys.insert(Key { kind, namespace: namespace.into(), name: name.into() });
        }
    };
    let list =
        |of: &'_ Value, path: &[&str]| of.at(path).and_then(Value::as_list).unwrap_or_default().to_vec();
    for secret in list(pod, &["spec", "imagePullSecrets"]) {
        add(ObjectKind::Secret, secret.str_at(&["name"]));
    }
    for containers in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list(pod, &["spec", containers]) {
            for from in list(&container, &["envFrom"]) {
                add(ObjectKind::ConfigMap, from.str_at(&["configMapRef", "name"]));
                add(ObjectKind::Secret, from.str_at(&["secretRef", "name"]));
            }
            for variable in list(&container, &["env"]) {
                add(ObjectKind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
                add(ObjectKind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
            }
        }
    }
    for volume in list(pod, &["spec", "volumes"]) {
        add(ObjectKind::ConfigMap, volume.str_at(&["configMap", "name"]));
        add(ObjectKind::Secret, volume.str_at(&["secret", "secretName"]));
        for source in list(&volume, &["projected", "sources"]) {
            add(ObjectKind::ConfigMap, source.str_at(&["configMap", "name"]));
            add(ObjectKind::Secret, source.str_at(&["secret", "name"]));
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_names_what_its_volumes_variables_and_pull_secrets_do() {
        let pod = runtime::parse(
            "
metadata: {namespace: default, name: web, uid: u}
spec:
  imagePullSecrets: [{name: pull}, {name: ''}, {}]
  initContainers:
  - envFrom: [{configMapRef: {name: env-map}}, {secretRef: {name: env-secret}}]
  containers:
  - env:
    - {name: A, valueFrom: {configMapKeyRef: {name: key-map, key: a}}}
    - {name: B, valueFrom: {secretKeyRef: {name: key-secret, key: b}}}
    - {name: C, value: plain}
  ephemeralContainers:
  - envFrom: [{configMapRef: {name: debug-map}}]
  volumes:
  - {name: a, configMap: {name: map}}
  - {name: b, secret: {secretName: secret}}
  - name: c
    projected:
      sources: [{configMap: {name: part-map}}, {secret: {name: part-secret}}, {serviceAccountToken: {path: token}}]
  - {name: d, emptyDir: {}}
",
        )
        .unwrap_or_else(|_| panic!("a pod"));
        let (maps, secrets): (Vec<Key>, Vec<Key>) =
            of(&pod).into_iter().partition(|key| key.kind == ObjectKind::ConfigMap);
        let names = |keys: Vec<Key>| keys.into_iter().map(|key| key.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(maps), ["debug-map", "env-map", "key-map", "map", "part-map"]);
        assert_eq!(names(secrets), ["env-secret", "key-secret", "part-secret", "pull", "secret"]);
    }
}
