//! What is served here: /version, /api, /apis, in the old form and in the aggregated one.

use base64::Engine as _;
use bytes::Bytes;
use catalog::{Catalog, Resource, Subresource, Verbs};
use codec::json;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::request::Parts;
use object::{Map, Status, Value};

use crate::KUBERNETES_VERSION;
use crate::aggregation::discovery::{ServedGroup, served_groups, version_discovery};
use crate::aggregation::routes::Routes;
use crate::api::Api;
use crate::body::Body;
use crate::negotiate::{Encoding, Offer, negotiate, ranges};
use crate::openid;
use crate::request_info::Query;
use crate::respond::{self, Answer};
use crate::views;

pub fn version(method: &http::Method) -> Result<Answer, Status> {
    if method != http::Method::GET {
        return Err(Status::method_not_allowed());
    }
    let mut map = Map::default();
    let built = version_fields();
    // In upstream's order: the numbers come first.
    for (field, value) in built[..2].iter().chain(&compatibility()).chain(&built[2..]) {
        map.set(*field, value.clone());
    }
    let mut out = Vec::new();
    json::write_pretty(&Value::Map(map), &mut out);
    Ok(respond::json_bytes(200, out.into()))
}

/// What was built, and for what.
pub fn version_fields() -> [(&'static str, String); 9] {
    let [major, minor] = numbers();
    let platform = if cfg!(target_arch = "aarch64") { "linux/arm64" } else { "linux/amd64" };
    [
        ("major", major),
        ("minor", minor),
        ("gitVersion", format!("{KUBERNETES_VERSION}+setpoint-{}", env!("CARGO_PKG_VERSION"))),
        ("gitCommit", String::new()),
        ("gitTreeState", String::new()),
        ("buildDate", String::new()),
        ("goVersion", String::new()),
        ("compiler", "rustc".to_owned()),
        ("platform", platform.to_owned()),
    ]
}

/// Which release we are like, and which can take over what we wrote: ours and the one before, as upstream says it
/// without flags.
fn compatibility() -> [(&'static str, String); 4] {
    let [major, minor] = numbers();
    let before = minor.parse::<u32>().map_or_else(|_| minor.clone(), |m| m.saturating_sub(1).to_string());
    [
        ("emulationMajor", major.clone()),
        ("emulationMinor", minor),
        ("minCompatibilityMajor", major),
        ("minCompatibilityMinor", before),
    ]
}

fn numbers() -> [String; 2] {
    let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    [numbers.next().unwrap_or("1").to_owned(), numbers.next().unwrap_or("").to_owned()]
}

/// Documents below /api and /apis; anything else is 404.
pub fn serve(api: &Api, path: &str, parts: &Parts, query: &Query<'_>) -> Result<Answer, Status> {
    let catalog = &*api.registry.catalog();
    let routes = &*api.aggregation.routes();
    let inner = path.strip_prefix('/').unwrap_or(path);
    let segments: Vec<&str> = inner.split('/').filter(|_| !inner.is_empty()).collect();
    let document = match segments.as_slice() {
        [root @ ("api" | "apis")] if let Some(encoding) = wants_aggregated(parts) => {
            return Ok(aggregated(api, catalog, routes, *root == "api", parts, encoding));
        }
        // No API object and so JSON, whatever is asked for.
        [] => {
            return Ok(respond::json_bytes(
                200,
                views::encode_value(catalog, &root(catalog, routes), Encoding::PrettyJson).into(),
            ));
        }
        ["api"] => versions(catalog, parts),
        ["apis"] => groups(&served_groups(catalog, routes)),
        ["api", version] if has_version(catalog, "", version) => resources(catalog, "", version),
        ["apis", name] if let Some(group) = served_group(catalog, routes, name) => {
            let mut group = group_map(&group);
            let mut map = typed("APIGroup", Some("v1"));
            group.iter_mut().for_each(|(n, v)| map.push(n.clone(), v.clone()));
            Value::Map(map)
        }
        ["apis", group, version] if has_version(catalog, group, version) => {
            resources(catalog, group, version)
        }
        // A built-in group in another version is an API path that leads nowhere; the rest is no API at all.
        ["apis", group, _, ..] if catalog.resources().iter().any(|r| r.group == **group && !r.custom) => {
            return Err(Status::no_such_resource());
        }
        ["api", _, ..] => return Err(Status::no_such_resource()),
        _ => return Ok(respond::page_not_found()),
    };
    // The lists of groups are told whatever the method is.
    if parts.method != http::Method::GET && !matches!(segments.as_slice(), ["apis"] | ["apis", _]) {
        return Err(Status::method_not_allowed());
    }
    let wanted = negotiate(&parts.headers, query, Offer::Document)?;
    Ok(respond::value(catalog, 200, &document, wanted))
}

fn has_version(catalog: &Catalog, group: &str, version: &str) -> bool {
    catalog.groups().iter().any(|g| g.name == *group && g.versions.iter().any(|v| *v == *version))
}

fn typed(kind: &'static str, api_version: Option<&'static str>) -> Map {
    let mut map = Map::default();
    map.set("kind", kind);
    if let Some(version) = api_version {
        map.set("apiVersion", version);
    }
    map
}

fn list(items: impl IntoIterator<Item = String>) -> Value {
    Value::List(items.into_iter().map(Value::from).collect())
}

/// `/`: every path that can be asked.
fn root(catalog: &Catalog, routes: &Routes) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for group in served_groups(catalog, routes).iter().filter(|g| !g.name.is_empty()) {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|v| format!("/apis/{}/{v}", group.name)));
    }
    for path in [openid::CONFIGURATION, openid::KEYS] {
        paths.push(path.to_owned());
    }
    for path in ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"] {
        paths.push(path.to_owned());
    }
    paths.sort();
    let mut map = Map::default();
    map.set("paths", list(paths));
    Value::Map(map)
}

