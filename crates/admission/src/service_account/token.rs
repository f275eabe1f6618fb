//! The volume with which a pod proves who it is: token, certificate authority and namespace.

use env::Env;
use object::{Map, Value};

use crate::tree::{items, list_mut, map, member, text};

const PREFIX: &str = "kube-api-access-";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and some: kubelets warn about clients that hold on to a token of this lifetime.
const TOKEN_SECONDS: i64 = 3607;
/// rw-r--r--
const MODE: i64 = 0o644;

/// Mounts the token into every container that has nothing else in its place.
pub fn mount(spec: &mut Map, env: &Env) {
    let volumes = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let found = volumes.iter().map(|v| text(v, "name")).find(|name| name.starts_with(PREFIX));
    let there = found.is_some();
    let name = found.map_or_else(|| format!("{PREFIX}{}", env.name_suffix()), str::to_owned);
    let mut needed = false;
    for containers in ["initContainers", "containers"] {
        let Some(Value::List(containers)) = spec.get_mut(containers) else { continue };
        for container in containers {
            if items(container, "volumeMounts").iter().any(|m| text(m, "mountPath") == MOUNT_PATH) {
                continue;
            }
            needed = true;
            let mount = map([
                ("name", name.as_str().into()),
                ("readOnly", true.into()),
                ("mountPath", MOUNT_PATH.into()),
            ]);
            list_mut(container.make_map(), "volumeMounts").push(mount);
        }
    }
    if needed && !there {
        let volume = map([("name", name.into()), ("projected", source())]);
        list_mut(spec, "volumes").push(volume);
    }
}

/// Does some volume of the pod project a token?
pub fn is_projected(spec: &Value) -> bool {
    let projected = items(spec, "volumes").iter().filter_map(|v| member(v, "projected"));
    projected.flat_map(|p| items(p, "sources")).any(|source| member(source, "serviceAccountToken").is_some())
}

fn source() -> Value {
    let token = map([("expirationSeconds", TOKEN_SECONDS.into()), ("path", "token".into())]);
    let file = map([("key", "ca.crt".into()), ("path", "ca.crt".into())]);
    let authority = map([("name", "kube-root-ca.crt".into()), ("items", vec![file].into())]);
    let field = map([("apiVersion", "v1".into()), ("fieldPath", "metadata.namespace".into())]);
    let namespace = map([("path", "namespace".into()), ("fieldRef", field)]);
    let downward = map([("items", vec![namespace].into())]);
    let sources = vec![
        map([("serviceAccountToken", token)]),
        map([("configMap", authority)]),
        map([("downwardAPI", downward)]),
    ];
    map([("sources", sources.into()), ("defaultMode", MODE.into())])
}
