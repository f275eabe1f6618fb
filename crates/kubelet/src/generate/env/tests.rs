use std::net::IpAddr;

use super::*;
use crate::generate::testing::{Fixture, pod, value};

#[derive(Default)]
struct Sources {
    config_maps: BTreeMap<&'static str, &'static str>,
    secrets: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, &'static str>,
    services: BTreeMap<&'static str, Vec<&'static str>>,
    failing: Option<&'static str>,
}

impl Sources {
    fn data(
        &self,
        data: &BTreeMap<&'static str, &'static str>,
        name: &str,
    ) -> Result<Option<Arc<Value>>, String> {
        if let Some(error) = self.failing {
            return Err(error.to_owned());
        }
        Ok(data.get(name).map(|data| Arc::new(value(&format!(r#"{{"data":{data}}}"#)))))
    }
}

impl EnvSources for Sources {
    fn config_map(&self, name: &str) -> Result<Option<Arc<Value>>, String> {
        self.data(&self.config_maps, name)
    }
    fn secret(&self, name: &str) -> Result<Option<Arc<Value>>, String> {
        self.data(&self.secrets, name)
    }
    fn file(&self, volume: &Path, path: &str) -> Result<String, String> {
        let whole = volume.join(path).to_string_lossy().into_owned();
        self.files.get(whole.as_str()).map(|text| (*text).to_owned()).ok_or("no such file".to_owned())
    }
    fn services(&self, namespace: &str) -> Result<Vec<Arc<Value>>, String> {
        let all = self.services.get(namespace).into_iter().flatten();
        Ok(all.map(|service| Arc::new(value(service))).collect())
    }
}

/// The environment as lines, of a container `c` with these members.
fn env_of(pod_spec: &str, container: &str, sources: &Sources) -> Result<Vec<String>, String> {
    let fixture = Fixture::new();
    let (pod, container) = (pod(pod_spec), value(container));
    let node = fixture.node();
    let inputs = ContainerInputs { sources, ..fixture.inputs(&node, &pod, &container) };
    let lines = environment(&inputs)?.into_iter();
    Ok(lines.map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&value))).collect())
}

fn env(container: &str, sources: &Sources) -> Result<Vec<String>, String> {
    env_of("{}", &format!(r#"{{"name":"c",{container}}}"#), sources)
}

fn lines(expected: &[&str]) -> Result<Vec<String>, String> {
    Ok(expected.iter().map(|line| (*line).to_owned()).collect())
}

fn two() -> Sources {
    Sources {
        config_maps: BTreeMap::from([("cm", r#"{"A":"cm-a","B":"cm-b","1 odd":"x"}"#), ("empty", "{}")]),
        // "secret-b", and a byte that is no text.
        secrets: BTreeMap::from([("s", r#"{"B":"c2VjcmV0LWI=","RAW":"/w=="}"#)]),
        ..Sources::default()
    }
}

#[test]
fn later_variables_use_and_replace_earlier_ones() {
    let container = r#""env":[{"name":"A","value":"1"},{"name":"B","value":"$(A)2 $(C) $$(A)"},{"name":"C","value":"c"},
                              {"name":"A","value":"$(A)1"},{"name":"EMPTY"}]"#;
    assert_eq!(env(container, &Sources::default()), lines(&["A=11", "B=12 $(C) $(A)", "C=c", "EMPTY="]));
}

#[test]
fn whole_objects_come_first_whatever_their_keys_are_called() {
    let container = r#""envFrom":[{"configMapRef":{"name":"cm"}},{"secretRef":{"name":"s"}},
                                  {"prefix":"P_","configMapRef":{"name":"cm"}},{"configMapRef":{"name":"empty"}}],
                       "env":[{"name":"A","value":"own $(B) $(P_A)"}]"#;
    let raw = String::from_utf8_lossy(&[0xff]).into_owned();
    let expected = [
        "1 odd=x",
        "A=own secret-b cm-a",
        "B=secret-b",
        "P_1 odd=x",
        "P_A=cm-a",
        "P_B=cm-b",
        &format!("RAW={raw}"),
    ];
    assert_eq!(env(container, &two()), lines(&expected));
}

#[test]
fn keys_come_from_config_maps_and_secrets() {
    let container = r#""env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"cm","key":"A"}}},
                              {"name":"Y","valueFrom":{"secretKeyRef":{"name":"s","key":"B"}}},
                              {"name":"Z","value":"$(X)/$(Y)"}]"#;
    assert_eq!(env(container, &two()), lines(&["X=cm-a", "Y=secret-b", "Z=cm-a/secret-b"]));
}

#[test]
fn what_is_not_there_is_an_error_unless_optional() {
    for (container, error) in [
        (r#""envFrom":[{"configMapRef":{"name":"gone"}}]"#, r#"configmap "gone" not found"#),
        (r#""envFrom":[{"secretRef":{"name":"gone"}}]"#, r#"secret "gone" not found"#),
        (
            r#""env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"gone","key":"A"}}}]"#,
            r#"configmap "gone" not found"#,
        ),
        (
            r#""env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"gone","key":"A"}}}]"#,
            r#"secret "gone" not found"#,
        ),
        (
            r#""env":[{"name":"X","valueFrom":{"configMapKeyRef":{"name":"cm","key":"gone"}}}]"#,
            "couldn't find key gone in ConfigMap shop/cm",
        ),
        (
            r#""env":[{"name":"X","valueFrom":{"secretKeyRef":{"name":"s","key":"gone"}}}]"#,
            "couldn't find key gone in Secret shop/s",
        ),
    ] {
        assert_eq!(env(container, &two()), Err(error.to_owned()));
        let optional = container.replace(r#""name":"gone""#, r#""optional":true,"name":"gone""#);
        let optional = optional.replace(r#""key":"gone""#, r#""key":"gone","optional":true"#);
        assert_eq!(env(&optional, &two()), lines(&[]), "{optional}");
    }
    let failing = Sources {
        failing: Some("failed to sync configmap cache: timed out waiting for the condition"),
        ..two()
    };
    let optional = r#""envFrom":[{"configMapRef":{"name":"cm","optional":true}}]"#;
    assert_eq!(env(optional, &failing).unwrap_err(), failing.failing.unwrap());
}

#[test]
fn an_optional_key_that_is_missing_changes_nothing() {
    let container = r#""env":[{"name":"X","value":"before"},
                              {"name":"X","valueFrom":{"secretKeyRef":{"name":"s","key":"gone","optional":true}}}]"#;
    assert_eq!(env(container, &two()), lines(&["X=before"]));
}

#[test]
fn variables_that_multiply_are_refused() {
    let mut all = r#"{"name":"V0","value":"0123456789"}"#.to_owned();
    for i in 1..40 {
        all.push_str(&format!(r#",{{"name":"V{i}","value":"$(V{0})$(V{0})"}}"#, i - 1));
    }
    let error = env(&format!(r#""env":[{all}]"#), &Sources::default()).unwrap_err();
    assert!(error.starts_with("trying to send message larger than max ("), "{error}");
    let again = vec![r#"{"prefix":"P","configMapRef":{"name":"cm"}}"#; 20].join(",");
    let large: &'static str = Box::leak(format!(r#"{{"A":"{}"}}"#, "x".repeat(1 << 20)).into_boxed_str());
    let sources = Sources { config_maps: BTreeMap::from([("cm", large)]), ..Sources::default() };
    let error = env(&format!(r#""envFrom":[{again}]"#), &sources).unwrap_err();
    assert!(error.starts_with("trying to send message larger than max ("), "{error}");
}

#[test]
fn fields_of_the_pod_are_variables() {
    let field = |path: &str| {
        let container = format!(
            r#"{{"name":"c","env":[{{"name":"X","valueFrom":{{"fieldRef":{{"fieldPath":"{path}"}}}}}}]}}"#
        );
        let made =
            env_of(r#"{"nodeName":"node-1","serviceAccountName":"robot"}"#, &container, &Sources::default());
        made.map(|lines| lines.concat().split_off(2))
    };
    for (path, expected) in [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "1234"),
        ("metadata.labels", "app=\"web\""),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['gone']", ""),
        ("metadata.annotations", ""),
        ("metadata.annotations['x.y/Z']", ""),
        ("spec.nodeName", "node-1"),
        ("spec.host", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.podIP", "10.1.0.5"),
        ("status.podIPs", "10.1.0.5,fd00::5"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7,2001:db8::7"),
    ] {
        assert_eq!(field(path), Ok(expected.to_owned()), "{path}");
    }
    for (path, error) in [
        ("spec.image", "field label not supported: spec.image"),
        ("metadata.name['x']", "field label does not support subscript: metadata.name['x']"),
        ("spec.restartPolicy", "unsupported fieldPath: spec.restartPolicy"),
        ("", "field label not supported: "),
    ] {
        assert_eq!(field(path), Err(error.to_owned()), "{path}");
    }
    let bad = field("metadata.labels['a b']").unwrap_err();
    assert!(bad.starts_with("invalid key subscript in metadata.labels['a b']: "), "{bad}");
    let old =
        r#"{"env":[{"name":"X","valueFrom":{"fieldRef":{"apiVersion":"v2","fieldPath":"metadata.name"}}}]}"#;
    assert_eq!(env_of("{}", old, &Sources::default()), Err("unsupported pod version: v2".to_owned()));
}

#[test]
fn the_nodes_family_comes_first() {
    let fixture = Fixture::new();
    let (pod, container) = (pod("{}"), value(r#"{"name":"c"}"#));
    let host_ips: [IpAddr; 1] = ["2001:db8::7".parse().unwrap()];
    let node = crate::generate::NodeView { host_ips: &host_ips, ..fixture.node() };
    let inputs = fixture.inputs(&node, &pod, &container);
    let value = |path: &str| field::value(&inputs, &value(&format!(r#"{{"fieldPath":"{path}"}}"#))).unwrap();
    assert_eq!(
        (value("status.podIP"), value("status.podIPs")),
        ("fd00::5".into(), "fd00::5,10.1.0.5".into())
    );
}

#[test]
fn in_the_hosts_network_the_addresses_are_the_hosts() {
    let fixture = Fixture::new();
    let (pod, container) = (pod(r#"{"hostNetwork":true}"#), value(r#"{"name":"c"}"#));
    let node = fixture.node();
    let inputs = ContainerInputs { pod_ips: &[], ..fixture.inputs(&node, &pod, &container) };
    let path = value(r#"{"fieldPath":"status.podIPs"}"#);
    assert_eq!(field::value(&inputs, &path), Ok("192.0.2.7,2001:db8::7".to_owned()));
}

#[test]
fn requests_and_limits_are_variables_in_whole_divisors() {
    let spec = r#"{"containers":[{"name":"c"},{"name":"other","resources":{"limits":{"memory":"1Mi"}}}],
                   "initContainers":[{"name":"i","resources":{"requests":{"cpu":"3"}}}]}"#;
    let of = |reference: &str| {
        let resources = r#""resources":{"requests":{"cpu":"250m","memory":"100Mi","hugepages-2Mi":"4Mi"},"limits":{"cpu":"1500m"}}"#;
        let env = format!(r#""env":[{{"name":"X","valueFrom":{{"resourceFieldRef":{{{reference}}}}}}}]"#);
        let made = env_of(spec, &format!(r#"{{"name":"c",{resources},{env}}}"#), &Sources::default());
        made.map(|lines| lines.concat().split_off(2))
    };
    for (reference, expected) in [
        (r#""resource":"requests.cpu""#, "1"),
        (r#""resource":"requests.cpu","divisor":"1m""#, "250"),
        (r#""resource":"requests.cpu","divisor":"100m""#, "3"),
        (r#""resource":"requests.cpu","divisor":"0""#, "1"),
        (r#""resource":"limits.cpu""#, "2"),
        (r#""resource":"requests.memory","divisor":"1Mi""#, "100"),
        (r#""resource":"requests.memory","divisor":"1m""#, "104857600"),
        (r#""resource":"requests.hugepages-2Mi","divisor":"1Mi""#, "4"),
        (r#""resource":"requests.ephemeral-storage""#, "0"),
        // What is not limited may use the node's.
        (r#""resource":"limits.memory","divisor":"1Gi""#, "8"),
        (r#""resource":"limits.ephemeral-storage","divisor":"1Gi""#, "50"),
        (r#""containerName":"other","resource":"limits.memory""#, "1048576"),
        (r#""containerName":"other","resource":"limits.cpu""#, "4"),
        (r#""containerName":"i","resource":"requests.cpu""#, "3"),
        (r#""containerName":"i","resource":"limits.cpu""#, "0"),
    ] {
        assert_eq!(of(reference), Ok(expected.to_owned()), "{reference}");
    }
    for (reference, error) in [
        (r#""containerName":"gone","resource":"limits.cpu""#, "container gone not found"),
        (r#""resource":"limits.gpu""#, "unsupported container resource : limits.gpu"),
        (r#""resource":"cpu""#, "unsupported container resource : cpu"),
    ] {
        assert_eq!(of(reference), Err(error.to_owned()), "{reference}");
    }
}

#[test]
fn the_pods_own_limits_go_before_the_nodes() {
    let spec = r#"{"resources":{"limits":{"memory":"2Gi"}}}"#;
    let container = r#"{"name":"c","env":[
        {"name":"M","valueFrom":{"resourceFieldRef":{"resource":"limits.memory","divisor":"1Gi"}}},
        {"name":"C","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}}]}"#;
    assert_eq!(env_of(spec, container, &Sources::default()), lines(&["C=4", "M=2"]));
}

#[test]
fn files_of_volumes_hold_variables() {
    let sources = Sources {
        files: BTreeMap::from([("/volumes/data/env", "A='1'\nB='2'"), ("/volumes/data/bad", "A=1")]),
        ..two()
    };
    let of = |reference: &str| {
        env(&format!(r#""env":[{{"name":"X","valueFrom":{{"fileKeyRef":{{{reference}}}}}}}]"#), &sources)
    };
    assert_eq!(of(r#""volumeName":"data","path":"env","key":"B""#), lines(&["X=2"]));
    assert_eq!(of(r#""volumeName":"data","path":"env","key":"C","optional":true"#), lines(&[]));
    for (reference, error) in [
        (
            r#""volumeName":"data","path":"env","key":"C""#,
            r#"environment variable key "C" not found in file "/volumes/data/env""#,
        ),
        (
            r#""volumeName":"gone","path":"env","key":"C""#,
            r#"cannot find the volume "gone" referenced by FileKeyRef"#,
        ),
        (r#""volumeName":"data","path":"bad","key":"A","optional":true"#, "couldn't parse env file"),
        (r#""volumeName":"data","path":"gone","key":"A""#, "couldn't parse env file"),
    ] {
        assert_eq!(of(reference), Err(error.to_owned()));
    }
}

#[test]
fn services_are_told_of_but_never_replace() {
    let services = BTreeMap::from([
        (
            "default",
            vec![
                r#"{"metadata":{"name":"kubernetes"},"spec":{"clusterIP":"10.96.0.1","ports":[{"port":443}]}}"#,
                r#"{"metadata":{"name":"other"},"spec":{"clusterIP":"10.96.0.2","ports":[{"port":80}]}}"#,
            ],
        ),
        (
            "shop",
            vec![
                r#"{"metadata":{"name":"db"},"spec":{"clusterIP":"10.96.0.3","ports":[{"port":5432}]}}"#,
                r#"{"metadata":{"name":"headless"},"spec":{"clusterIP":"None","ports":[{"port":1}]}}"#,
            ],
        ),
    ]);
    let sources = Sources { services, ..Sources::default() };
    let container = r#"{"name":"c","env":[{"name":"URL","value":"$(DB_SERVICE_HOST)"},{"name":"DB_PORT","value":"mine"}]}"#;
    let names = |spec: &str| {
        let made = env_of(spec, container, &sources).unwrap();
        made.into_iter().filter(|line| !line.contains("_TCP")).collect::<Vec<_>>()
    };
    let always = [
        "KUBERNETES_PORT=tcp://10.96.0.1:443",
        "KUBERNETES_SERVICE_HOST=10.96.0.1",
        "KUBERNETES_SERVICE_PORT=443",
    ];
    let own = ["DB_PORT=mine", "DB_SERVICE_HOST=10.96.0.3", "DB_SERVICE_PORT=5432"];
    assert_eq!(names("{}"), [&own[..], &always[..], &["URL=10.96.0.3"]].concat());
    let without = names(r#"{"enableServiceLinks":false}"#);
    assert_eq!(without, [&own[..1], &always[..], &["URL=$(DB_SERVICE_HOST)"]].concat());
}

#[test]
fn services_that_were_never_read_stop_a_container() {
    struct Never;
    impl EnvSources for Never {
        fn config_map(&self, _: &str) -> Result<Option<Arc<Value>>, String> {
            Ok(None)
        }
        fn secret(&self, _: &str) -> Result<Option<Arc<Value>>, String> {
            Ok(None)
        }
        fn file(&self, _: &Path, _: &str) -> Result<String, String> {
            Err(String::new())
        }
        fn services(&self, _: &str) -> Result<Vec<Arc<Value>>, String> {
            Err("services have not yet been read at least once, cannot construct envvars".to_owned())
        }
    }
    let fixture = Fixture::new();
    let (pod, container) = (pod("{}"), value("{}"));
    let node = fixture.node();
    let inputs = ContainerInputs { sources: &Never, ..fixture.inputs(&node, &pod, &container) };
    let error = environment(&inputs).unwrap_err();
    assert_eq!(error, "services have not yet been read at least once, cannot construct envvars");
}