fn versions(catalog: &Catalog, parts: &Parts) -> Value {
    let core = catalog.groups().iter().find(|g| g.name.is_empty());
    let mut map = typed("APIVersions", None);
    map.set("versions", list(core.iter().flat_map(|g| &g.versions).map(|v| v.to_string())));
    let mut address = Map::default();
    address.set("clientCIDR", "0.0.0.0/0");
    let host = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok());
    address.set("serverAddress", host.or(parts.uri.authority().map(|a| a.as_str())).unwrap_or(""));
    map.set("serverAddressByClientCIDRs", vec![Value::Map(address)]);
    Value::Map(map)
}

fn served_group(catalog: &Catalog, routes: &Routes, name: &str) -> Option<ServedGroup> {
    served_groups(catalog, routes).into_iter().find(|group| group.name == name && !name.is_empty())
}

fn group_map(ServedGroup { name, versions }: &ServedGroup) -> Map {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let mut map = Map::default();
            map.set("groupVersion", format!("{name}/{version}"));
            map.set("version", version.as_str());
            Value::Map(map)
        })
        .collect();
    let mut map = Map::default();
    map.set("name", name.as_str());
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    map.set("versions", versions);
    map.set("preferredVersion", preferred);
    map
}

fn groups(groups: &[ServedGroup]) -> Value {
    let mut map = typed("APIGroupList", Some("v1"));
    let groups = groups.iter().filter(|g| !g.name.is_empty());
    map.set("groups", groups.map(|g| Value::Map(group_map(g))).collect::<Vec<_>>());
    Value::Map(map)
}

fn verbs(verbs: Verbs) -> Value {
    list(verbs.names().map(str::to_owned))
}

/// The verbs of a resource; those of custom ones come in upstream's own order.
fn resource_verbs(resource: &Resource) -> Value {
    const CUSTOM: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    if !resource.custom {
        return verbs(resource.verbs);
    }
    let writes = |verb: Verbs| matches!(verb, Verbs::CREATE | Verbs::PATCH | Verbs::UPDATE);
    let listed = |verb| resource.verbs.contains(verb) && !(resource.terminating && writes(verb));
    let served = |name: &&&str| Verbs::parse(name).is_some_and(listed);
    list(CUSTOM.iter().filter(served).map(|name| (*name).to_owned()))
}

fn resources(catalog: &Catalog, group: &str, version: &str) -> Value {
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut out = Vec::new();
    for resource in catalog.resources_of(group, version) {
        let mut map = Map::default();
        map.set("name", resource.plural.as_str());
        map.set("singularName", resource.singular.as_str());
        map.set("namespaced", resource.namespaced);
        map.set("kind", resource.kind.as_str());
        map.set("verbs", resource_verbs(resource));
        if !resource.short_names.is_empty() {
            map.set("shortNames", list(resource.short_names.iter().map(|s| s.to_string())));
        }
        if !resource.categories.is_empty() {
            map.set("categories", list(resource.categories.iter().map(|s| s.to_string())));
        }
        if let Some(storage) = &resource.storage {
            map.set(
                "storageVersionHash",
                storage_version_hash(&storage.group, &storage.version, &storage.kind),
            );
        }
        out.push(Value::Map(map));
        for sub in &resource.subresources {
            let mut map = Map::default();
            map.set("name", format!("{}/{}", resource.plural, sub.name));
            map.set("singularName", "");
            map.set("namespaced", resource.namespaced);
            if sub.group != resource.group || sub.version != resource.version {
                map.set("group", sub.group.as_str());
                map.set("version", sub.version.as_str());
            }
            map.set("kind", sub.kind.as_str());
            map.set("verbs", verbs(sub.verbs));
            out.push(Value::Map(map));
        }
    }
    let mut map = typed("APIResourceList", if group.is_empty() { None } else { Some("v1") });
    map.set("groupVersion", group_version);
    map.set("resources", out);
    Value::Map(map)
}

