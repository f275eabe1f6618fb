//! Discovery of other servers: asked in the background, merged with what is served here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use catalog::{Catalog, compare_versions};
use codec::json;
use http::header::{CONTENT_TYPE, ETAG};
use object::{Map, Value};

use super::backend::{Fetched, OwnRequest};
use super::documents::Discovered;
use super::priorities::{self, CUSTOM, Priority, REGISTRATION};
use super::routes::{ApiService, Remote, Routes};
use crate::api::Api;
use crate::controllers::api_service_availability::aggregator;

/// The aggregated form, of either version.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// A server's one document of all resources.
pub(crate) enum All {
    Document {
        document: Value,
        tag: String,
    },
    /// What is known by the entity tag that was sent.
    Unchanged,
    /// There is none: each group version has its own.
    None,
}

pub(crate) async fn fetch_all(api: &Api, remote: &Remote, tag: Option<&str>) -> Result<All, String> {
    let user = aggregator();
    let request = OwnRequest::check("/apis", AGGREGATED, &user).unless_it_has(tag);
    let answer = request.send(api, remote).await?;
    match answer.status.as_u16() {
        503 => Err("service returned non-success response code: 503".to_owned()),
        304 if tag.is_some() => Ok(All::Unchanged),
        200 if is_aggregated(&answer) => {
            let document = json::parse(&answer.body, None).map_err(|error| error.to_string())?;
            Ok(All::Document { document, tag: answer.header(ETAG).to_owned() })
        }
        _ => Ok(All::None),
    }
}

/// The resources of a group version, from the document of all.
pub(crate) fn of_all(service: &ApiService, document: &Value) -> Discovered {
    let resources = of_group_version(document, &service.group, &service.version);
    Discovered { resources, current: true }
}

/// The same from its own document.
pub(crate) async fn fetch_own(
    api: &Api,
    service: &ApiService,
    remote: &Remote,
) -> Result<Discovered, String> {
    let (path, user) = (service.root(), aggregator());
    let answer = OwnRequest::check(&path, "application/json", &user).send(api, remote).await?;
    if answer.status.as_u16() != 200 {
        return Err(format!("failed to download legacy discovery for {path}: {}", answer.status.as_u16()));
    }
    let document = json::parse(&answer.body, None).map_err(|error| error.to_string())?;
    Ok(Discovered { resources: from_resource_list(&document), current: true })
}

fn is_aggregated(answer: &Fetched) -> bool {
    let media = answer.header(CONTENT_TYPE);
    let has = |param: &str| media.split(';').any(|part| part.trim() == param);
    has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList") && (has("v=v2") || has("v=v2beta1"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_list).unwrap_or_default()
}

/// Resources without a kind get an empty one: old clients need it.
fn of_group_version(document: &Value, group: &str, version: &str) -> Vec<Value> {
    let group =
        list(document, "items").iter().find(|g| g.str_at(&["metadata", "name"]).unwrap_or("") == group);
    let versions = group.map(|group| list(group, "versions")).unwrap_or_default();
    let version = versions.iter().find(|v| v.str_at(&["version"]) == Some(version));
    let mut resources = version.map(|version| list(version, "resources").to_vec()).unwrap_or_default();
    for resource in resources.iter_mut().filter_map(Value::as_map_mut) {
        with_kind(resource);
        if let Some(Value::List(subresources)) = resource.get_mut("subresources") {
            subresources.iter_mut().filter_map(Value::as_map_mut).for_each(with_kind);
        }
    }
    resources
}

fn with_kind(resource: &mut Map) {
    if resource.get("responseKind").is_none_or(Value::is_null) {
        resource.set("responseKind", kind("", "", ""));
    }
}

fn kind(group: &str, version: &str, kind: &str) -> Map {
    let mut map = Map::default();
    map.set("group", group);
    map.set("version", version);
    map.set("kind", kind);
    map
}

/// The resource of a kind; one of another group or version is not meant.
pub(crate) fn plural(resources: &[Value], group: &str, version: &str, kind: &str) -> Option<String> {
    let fits = |resource: &&Value| {
        let says = |name: &str| resource.str_at(&["responseKind", name]).unwrap_or("");
        let own = |name: &str, expected: &str| says(name).is_empty() || says(name) == expected;
        says("kind") == kind && own("group", group) && own("version", version)
    };
    resources.iter().find(fits)?.str_at(&["resource"]).map(str::to_owned)
}

