//! Whatever a pod looks like, making it ends with a configuration or an error.

use std::path::PathBuf;
use std::sync::Arc;

use object::Value;

use super::testing::{Fixture, value};
use super::*;

const POD: &str = r#"{
  "metadata":{"name":"web","namespace":"shop","uid":"1234","labels":{"a":"b"},"annotations":{"c":"d"},
    "deletionGracePeriodSeconds":3},
  "spec":{
    "hostname":"h","subdomain":"s","setHostnameAsFQDN":true,"hostNetwork":false,"hostPID":false,"hostIPC":false,
    "hostUsers":true,"shareProcessNamespace":true,"enableServiceLinks":true,"priority":5,"priorityClassName":"p",
    "terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"n","serviceAccountName":"sa",
    "dnsConfig":{"nameservers":["1.1.1.1"],"searches":["x"],"options":[{"name":"ndots","value":"2"}]},
    "hostAliases":[{"ip":"10.0.0.1","hostnames":["y"]}],
    "overhead":{"cpu":"1","memory":"1Mi"},
    "resources":{"requests":{"cpu":"1","memory":"2Mi"},"limits":{"cpu":"2","hugepages-2Mi":"2Mi"}},
    "securityContext":{"runAsUser":1,"runAsGroup":1,"runAsNonRoot":true,"fsGroup":2,"supplementalGroups":[3],
      "supplementalGroupsPolicy":"Merge","seLinuxOptions":{"level":"l"},"sysctls":[{"name":"net.a","value":"1"}],
      "seccompProfile":{"type":"Localhost","localhostProfile":"p"},"appArmorProfile":{"type":"RuntimeDefault"}},
    "initContainers":[{"name":"i","restartPolicy":"Always","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"2"}}}],
    "containers":[{
      "name":"c","image":"img","command":["a","$(E)"],"args":["b"],"workingDir":"/","stdin":true,"tty":true,
      "terminationMessagePath":"/dev/t","terminationMessagePolicy":"File","targetContainerName":"c",
      "ports":[{"name":"p","containerPort":80,"hostPort":80,"hostIP":"::1","protocol":"UDP"}],
      "lifecycle":{"preStop":{"sleep":{"seconds":1}}},
      "resources":{"requests":{"cpu":"500m","memory":"1Mi"},"limits":{"memory":"2Mi","hugepages-2Mi":"2Mi"}},
      "envFrom":[{"prefix":"P","configMapRef":{"name":"cm","optional":true}},{"secretRef":{"name":"s","optional":true}}],
      "env":[{"name":"E","value":"$(X)"},{"name":"F","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.labels['a']"}}},
        {"name":"R","valueFrom":{"resourceFieldRef":{"containerName":"c","resource":"limits.cpu","divisor":"1m"}}},
        {"name":"K","valueFrom":{"configMapKeyRef":{"name":"cm","key":"k","optional":true}}},
        {"name":"S","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}},
        {"name":"L","valueFrom":{"fileKeyRef":{"volumeName":"data","path":"p","key":"k","optional":true}}}],
      "volumeMounts":[{"name":"data","mountPath":"/d","readOnly":true,"subPathExpr":"$(E)","mountPropagation":"None",
        "recursiveReadOnly":"IfPossible"}],
      "volumeDevices":[{"name":"disk","devicePath":"/dev/x"}],
      "securityContext":{"privileged":false,"procMount":"Default","capabilities":{"add":["A"],"drop":["B"]},
        "readOnlyRootFilesystem":true,"allowPrivilegeEscalation":false}}]},
  "status":{"qosClass":"Burstable"}}"#;

/// The values in a tree, counted depth first.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::List(list) => list.iter().map(count).sum(),
        Value::Map(map) => map.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// Puts another value in the place of one of them.
fn replace(value: &mut Value, place: &mut usize, with: &Value) {
    if *place == 0 {
        *value = with.clone();
    }
    *place = place.wrapping_sub(1);
    match value {
        Value::List(list) => list.iter_mut().for_each(|value| replace(value, place, with)),
        Value::Map(map) => map.iter_mut().for_each(|(_, value)| replace(value, place, with)),
        _ => {}
    }
}

/// All that is made of a pod; whether the container could be.
fn make_all(pod: &Value, fixture: &Fixture) -> bool {
    let node = fixture.node();
    let _ = sandbox_config(pod, 0, &[], &node);
    let _ = groups::groups(pod, &node);
    let _ = admission::check_sysctls(pod, node.config, (6, 1));
    let _ = admission::check_apparmor(pod, true);
    let empty = Value::Null;
    let container = pod.at(&["spec", "containers"]).and_then(Value::as_list).and_then(<[Value]>::first);
    let container = container.unwrap_or(&empty);
    let data = MountedVolume { host_path: "/volumes/data".into(), ..MountedVolume::default() };
    let disk = MountedVolume { device: Some("/dev/sdb".into()), ..MountedVolume::default() };
    let volumes = [("data".to_owned(), data), ("disk".to_owned(), disk)].into();
    let fetched = Fetched {
        files: [(("/volumes/data".into(), "p".to_owned()), Ok("k='v'".to_owned()))].into(),
        services: Some([("shop".to_owned(), vec![Arc::new(pod.clone())])].into()),
        ..Fetched::default()
    };
    let parts = [(0, PathBuf::from("/volumes/data/x"))].into();
    let inputs = ContainerInputs {
        volumes: &volumes,
        sources: &fetched,
        parts: &parts,
        ..fixture.inputs(&node, pod, container)
    };
    let _ = Wanted::of(container);
    let _ = wanted_parts(&inputs);
    let made = container_config(&inputs);
    let annotations = made.as_ref().map(|config| labels::ContainerInfo::read(&config.annotations));
    annotations.is_ok()
}

#[test]
fn odd_values_anywhere_do_no_harm() {
    let fixture = Fixture::new();
    let pod = value(POD);
    let odd = [
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::from(""),
        Value::from("9223372036854775807E"),
        Value::from("../$(\u{0}ä"),
        Value::List(vec![Value::Null, Value::map()]),
        Value::map(),
    ];
    let mut made = 0;
    for place in 0..count(&pod) {
        for value in &odd {
            let mut changed = pod.clone();
            replace(&mut changed, &mut place.clone(), value);
            made += usize::from(make_all(&changed, &fixture));
        }
    }
    // Most get to the end: they were not refused at the door.
    let all = count(&pod) * odd.len();
    assert!(made > all / 2 && made < all, "{made} of {all}");
}
