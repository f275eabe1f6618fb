//! Custom resources, as a server's discovery describes them.
//!
//! ```text
//! /apis, aggregated (APIGroupDiscoveryList)    every group at once, Kubernetes 1.27 and newer
//! /apis (APIGroupList), /apis/<group>/<version> (APIResourceList)    one by one
//!        v
//! Discovered ── definition ── Catalog::define
//! ```

use std::sync::Arc;

use catalog::{
    Catalog, Name, Resource, ResourceDef, ResourceId, Storage, StorageId, StrategySlot, Subresource, TypeId,
    Verbs, Verified,
};
use object::Value;

/// One resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Discovered {
    pub group: Name,
    pub version: Name,
    pub plural: Name,
    pub singular: Name,
    pub kind: Name,
    pub namespaced: bool,
    pub short_names: Vec<Name>,
    pub categories: Vec<Name>,
    pub verbs: Verbs,
    pub subresources: Vec<DiscoveredSubresource>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiscoveredSubresource {
    pub name: Name,
    pub group: Name,
    pub version: Name,
    pub kind: Name,
    pub verbs: Verbs,
}

/// What one group version serves; `None`: this time the server cannot say.
pub(crate) struct GroupVersion {
    pub group: String,
    pub version: String,
    pub resources: Option<Vec<Discovered>>,
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.str_at(&[name]).unwrap_or("")
}

fn name(value: &Value, member: &str) -> Name {
    Name::from(text(value, member).to_owned())
}

fn list<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).and_then(Value::as_list).unwrap_or_default()
}

fn names(value: &Value, member: &str) -> Vec<Name> {
    list(value, member).iter().filter_map(Value::as_str).map(|name| Name::from(name.to_owned())).collect()
}

fn verbs(value: &Value) -> Verbs {
    let known = list(value, "verbs").iter().filter_map(Value::as_str).filter_map(Verbs::parse);
    known.fold(Verbs::default(), |all, verb| all | verb)
}

/// Of an APIGroupDiscoveryList; `None`: it is another document.
pub(crate) fn aggregated(document: &Value) -> Option<Vec<GroupVersion>> {
    if text(document, "kind") != "APIGroupDiscoveryList" {
        return None;
    }
    let mut out = Vec::new();
    for group in list(document, "items") {
        let of = group.str_at(&["metadata", "name"]).unwrap_or("");
        for version in list(group, "versions") {
            let at = text(version, "version");
            let resources = list(version, "resources").iter().map(|r| aggregated_resource(of, at, r));
            // What a server behind this one serves, which did not answer lately.
            let known = text(version, "freshness") != "Stale";
            out.push(GroupVersion {
                group: of.to_owned(),
                version: at.to_owned(),
                resources: known.then(|| resources.collect()),
            });
        }
    }
    Some(out)
}

fn aggregated_resource(group: &str, version: &str, resource: &Value) -> Discovered {
    let kind = |value: &Value, part: &str, own: &str| match value.str_at(&["responseKind", part]) {
        Some(said) if !said.is_empty() => Name::from(said.to_owned()),
        _ => Name::from(own.to_owned()),
    };
    let subresource = |sub: &Value| DiscoveredSubresource {
        name: name(sub, "subresource"),
        group: kind(sub, "group", group),
        version: kind(sub, "version", version),
        kind: kind(sub, "kind", ""),
        verbs: verbs(sub),
    };
    Discovered {
        group: Name::from(group.to_owned()),
        version: Name::from(version.to_owned()),
        plural: name(resource, "resource"),
        singular: name(resource, "singularResource"),
        kind: kind(resource, "kind", ""),
        namespaced: text(resource, "scope") == "Namespaced",
        short_names: names(resource, "shortNames"),
        categories: names(resource, "categories"),
        verbs: verbs(resource),
        subresources: list(resource, "subresources").iter().map(subresource).collect(),
    }
}

/// Group and version of each entry of an APIGroupList.
pub(crate) fn group_versions(document: &Value) -> Vec<(String, String)> {
    let groups = list(document, "groups").iter();
    let versions = groups.flat_map(|group| list(group, "versions").iter().map(move |v| (group, v)));
    versions.map(|(group, v)| (text(group, "name").to_owned(), text(v, "version").to_owned())).collect()
}

