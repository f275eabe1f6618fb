//! `extension-apiserver-authentication`: how other API servers learn whose client certificates to believe.

use std::sync::Arc;
use std::time::Duration;

use object::{Status, Value};
use table::{EventKind, WatchEvent};

use crate::api::Api;
use crate::bootstrap::ensure_namespaces;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};
use crate::table_watcher::TableWatcher;

const CONFIG_MAPS: GroupResource = ("", "configmaps");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const END: &str = "-----END CERTIFICATE-----";
/// Upstream looks this often at what it keeps.
const EVERY: Duration = Duration::from_secs(60);

/// Runs until shutdown: keeps this ConfigMap and the system namespaces as they should be.
pub async fn run(api: Arc<Api>) {
    let client = LoopbackClient::new(&api);
    let mut watcher = TableWatcher::new(&api, &[("", "namespaces"), CONFIG_MAPS]).named(NAME);
    // What went before we began to look is not among the events.
    let mut first = true;
    while let Some(events) = watcher.next_events(Some(EVERY)).await {
        let all = std::mem::take(&mut first) || events.is_empty();
        let namespace_gone =
            |e: &WatchEvent| e.obj.namespace().is_empty() && matches!(e.kind, EventKind::Deleted);
        let ours = |e: &WatchEvent| e.obj.namespace() == NAMESPACE && e.obj.name() == NAME;
        let mut done = Ok(());
        if all || events.iter().any(namespace_gone) {
            done = ensure_namespaces(&client).await;
        }
        if all || events.iter().any(ours) {
            done = done.and(sync(&client).await);
        }
        if let Err(status) = done {
            tracing::warn!(error = status.message, "could not keep the cluster's own objects in step");
        }
    }
}

/// Adds our authority to what the ConfigMap says; other servers may have others.
pub(crate) async fn sync(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let Some(ca) = client.api().cluster().client_ca.as_deref() else { return Ok(()) };
    let existing = client.get(CONFIG_MAPS, NAMESPACE, NAME);
    let known = existing.as_ref().and_then(|map| map.str_at(&["data", CLIENT_CA])).unwrap_or("");
    let bundle = union(known, ca);
    if bundle == known {
        return Ok(());
    }
    let written = match existing {
        Some(mut map) => {
            map.map_at(&["data"]).set(CLIENT_CA, bundle);
            client.update(CONFIG_MAPS, map).await
        }
        None => {
            let mut map = Value::map();
            map.map_at(&["metadata"]).set("name", NAME);
            map.map_at(&["data"]).set(CLIENT_CA, bundle);
            client.create(CONFIG_MAPS, NAMESPACE, typed(map, "v1", "ConfigMap")).await
        }
    };
    match written {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

/// An object with its kind and version.
pub(crate) fn typed(mut object: Value, api_version: &str, kind: &str) -> Value {
    let top = object.make_map();
    top.set("apiVersion", api_version);
    top.set("kind", kind);
    object
}

/// The certificates of both bundles, each once, in order.
fn union(known: &str, ours: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for certificate in [known, ours].iter().flat_map(|bundle| bundle.split_inclusive(END)) {
        let certificate = certificate.trim();
        if certificate.ends_with(END) && !all.contains(&certificate) {
            all.push(certificate);
        }
    }
    all.iter().map(|certificate| format!("{certificate}\n")).collect()
}
