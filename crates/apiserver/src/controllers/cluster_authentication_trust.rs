//! The ConfigMap `extension-apiserver-authentication`: whom extension API servers believe. The CA of client certificates, and the front
//! proxies that pass requests on to them, which are the API servers of this cluster.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use auth::pki::{certificates_from_pem, certificates_to_pem, not_after};
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
/// How long a certificate is kept that has expired: clocks differ.
const EXPIRED_SECONDS: u64 = 5 * 60;
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

/// Adds what we trust, and removes what has expired; other servers may trust others.
pub(crate) async fn sync(client: &LoopbackClient<'_>) -> Result<(), Status> {
    let cluster = client.api().cluster();
    let now = client.api().registry().env().now_seconds();
    let existing = client.get(CONFIG_MAPS, NAMESPACE, NAME);
    let known = |key: &str| existing.as_ref().and_then(|map| map.str_at(&["data", key])).unwrap_or("");
    let client_ca = cluster.client_ca.as_ref().map(|bundle| bundle.current());
    let client_ca = client_ca.as_ref().map(|authorities| authorities.pem.as_str());
    let wanted = data(&known, client_ca, cluster.request_headers.as_deref(), now);
    let size = existing.as_ref().and_then(|map| map.get("data")?.as_map()).map_or(0, Map::len);
    if wanted.len() == size && wanted.iter().all(|(key, value)| known(key) == value) {
        return Ok(());
    }
    let written = match existing {
        None => create(client, wanted).await,
        Some(mut map) => {
            map.make_map().set("data", entries(wanted));
            match client.update(CONFIG_MAPS, map.clone()).await {
                // It would stay so for ever. The other servers add theirs again.
                Err(status) if is_too_large(&status) => {
                    tracing::warn!(error = status.message, "{NAMESPACE}/{NAME} is too large and begun anew");
                    client.delete(CONFIG_MAPS, &map).await?;
                    let ours = data(&|_| "", client_ca, cluster.request_headers.as_deref(), now);
                    create(client, ours).await
                }
                written => written,
            }
        }
    };
    match written {
        Err(status) if lost_race(&status) => Ok(()),
        other => other,
    }
}

async fn create(client: &LoopbackClient<'_>, data: BTreeMap<&'static str, String>) -> Result<(), Status> {
    let mut map = Value::map();
    map.map_at(&["metadata"]).set("name", NAME);
    map.make_map().set("data", entries(data));
    client.create(CONFIG_MAPS, NAMESPACE, typed(map, "v1", "ConfigMap")).await
}

fn entries(data: BTreeMap<&'static str, String>) -> Map {
    let mut entries = Map::default();
    data.into_iter().for_each(|(key, value)| entries.set(key, value));
    entries
}

/// A body, or an object, that is larger than one may be.
fn is_too_large(status: &Status) -> bool {
    status.code == 413 || status.reason == "Invalid" && status.message.contains("Too long")
}

/// What the ConfigMap holds: what is known already, and ours. Anything else is dropped, as upstream does.
fn data<'k>(
    known: &impl Fn(&str) -> &'k str,
    client_ca: Option<&str>,
    request_headers: Option<&RequestHeaders>,
    now: u64,
) -> BTreeMap<&'static str, String> {
    let mut data = BTreeMap::new();
    let bundle = |key: &'static str, ours: Option<&str>| union(known(key), ours.unwrap_or(""), now);
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

/// The certificates of both bundles that have not expired, each once, in order.
fn union(known: &str, ours: &str, now: u64) -> String {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    for block in [known, ours].iter().flat_map(|bundle| bundle.split_inclusive(END)) {
        // What cannot be read is nobody's certificate. Differs from kube-apiserver, which publishes nothing until somebody has
        // repaired the bundle.
        let Ok(found) = certificates_from_pem(block.as_bytes()) else { continue };
        if not_after(block.as_bytes()).is_some_and(|end| end + EXPIRED_SECONDS <= now) {
            continue;
        }
        all.extend(found.into_iter().filter(|certificate| seen.insert(certificate.clone())));
    }
    certificates_to_pem(&all)
}

#[cfg(test)]
mod tests {
    use auth::RequestHeaderNames;
    use auth::pki::Issuer;

    use super::*;

    const NOW: u64 = 1_767_225_600;

    #[test]
    fn a_certificate_counts_until_it_expires_and_once_however_it_is_written() {
        let ca = |from: u64| Issuer::in_memory(from).unwrap().ca_pem().to_owned();
        let (old, ours) = (ca(NOW - 10 * 365 * 86_400), ca(NOW));
        let end = not_after(old.as_bytes()).unwrap();
        // Another width of lines, words between, and no certificate at all.
        let body = ours.trim().split_once('\n').unwrap().1.rsplit_once('\n').unwrap().0.replace('\n', "");
        let wide = format!("Subject: ours\n-----BEGIN CERTIFICATE-----\n{body}\n{END}\n");
        let damaged = format!("-----BEGIN CERTIFICATE-----\n!\n{END}\n");
        let known = format!("{old}{damaged}{wide}");
        assert_eq!(union(&known, &ours, end + 299), format!("{old}{ours}"));
        assert_eq!(union(&known, &ours, end + 300), ours);
        assert_eq!(union("", &old, end + 300), "", "nor is ours told then");
    }

    #[test]
    fn the_trust_of_all_servers_is_combined() {
        let ca = || Issuer::in_memory(NOW).unwrap().ca_pem().to_owned();
        let (client_ca, ours, theirs) = (ca(), ca(), ca());
        let headers =
            RequestHeaders::new(ours.as_bytes(), RequestHeaderNames::usual("front-proxy-client")).unwrap();
        let first = data(&|_| "", Some(&client_ca), Some(&headers), NOW);
        let text = |key: &str| first.get(key).map(String::as_str).unwrap_or("");
        assert_eq!(text("client-ca-file"), client_ca);
        assert_eq!(text("requestheader-client-ca-file"), ours);
        assert_eq!(text("requestheader-allowed-names"), r#"["front-proxy-client"]"#);
        assert_eq!(text("requestheader-username-headers"), r#"["X-Remote-User"]"#);
        assert_eq!(text("requestheader-uid-headers"), r#"["X-Remote-Uid"]"#);
        assert_eq!(text("requestheader-group-headers"), r#"["X-Remote-Group"]"#);
        assert_eq!(text("requestheader-extra-headers-prefix"), r#"["X-Remote-Extra-"]"#);
        let other = RequestHeaders::new(theirs.as_bytes(), RequestHeaderNames::usual("other")).unwrap();
        let second = data(&text, None, Some(&other), NOW);
        assert_eq!(second["client-ca-file"], client_ca);
        assert_eq!(second["requestheader-client-ca-file"], format!("{ours}{theirs}"));
        assert_eq!(second["requestheader-allowed-names"], r#"["front-proxy-client","other"]"#);
        let plain = data(&|_| "", Some(&client_ca), None, NOW);
        assert_eq!(plain.keys().copied().collect::<Vec<_>>(), ["client-ca-file"]);
    }
}