/// From an APIResourceList, as servers told before there was the aggregated form.
fn from_resource_list(document: &Value) -> Vec<Value> {
    let mut resources: Vec<(Map, Vec<Value>)> = Vec::new();
    // Where each is among them: there may be very many.
    let mut places: HashMap<&str, usize> = HashMap::new();
    let all = list(document, "resources");
    let of = |r: &Value| {
        let text = |name: &str| r.str_at(&[name]).unwrap_or("").to_owned();
        kind(&text("group"), &text("version"), &text("kind"))
    };
    let scope = |r: &Value| match r.get("namespaced").and_then(Value::as_bool) {
        Some(true) => "Namespaced",
        _ => "Cluster",
    };
    for resource in all.iter().filter(|r| !r.str_at(&["name"]).unwrap_or("").contains('/')) {
        let name = resource.str_at(&["name"]).unwrap_or("");
        let mut map = Map::default();
        map.set("resource", name);
        map.set("responseKind", of(resource));
        map.set("scope", scope(resource));
        map.set("singularResource", resource.str_at(&["singularName"]).unwrap_or(""));
        for field in ["verbs", "shortNames", "categories"] {
            if let Some(value) = resource.get(field) {
                map.set(field, value.clone());
            }
        }
        places.entry(name).or_insert(resources.len());
        resources.push((map, Vec::new()));
    }
    for resource in all {
        let Some((parent, name)) = resource.str_at(&["name"]).unwrap_or("").split_once('/') else { continue };
        let mut map = Map::default();
        map.set("subresource", name);
        map.set("responseKind", of(resource));
        map.set("verbs", resource.get("verbs").cloned().unwrap_or(Value::List(Vec::new())));
        let place = *places.entry(parent).or_insert_with(|| {
            let mut alone = Map::default();
            alone.set("resource", parent);
            alone.set("responseKind", kind("", "", ""));
            alone.set("scope", scope(resource));
            alone.set("singularResource", "");
            alone.set("verbs", Value::List(Vec::new()));
            resources.push((alone, Vec::new()));
            resources.len() - 1
        });
        resources[place].1.push(Value::Map(map));
    }
    let whole = |(mut map, subresources): (Map, Vec<Value>)| {
        if !subresources.is_empty() {
            map.set("subresources", subresources);
        }
        Value::Map(map)
    };
    resources.into_iter().map(whole).collect()
}

/// A group and its versions, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedGroup {
    pub name: String,
    pub versions: Vec<String>,
}

/// All groups in the order discovery lists them: the catalogue's, and those of other servers.
pub(crate) fn served_groups(catalog: &Catalog, routes: &Routes) -> Vec<ServedGroup> {
    let own = catalog.groups().iter();
    let mut groups: Vec<ServedGroup> = own
        .map(|group| ServedGroup {
            name: group.name.to_string(),
            versions: group.versions.iter().map(|version| version.to_string()).collect(),
        })
        .collect();
    if !routes.has_remotes() {
        return groups;
    }
    for service in routes.remotes().filter(|service| !service.group.is_empty()) {
        match groups.iter_mut().find(|group| group.name == service.group) {
            Some(group) if group.versions.contains(&service.version) => {}
            Some(group) => group.versions.push(service.version.clone()),
            None => groups
                .push(ServedGroup { name: service.group.clone(), versions: vec![service.version.clone()] }),
        }
    }
    let priority = |group: &str, version: &str| -> Priority {
        let built_in = || priorities::built_in(group, version);
        routes.priority(group, version).or_else(built_in).unwrap_or(CUSTOM)
    };
    for group in &mut groups {
        let name = group.name.clone();
        group.versions.sort_by(|a, b| {
            let (of_a, of_b) = (priority(&name, a).version, priority(&name, b).version);
            of_b.cmp(&of_a).then_with(|| compare_versions(b, a))
        });
    }
    groups.sort_by_cached_key(|group| {
        let highest = group.versions.iter().map(|version| priority(&group.name, version).group).max();
        // Core is no group of `/apis`; the registry of all comes before them.
        let first = [!group.name.is_empty(), group.name != REGISTRATION];
        (first, Reverse(highest), group.name.clone())
    });
    groups
}

