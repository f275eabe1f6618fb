//! The ConfigMap `extension-apiserver-authentication`: which CA extension API servers use to verify client certificates.

use std::sync::Arc;
use std::time::Duration;

use client::resources;
use object::{Status, Value};
use runtime::{
    Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest, Scope,
};

use super::Context;
use crate::api::Api;
use crate::bootstrap::ensure_namespaces;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

const CONFIG_MAPS: GroupResource = ("", "configmaps");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const END: &str = "-----END CERTIFICATE-----";
/// Upstream's resync.
const EVERY: Duration = Duration::from_secs(60);

/// The keys of the two things that are reconciled: this ConfigMap, and the system namespaces.
fn trust() -> Key {
    Key::new(NAMESPACE, NAME)
}
fn namespaces() -> Key {
    Key::new("", "namespaces")
}

pub(crate) fn start(context: &Context) -> Vec<JoinHandle<()>> {
    let field_selector = format!("metadata.name={NAME}");
    let namespace = NAMESPACE.to_owned();
    let one = Scope { namespace, field_selector, ..Scope::all(&resources::CONFIG_MAPS) };
    let maps = context.informers.scoped(one);
    let controller = context
        .controller("cluster-authentication-trust")
        .watches(&context.informers.of(&resources::NAMESPACES), |event| match event {
            InformerEvent::Deleted { .. } => vec![namespaces()],
            _ => Vec::new(),
        })
        .watches(&maps, |_| vec![trust()]);
    // What was deleted before the first list is nobody's event.
    for key in [trust(), namespaces()] {
        controller.queue().add(key, runtime::queue::NORMAL, None);
    }
    context.start(controller, Trust { api: context.api.clone() })
}

struct Trust {
    api: Arc<Api>,
}

impl Reconcile for Trust {
    fn reconcile<'a>(&'a self, request: ReconcileRequest<'a>) -> BoxFuture<'a, Result<Action, Failure>> {
        Box::pin(async move {
            let client = LoopbackClient::new(&self.api);
            if *request.key == trust() {
                sync(&client).await?;
            } else {
                ensure_namespaces(&client).await?;
            }
            Ok(Action::Requeue(EVERY))
        })
    }
}

/// Adds our CA to the bundle; other servers may have others.
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
