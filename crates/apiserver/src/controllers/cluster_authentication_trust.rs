//! The ConfigMap `extension-apiserver-authentication`: whom extension API servers believe. The CA of client certificates, and the front
//! proxies that pass requests on to them, which are the API servers of this cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auth::{CaBundle, RequestHeaders};
use client::resources;
use codec::json;
use object::{Map, Status, Value};
use runtime::{
    Action, BoxFuture, Failure, InformerEvent, JoinHandle, Key, Reconcile, ReconcileRequest, Scope, WorkQueue,
};

use super::Context;
use crate::api::Api;
use crate::bootstrap::ensure_namespaces;
use crate::loopback::{GroupResource, LoopbackClient, lost_race};

const CONFIG_MAPS: GroupResource = ("", "configmaps");
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
const CLIENT_CA: &str = "client-ca-file";
const REQUEST_HEADER_CA: &str = "requestheader-client-ca-file";
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
    let following = follow(context, controller.queue());
    let mut tasks = context.start(controller, Trust { api: context.api.clone() });
    tasks.extend(following);
    tasks
}

/// Looks at the ConfigMap when the CAs of this server are replaced.
fn follow(context: &Context, queue: Arc<WorkQueue<Key>>) -> Vec<JoinHandle<()>> {
    let cluster = context.api.cluster();
    let proxies = cluster.request_headers.as_ref().map(|headers| headers.authority());
    let bundles = cluster.client_ca.iter().chain(proxies);
    let follow = |bundle: &Arc<CaBundle>| {
        let (mut bundle, queue, stop) = (bundle.subscribe(), queue.clone(), context.stop.clone());
        context.api.registry().env().spawn("cluster-authentication-trust", async move {
            loop {
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    changed = bundle.changed() => match changed {
                        Ok(()) => queue.add(trust(), runtime::queue::NORMAL, None),
                        Err(_) => return,
                    }
                }
            }
        })
    };
    bundles.map(follow).collect()
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

/// Adds what we trust; other servers may trust others.
pub(crate) async fn sync(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let cluster = client.api().cluster();
    let existing = client.get(CONFIG_MAPS, NAMESPACE, NAME);
    let known = |key: &str| existing.as_ref().and_then(|map| map.str_at(&["data", key])).unwrap_or("");
    let client_ca = cluster.client_ca.as_ref().map(|bundle| bundle.current());
    let client_ca = client_ca.as_ref().map(|authorities| authorities.pem.as_str());
    let wanted = data(&known, client_ca, cluster.request_headers.as_deref());
    let size = existing.as_ref().and_then(|map| map.get("data")?.as_map()).map_or(0, Map::len);
    if wanted.len() == size && wanted.iter().all(|(key, value)| known(key) == value) {
        return Ok(());
    }
    let mut entries = Map::default();
    wanted.into_iter().for_each(|(key, value)| entries.set(key, value));
    let written = match existing {
        Some(mut map) => {
            map.make_map().set("data", entries);
            client.update(CONFIG_MAPS, map).await
        }
        None => {
            let mut map = Value::map();
            map.map_at(&["metadata"]).set("name", NAME);
            map.make_map().set("data", entries);
            client.create(CONFIG_MAPS, NAMESPACE, typed(map, "v1", "ConfigMap")).await
        }
    };
    match written {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

/// What the ConfigMap holds: what is known already, and ours. Anything else is dropped, as upstream does.
fn data<'k>(
    known: &impl Fn(&str) -> &'k str,
    client_ca: Option<&str>,
    request_headers: Option<&RequestHeaders>,
) -> BTreeMap<&'static str, String> {
    let mut data = BTreeMap::new();
    let bundle = |key: &'static str, ours: Option<&str>| union(known(key), ours.unwrap_or(""));
    let names = request_headers.map(|headers| headers.names.clone()).unwrap_or_default();
    data.insert(CLIENT_CA, bundle(CLIENT_CA, client_ca));
    let proxies = request_headers.map(|headers| headers.authority().current());
    let proxies = proxies.as_ref().map(|authorities| authorities.pem.as_str());
    data.insert(REQUEST_HEADER_CA, bundle(REQUEST_HEADER_CA, proxies));
    data.retain(|_, bundle| !bundle.is_empty());
    if !data.contains_key(REQUEST_HEADER_CA) {
        return data;
    }
    for (key, ours) in [
        ("requestheader-allowed-names", names.allowed_names),
        ("requestheader-username-headers", names.username),
        ("requestheader-uid-headers", names.uid),
        ("requestheader-group-headers", names.group),
        ("requestheader-extra-headers-prefix", names.extra_prefixes),
    ] {
        let mut all = strings(known(key));
        for name in ours {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        if key != "requestheader-uid-headers" || !all.is_empty() {
            let list = Value::List(all.into_iter().map(Value::from).collect());
            data.insert(key, String::from_utf8_lossy(&json::to_vec(&list)).into_owned());
        }
    }
    data
}

/// A list in JSON.
fn strings(text: &str) -> Vec<String> {
    let list = json::parse(text.as_bytes(), None).ok();
    let items = list.as_ref().and_then(Value::as_list).unwrap_or_default();
    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
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

#[cfg(test)]
mod tests {
    use auth::RequestHeaderNames;
    use auth::pki::Issuer;

    use super::*;

    #[test]
    fn the_trust_of_all_servers_is_combined() {
        let ca = || Issuer::in_memory(1_767_225_600).unwrap().ca_pem().to_owned();
        let (client_ca, ours, theirs) = (ca(), ca(), ca());
        let headers =
            RequestHeaders::new(ours.as_bytes(), RequestHeaderNames::usual("front-proxy-client")).unwrap();
        let first = data(&|_| "", Some(&client_ca), Some(&headers));
        let text = |key: &str| first.get(key).map(String::as_str).unwrap_or("");
        assert_eq!(text("client-ca-file"), client_ca);
        assert_eq!(text("requestheader-client-ca-file"), ours);
        assert_eq!(text("requestheader-allowed-names"), r#"["front-proxy-client"]"#);
        assert_eq!(text("requestheader-username-headers"), r#"["X-Remote-User"]"#);
        assert_eq!(text("requestheader-uid-headers"), r#"["X-Remote-Uid"]"#);
        assert_eq!(text("requestheader-group-headers"), r#"["X-Remote-Group"]"#);
        assert_eq!(text("requestheader-extra-headers-prefix"), r#"["X-Remote-Extra-"]"#);
        let other = RequestHeaders::new(theirs.as_bytes(), RequestHeaderNames::usual("other")).unwrap();
        let second = data(&text, None, Some(&other));
        assert_eq!(second["client-ca-file"], client_ca);
        assert_eq!(second["requestheader-client-ca-file"], format!("{ours}{theirs}"));
        assert_eq!(second["requestheader-allowed-names"], r#"["front-proxy-client","other"]"#);
        let plain = data(&|_| "", Some(&client_ca), None);
        assert_eq!(plain.keys().copied().collect::<Vec<_>>(), ["client-ca-file"]);
    }
}