/// The APIVersionDiscovery of a group version that another server serves.
pub(crate) fn version_discovery(
    discovered: &BTreeMap<String, Arc<Discovered>>,
    service: &ApiService,
) -> Value {
    let known = discovered.get(&service.name);
    let mut map = Map::default();
    map.set("version", service.version.clone());
    let resources = known.map(|known| known.resources.clone()).unwrap_or_default();
    if !resources.is_empty() {
        map.set("resources", resources);
    }
    map.set("freshness", if known.is_some_and(|known| known.current) { "Current" } else { "Stale" });
    Value::Map(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn a_resource_list_becomes_resources_with_their_subresources() {
        let legacy = parse(
            r#"{"resources":[{"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["get"],
            "shortNames":["t"]},{"name":"things/status","namespaced":true,"kind":"Thing","verbs":["update"]},
            {"name":"pods/x","namespaced":true,"kind":"X","group":"g","version":"v","verbs":["get"]}]}"#,
        );
        let expected = parse(
            r#"[{"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"scope":"Namespaced",
            "singularResource":"thing","verbs":["get"],"shortNames":["t"],"subresources":[{"subresource":"status",
            "responseKind":{"group":"","version":"","kind":"Thing"},"verbs":["update"]}]},
            {"resource":"pods","responseKind":{"group":"","version":"","kind":""},"scope":"Namespaced","singularResource":"",
            "verbs":[],"subresources":[{"subresource":"x","responseKind":{"group":"g","version":"v","kind":"X"},
            "verbs":["get"]}]}]"#,
        );
        assert_eq!(Value::List(from_resource_list(&legacy)), expected);
    }

    #[test]
    fn each_of_many_subresources_is_found_with_its_resource() {
        const MANY: usize = 20_000;
        let name = |n: usize| Value::Map([("name".into(), format!("p{n}/x").into())].into_iter().collect());
        let legacy = Value::Map(
            [("resources".into(), Value::List((0..MANY).map(name).collect()))].into_iter().collect(),
        );
        let found = from_resource_list(&legacy);
        assert_eq!(found.len(), MANY);
        for (n, resource) in found.iter().enumerate() {
            assert_eq!(resource.str_at(&["resource"]), Some(&*format!("p{n}")));
            assert_eq!(list(resource, "subresources").len(), 1, "p{n}");
        }
    }

    #[test]
    fn one_group_version_is_found_in_the_document_of_all() {
        let all = parse(
            r#"{"items":[{"metadata":{"name":"a"},"versions":[{"version":"v1","resources":[{"resource":"x"}]}]},
            {"metadata":{"name":"b"},"versions":[{"version":"v1","resources":[{"resource":"y","subresources":[{}]}]}]}]}"#,
        );
        let found = of_group_version(&all, "b", "v1");
        assert_eq!(found[0].str_at(&["resource"]), Some("y"));
        assert!(found[0].at(&["responseKind", "kind"]).is_some());
        assert!(list(&found[0], "subresources")[0].at(&["responseKind", "kind"]).is_some());
        assert!(of_group_version(&all, "b", "v2").is_empty());
    }

    #[test]
    fn groups_are_listed_by_priority() {
        let catalog = Catalog::builtin();
        let mut routes = Routes::default();
        let own: Vec<String> = served_groups(&catalog, &routes).into_iter().map(|g| g.name).collect();
        let env = env::Env::simulated(1);
        for (group, version, group_priority, version_priority) in [
            ("first.io", "v1", 19_000, 5),
            ("first.io", "v2", 1, 5),
            ("last.io", "v1", 10, 1),
            ("apps", "v9", 10, 99),
        ] {
            let object = parse(&format!(
                r#"{{"metadata":{{"name":"{version}.{group}"}},"spec":{{"group":"{group}","version":"{version}",
                "groupPriorityMinimum":{group_priority},"versionPriority":{version_priority},
                "service":{{"namespace":"a","name":"b"}},"insecureSkipTLSVerify":true}}}}"#
            ));
            routes.set(ApiService::of(&object, None, &env, None));
        }
        let merged = served_groups(&catalog, &routes);
        let names: Vec<&str> = merged.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names[..4], ["", "apiregistration.k8s.io", "first.io", "apps"]);
        assert_eq!(names.last(), Some(&"last.io"));
        assert_eq!(merged[2].versions, ["v2", "v1"], "versions of one priority by name");
        assert_eq!(merged[3].versions, ["v9", "v1"]);
        let rest: Vec<&str> = names.into_iter().filter(|name| !name.contains("st.io")).collect();
        assert_eq!(rest, own, "ours keep their order");
    }
}