/// Of an APIResourceList.
pub(crate) fn resources(group: &str, version: &str, document: &Value) -> Vec<Discovered> {
    let mut out: Vec<Discovered> = Vec::new();
    let entries = list(document, "resources");
    for entry in entries.iter().filter(|entry| !text(entry, "name").contains('/')) {
        let own = text(entry, "name");
        let subresources = entries.iter().filter_map(|sub| {
            let (of, subresource) = text(sub, "name").split_once('/')?;
            let or = |member: &str, own: &str| match text(sub, member) {
                "" => Name::from(own.to_owned()),
                said => Name::from(said.to_owned()),
            };
            (of == own).then(|| DiscoveredSubresource {
                name: Name::from(subresource.to_owned()),
                group: or("group", group),
                version: or("version", version),
                kind: name(sub, "kind"),
                verbs: verbs(sub),
            })
        });
        out.push(Discovered {
            group: Name::from(group.to_owned()),
            version: Name::from(version.to_owned()),
            plural: name(entry, "name"),
            singular: name(entry, "singularName"),
            kind: name(entry, "kind"),
            namespaced: entry.get("namespaced").and_then(Value::as_bool) == Some(true),
            short_names: names(entry, "shortNames"),
            categories: names(entry, "categories"),
            verbs: verbs(entry),
            subresources: subresources.collect(),
        });
    }
    out
}

impl Discovered {
    /// What was discovered of a resource that is in the catalogue already.
    pub fn of(resource: &Resource) -> Discovered {
        let subresource = |sub: &Subresource| DiscoveredSubresource {
            name: sub.name.clone(),
            group: sub.group.clone(),
            version: sub.version.clone(),
            kind: sub.kind.clone(),
            verbs: sub.verbs,
        };
        Discovered {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
            singular: resource.singular.clone(),
            kind: resource.kind.clone(),
            namespaced: resource.namespaced,
            short_names: resource.short_names.clone(),
            categories: resource.categories.clone(),
            verbs: resource.verbs,
            subresources: resource.subresources.iter().map(subresource).collect(),
        }
    }
}

/// The definition of a resource from its versions, the preferred one first; `None` without any. Discovery has no schemas and does
/// not tell which version is stored; a client needs neither.
pub(crate) fn definition(catalog: &Catalog, versions: &[Discovered]) -> Option<ResourceDef> {
    let first = versions.first()?;
    let types = catalog.types().clone();
    let ty = types.find("apiextensions.v1.CustomResource").unwrap_or(TypeId(0));
    let storage = Storage {
        id: StorageId(0),
        prefix: Name::from(format!("/registry/{}/{}/", first.group, first.plural)),
        group: first.group.clone(),
        version: first.version.clone(),
        earlier_versions: versions[1..].iter().map(|other| other.version.clone()).collect(),
        versions: Vec::new(),
        verified: Verified::none(),
        kind: first.kind.clone(),
        plural: first.plural.clone(),
        namespaced: first.namespaced,
        ty,
        types: types.clone(),
        unconditional_update: false,
        create_on_update: false,
        returns_deleted: false,
        selectable: Vec::new(),
        indexed: None,
        orphan_by_default: false,
        no_gc: false,
        ttl_seconds: None,
        strategy: StrategySlot::default(),
    };
    let subresource = |sub: &DiscoveredSubresource| Subresource {
        name: sub.name.clone(),
        group: sub.group.clone(),
        version: sub.version.clone(),
        kind: sub.kind.clone(),
        ty: None,
        verbs: sub.verbs,
    };
    let served = versions.iter().map(|found| {
        Arc::new(Resource {
            id: ResourceId(0),
            group: found.group.clone(),
            version: found.version.clone(),
            plural: found.plural.clone(),
            singular: found.singular.clone(),
            kind: found.kind.clone(),
            list_kind: Name::from(format!("{}List", found.kind)),
            namespaced: found.namespaced,
            short_names: found.short_names.clone(),
            categories: found.categories.clone(),
            verbs: found.verbs,
            subresources: found.subresources.iter().map(subresource).collect(),
            ty,
            types: types.clone(),
            storage: None,
            field_labels: Vec::new(),
            unknown_field: Name::EMPTY,
            custom: true,
            terminating: false,
            deprecation: None,
        })
    });
    Some(ResourceDef { storage: Some(Arc::new(storage)), served: served.collect() })
}

#[cfg(test)]
mod tests;
