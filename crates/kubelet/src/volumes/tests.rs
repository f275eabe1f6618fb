use object::Map;

use super::*;

fn parse(text: &str) -> Value {
    runtime::parse(text).unwrap_or_else(|_| panic!("{text}"))
}

const POD: &str = "
metadata: {name: web, namespace: default, uid: u, labels: {a: b}}
spec:
  securityContext: {fsGroup: 1, runAsUser: 2, fsGroupChangePolicy: OnRootMismatch}
  overhead: {memory: 1Mi}
  initContainers: [{name: i, restartPolicy: Always, resources: {limits: {memory: 1Mi}}}]
  containers:
  - name: main
    resources: {limits: {memory: 1Mi}, requests: {hugepages-2Mi: 2Mi}}
    volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a/b}]
    volumeDevices: [{name: c, devicePath: /c}]
    env: [{name: V, valueFrom: {fileKeyRef: {volumeName: a, path: x, key: y}}}]
  volumes:
  - {name: a, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: b, downwardAPI: {defaultMode: 420, items: [{path: p, mode: 1, fieldRef: {fieldPath: metadata.labels}},
      {path: q, resourceFieldRef: {containerName: main, resource: limits.memory, divisor: 1Mi}}]}}
  - {name: c, persistentVolumeClaim: {claimName: c, readOnly: true}}
  - {name: d, hostPath: {path: /, type: Directory}}
  - {name: e, emptyDir: {medium: HugePages}}
  - {name: f, configMap: {name: m, items: [{key: k, path: p, mode: 1}]}}
";

/// Everything that reads a pod or a volume without asking anybody.
fn read_all(pod: &Value) {
    let node = parse("{memory: 1Gi}");
    let _ = (source::used(pod), fs_group(pod), fs_user(pod), source::nested_mount_points("a", pod));
    for volume in pod.at(&["spec", "volumes"]).and_then(Value::as_list).unwrap_or_default() {
        match Source::read(pod, volume) {
            Source::EmptyDir(source) => drop(empty_dir::medium(source, pod, &node)),
            Source::DownwardApi(source) => drop(downward::files(source, pod, &node, 0o644)),
            Source::ConfigMap(source) => {
                let items = source.get("items").and_then(Value::as_list).unwrap_or_default();
                drop(payload::files(crate::objects::ObjectKind::ConfigMap, pod, items, 0o644, true));
            }
            _ => {}
        }
        drop(local::read(volume, std::path::Path::new("/v"), "a", true, false));
    }
}

/// The value with each of its parts replaced in turn.
fn each_replaced(value: &Value, with: &Value, tell: &mut dyn FnMut(Value)) {
    tell(with.clone());
    match value {
        Value::Map(map) => {
            for (name, member) in map.iter() {
                each_replaced(member, with, &mut |member| {
                    let mut changed: Map = map.clone();
                    changed.set(name.clone(), member);
                    tell(Value::Map(changed));
                });
            }
        }
        Value::List(list) => {
            for (at, item) in list.iter().enumerate() {
                each_replaced(item, with, &mut |item| {
                    let mut changed = list.clone();
                    changed[at] = item;
                    tell(Value::List(changed));
                });
            }
        }
        _ => {}
    }
}

#[test]
fn no_pod_makes_a_reader_panic() {
    let pod = parse(POD);
    let mut count = 0;
    for with in
        ["null", "-1", "9223372036854775807", "''", "'../..'", "'a[0'", "[]", "[[1]]", "{}", "{a: 1}", "true"]
    {
        each_replaced(&pod, &parse(with), &mut |pod| {
            read_all(&pod);
            count += 1;
        });
    }
    assert!(count > 500);
}

#[test]
fn the_user_of_files_is_the_one_all_containers_have() {
    let user = |text: &str| fs_user(&parse(text));
    assert_eq!(user("{spec: {securityContext: {runAsUser: 5}, containers: [{}, {}]}}"), Some(5));
    assert_eq!(user("{spec: {containers: [{securityContext: {runAsUser: 5}}, {}]}}"), None);
    let other =
        "{spec: {securityContext: {runAsUser: 5}, containers: [{}, {securityContext: {runAsUser: 6}}]}}";
    assert_eq!(user(other), None);
    assert_eq!(user("{spec: {containers: []}}"), None);
}

#[test]
fn a_summary_names_all_that_failed_and_why() {
    let failures = vec![
        failure("a", "a", "configmap \"x\" not found".to_owned()),
        VolumeFailure { volume: "b".to_owned(), event: None, cause: "PVC is not bound".to_owned() },
    ];
    let error = VolumeError { failures };
    assert_eq!(
        error.events().collect::<Vec<_>>(),
        ["MountVolume.SetUp failed for volume \"a\" : configmap \"x\" not found"]
    );
    assert_eq!(
        error.to_string(),
        "unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[b]: PVC is not bound"
    );
}
