//! Pods and nodes for the tests of this folder.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::Value;

use crate::config::Config;
use crate::generate::{
    ContainerInputs, DeviceResources, EnvSources, ImageUser, MountedVolume, NodeView, Resolv,
};

pub(crate) fn value(json: &str) -> Value {
    codec::json::parse(json.as_bytes(), None).unwrap_or_else(|error| panic!("{error:?} in {json}"))
}

/// A pod `web` of namespace `shop` with this spec.
pub(crate) fn pod(spec: &str) -> Value {
    let meta = r#"{"name":"web","namespace":"shop","uid":"1234","labels":{"app":"web"}}"#;
    value(&format!(r#"{{"metadata":{meta},"spec":{spec}}}"#))
}

pub(crate) fn config() -> Config {
    let mut config = Config::new("node-1", "/var/lib/kubelet".into());
    config.cluster_dns = vec!["10.96.0.10".to_owned()];
    config
}

pub(crate) fn resolv() -> Resolv {
    Resolv::parse("nameserver 192.0.2.1\nsearch example.com\noptions edns0\n").unwrap()
}

/// A node with two addresses and eight gibibytes, and a pod with a volume `data` on it.
pub(crate) struct Fixture {
    pub config: Config,
    resolv: Resolv,
    object: Value,
    host_ips: [IpAddr; 2],
    pod_ips: [String; 2],
    image_user: ImageUser,
    volumes: BTreeMap<String, MountedVolume>,
    devices: DeviceResources,
    parts: BTreeMap<usize, PathBuf>,
}

impl Fixture {
    pub(crate) fn new() -> Fixture {
        let data = MountedVolume { host_path: "/volumes/data".into(), ..MountedVolume::default() };
        let allocatable = r#"{"cpu":"4","memory":"8Gi","ephemeral-storage":"50Gi"}"#;
        Fixture {
            config: config(),
            resolv: resolv(),
            object: value(&format!(r#"{{"status":{{"allocatable":{allocatable}}}}}"#)),
            host_ips: ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
            pod_ips: ["10.1.0.5".to_owned(), "fd00::5".to_owned()],
            image_user: ImageUser::Uid(0),
            volumes: BTreeMap::from([("data".to_owned(), data)]),
            devices: DeviceResources::default(),
            parts: BTreeMap::new(),
        }
    }

    pub(crate) fn node(&self) -> NodeView<'_> {
        NodeView {
            node: Some(&self.object),
            host_ips: &self.host_ips,
            memory_capacity: 8 << 30,
            cpu_capacity_milli: 4000,
            ..NodeView::new(&self.config, &self.resolv)
        }
    }

    pub(crate) fn inputs<'a>(
        &'a self,
        node: &'a NodeView<'a>,
        pod: &'a Value,
        container: &'a Value,
    ) -> ContainerInputs<'a> {
        ContainerInputs {
            node,
            pod,
            container,
            restart_count: 0,
            image_ref: "sha256:1",
            image_user: &self.image_user,
            pod_ips: &self.pod_ips,
            volumes: &self.volumes,
            sources: &Nothing,
            parts: &self.parts,
            termination_log: None,
            target_id: None,
            devices: &self.devices,
        }
    }
}

/// No objects anywhere.
pub(crate) struct Nothing;

impl EnvSources for Nothing {
    fn config_map(&self, _: &str) -> Result<Option<Arc<Value>>, String> {
        Ok(None)
    }
    fn secret(&self, _: &str) -> Result<Option<Arc<Value>>, String> {
        Ok(None)
    }
    fn file(&self, _: &Path, _: &str) -> Result<String, String> {
        Err("no such file".to_owned())
    }
    fn services(&self, _: &str) -> Result<Vec<Arc<Value>>, String> {
        Ok(Vec::new())
    }
}
