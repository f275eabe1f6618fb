use super::*;
use crate::generate::namespaces::{IdRange, UserNamespaces};
use crate::generate::testing::{Fixture, pod, value};

fn made(container: &str) -> Result<cri::ContainerConfig, GenerateError> {
    let fixture = Fixture::new();
    let (pod, container) = (pod("{}"), value(container));
    let node = fixture.node();
    container_config(&ContainerInputs { restart_count: 2, ..fixture.inputs(&node, &pod, &container) })
}

#[test]
fn a_container_is_as_its_spec_says() {
    let config = made(
        r#"{"name":"c","image":"busybox","command":["sh","-c"],"args":["echo $(A) $(B)"],"workingDir":"/w",
            "env":[{"name":"A","value":"1"}],"stdin":true,"stdinOnce":true,"tty":true}"#,
    );
    let config = config.unwrap();
    let meta = config.metadata.unwrap();
    assert_eq!((meta.name.as_str(), meta.attempt), ("c", 2));
    let image = config.image.unwrap();
    assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "busybox"));
    assert_eq!((config.command, config.args), (vec!["sh".into(), "-c".into()], vec!["echo 1 $(B)".into()]));
    assert_eq!((config.working_dir.as_str(), config.log_path.as_str()), ("/w", "c/2.log"));
    assert!(config.stdin && config.stdin_once && config.tty);
    assert_eq!(config.labels["io.kubernetes.container.name"], "c");
    assert_eq!(config.annotations["io.kubernetes.container.restartCount"], "2");
    assert_eq!(config.envs, [cri::KeyValue { key: "A".to_owned(), value: b"1".to_vec() }]);
    let linux = config.linux.unwrap();
    assert_eq!(linux.resources.unwrap().oom_score_adj, 1000);
    assert_eq!(linux.security_context.unwrap().run_as_user.unwrap().value, 0);
    assert_eq!(config.mounts.len(), 1);
}

#[test]
fn what_cannot_be_made_says_why() {
    let missing = made(r#"{"name":"c","envFrom":[{"secretRef":{"name":"s"}}]}"#).unwrap_err();
    assert_eq!(
        (missing.reason, missing.message.as_str()),
        ("CreateContainerConfigError", r#"secret "s" not found"#)
    );
    let root = made(r#"{"name":"c","securityContext":{"runAsNonRoot":true}}"#).unwrap_err();
    assert_eq!(
        root.message,
        r#"container has runAsNonRoot and image will run as root (pod: "web_shop(1234)", container: c)"#
    );
    let volume = made(r#"{"name":"c","volumeMounts":[{"name":"x","mountPath":"/x"}]}"#).unwrap_err();
    assert_eq!(volume.reason, "CreateContainerConfigError");
    // Anything can come in; it must only not fall over.
    assert!(made("[]").is_ok());
}

#[test]
fn an_argument_must_be_text() {
    struct Binary;
    impl EnvSources for Binary {
        fn config_map(&self, _: &str) -> Result<Option<std::sync::Arc<Value>>, String> {
            Ok(None)
        }
        fn secret(&self, _: &str) -> Result<Option<std::sync::Arc<Value>>, String> {
            Ok(Some(std::sync::Arc::new(value(r#"{"data":{"K":"/w=="}}"#))))
        }
        fn file(&self, _: &Path, _: &str) -> Result<String, String> {
            Err(String::new())
        }
        fn services(&self, _: &str) -> Result<Vec<std::sync::Arc<Value>>, String> {
            Ok(Vec::new())
        }
    }
    let fixture = Fixture::new();
    let (pod, container) =
        (pod("{}"), value(r#"{"name":"c","envFrom":[{"secretRef":{"name":"s"}}],"args":["$(K)"]}"#));
    let node = fixture.node();
    let error =
        container_config(&ContainerInputs { sources: &Binary, ..fixture.inputs(&node, &pod, &container) });
    let error = error.unwrap_err();
    assert_eq!(error.reason, "CreateContainerError");
    assert_eq!(error.message, "grpc: error while marshaling: string field contains invalid UTF-8");
}

#[test]
fn devices_add_what_they_need() {
    let fixture = Fixture::new();
    let (pod, container) =
        (pod("{}"), value(r#"{"name":"c","env":[{"name":"B","value":"own"}],"args":["$(GPU)"]}"#));
    let node = fixture.node();
    let device = cri::Device { host_path: "/dev/gpu0".to_owned(), ..Default::default() };
    let devices = DeviceResources {
        devices: vec![device.clone()],
        cdi_devices: vec![cri::CDIDevice { name: "vendor/gpu=0".to_owned() }],
        mounts: vec![cri::Mount { container_path: "/lib/gpu".to_owned(), ..Default::default() }],
        env: vec![("GPU".to_owned(), "0".to_owned()), ("B".to_owned(), "theirs".to_owned())],
        annotations: BTreeMap::from([("gpu".to_owned(), "yes".to_owned())]),
    };
    let config =
        container_config(&ContainerInputs { devices: &devices, ..fixture.inputs(&node, &pod, &container) });
    let config = config.unwrap();
    assert_eq!((config.devices, config.cdi_devices), (vec![device], devices.cdi_devices.clone()));
    assert_eq!(
        (config.mounts[0].container_path.as_str(), config.annotations["gpu"].as_str()),
        ("/lib/gpu", "yes")
    );
    assert_eq!(config.args, ["0"]);
    assert_eq!(config.envs[0].value, b"own");
}

#[test]
fn mounts_are_seen_through_the_pods_users() {
    struct Ranges;
    impl UserNamespaces for Ranges {
        fn range(&self, _: &str) -> Result<IdRange, String> {
            Ok(IdRange { host_id: 131_072, length: 65_536 })
        }
    }
    let fixture = Fixture::new();
    let (pod, container) = (pod(r#"{"hostUsers":false}"#), value(r#"{"name":"c"}"#));
    let node = NodeView { user_namespaces: Some(&Ranges), ..fixture.node() };
    let config = container_config(&fixture.inputs(&node, &pod, &container)).unwrap();
    let mapping = cri::IDMapping { host_id: 131_072, container_id: 0, length: 65_536 };
    let mappings = [mapping];
    assert_eq!(config.mounts[0].uid_mappings, mappings);
    assert_eq!(config.mounts[0].gid_mappings, mappings);
}

#[test]
fn a_target_must_be_there() {
    let debugger = value(r#"{"name":"d","targetContainerName":"c"}"#);
    assert_eq!(target_id(&debugger, |name| (name == "c").then_some("id")), Ok(Some("id")));
    assert_eq!(target_id(&debugger, |_| None).unwrap_err().message, "unable to find target container c");
    assert_eq!(target_id(&value("{}"), |_| None), Ok(None));
}