/// Equal for two servers that store a resource in the same version: migration tools compare it.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest.as_ref()[..8])
}

/// The encoding the aggregated document is wanted in, if it is wanted before the plain one.
fn wants_aggregated(parts: &Parts) -> Option<Encoding> {
    let ranges = ranges(&parts.headers);
    let known = |kind: &str| {
        matches!(kind, "application/json" | "*/*" | "application/*" | "application/yaml")
            || kind == "application/vnd.kubernetes.protobuf"
    };
    let plain = ranges.iter().position(|range| range.param("as").is_none() && known(range.kind));
    ranges[..plain.unwrap_or(ranges.len())].iter().find_map(|range| {
        let wanted = range.param("as") == Some("APIGroupDiscoveryList")
            && range.param("g") == Some("apidiscovery.k8s.io")
            && range.param("v") == Some("v2");
        match range.kind {
            "application/json" | "*/*" | "application/*" if wanted => Some(Encoding::Json),
            "application/yaml" if wanted => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" if wanted => Some(Encoding::Protobuf),
            _ => None,
        }
    })
}

fn aggregated(
    api: &Api,
    catalog: &Catalog,
    routes: &Routes,
    core: bool,
    parts: &Parts,
    encoding: Encoding,
) -> Answer {
    let content_type = match encoding {
        Encoding::Yaml => "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        }
        _ => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    };
    api.aggregation.metrics.aggregated_discovery();
    let mut items = Vec::new();
    let discovered = api.aggregation.documents.discovered.load();
    for group in served_groups(catalog, routes).iter().filter(|g| g.name.is_empty() == core) {
        let mut map = Map::default();
        let mut metadata = Map::default();
        if !group.name.is_empty() {
            metadata.set("name", group.name.as_str());
        }
        map.set("metadata", metadata);
        let versions = group.versions.iter().map(|version| {
            if let Some(service) = routes.remote(&group.name, version) {
                return version_discovery(&discovered.of, service);
            }
            let mut map = Map::default();
            map.set("version", version.as_str());
            let resources =
                catalog.resources_of(&group.name, version).map(|resource| aggregated_resource(resource));
            map.set("resources", resources.collect::<Vec<_>>());
            map.set("freshness", "Current");
            Value::Map(map)
        });
        map.set("versions", versions.collect::<Vec<_>>());
        items.push(Value::Map(map));
    }
    let mut map = typed("APIGroupDiscoveryList", Some("apidiscovery.k8s.io/v2"));
    map.set("metadata", Value::map());
    map.set("items", items);
    let bytes = Bytes::from(views::encode_value(catalog, &Value::Map(map), encoding));
    let bytes = if encoding == Encoding::Json { respond::line(bytes) } else { bytes };
    let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
    let tag: String = digest.as_ref().iter().map(|b| format!("{b:02X}")).collect();
    let tag = format!("\"{tag}\"");
    let unchanged = parts.headers.get(IF_NONE_MATCH).is_some_and(|v| v.as_bytes() == tag.as_bytes());
    let mut answer = if unchanged {
        respond::answer(304, content_type, Body::empty())
    } else {
        respond::answer(200, content_type, bytes.into())
    };
    let headers = answer.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(ETAG, tag);
    }
    answer
}

/// As upstream of its own kinds: group and version stand there only where they are not those of the resource. Of custom
/// resources they always do.
fn kind_map(resource: &Resource, group: &str, version: &str, kind: &str) -> Map {
    let own = resource.group == *group && resource.version == *version && !resource.custom;
    let mut map = Map::default();
    map.set("group", if own { "" } else { group });
    map.set("version", if own { "" } else { version });
    map.set("kind", kind.to_owned());
    map
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut map = Map::default();
    map.set("resource", resource.plural.as_str());
    map.set("responseKind", kind_map(resource, &resource.group, &resource.version, &resource.kind));
    map.set("scope", if resource.namespaced { "Namespaced" } else { "Cluster" });
    map.set("singularResource", resource.singular.as_str());
    map.set("verbs", resource_verbs(resource));
    if !resource.short_names.is_empty() {
        map.set("shortNames", list(resource.short_names.iter().map(|s| s.to_string())));
    }
    if !resource.categories.is_empty() {
        map.set("categories", list(resource.categories.iter().map(|s| s.to_string())));
    }
    if !resource.subresources.is_empty() {
        let subresource = |sub: &Subresource| {
            let mut map = Map::default();
            map.set("subresource", sub.name.as_str());
            map.set("responseKind", kind_map(resource, &sub.group, &sub.version, &sub.kind));
            map.set("verbs", verbs(sub.verbs));
            Value::Map(map)
        };
        map.set("subresources", resource.subresources.iter().map(subresource).collect::<Vec<_>>());
    }
    Value::Map(map)
}
