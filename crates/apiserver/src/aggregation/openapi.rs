//! OpenAPI of other servers: asked in the background; documents of v3 are passed on, those of v2 merged into ours, and converted for servers
//! that have no v3.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use auth::UserInfo;
use bytes::Bytes;
use catalog::Name;
use codec::json;
use http::header::ETAG;
use object::{Map, Value, deep};

use super::backend::{Fetched, OwnRequest};
use super::documents::{Snapshot, SpecV2, SpecV3};
use super::routes::{ApiService, Remote, Routes};
use crate::api::Api;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Of one document.
const MAX_BYTES: usize = 16 << 20;
/// Documents of v3 of one server.
const MAX_DOCUMENTS: usize = 1000;
/// The length of their names.
const MAX_NAME: usize = 1000;

/// The parts of a document of v2 that others refer to, and the one that begins it all.
const NAMED: [&str; 2] = ["definitions", "parameters"];
const PATHS: &str = "paths";

pub(crate) const V2: &str = "/openapi/v2";
pub(crate) const V3: &str = "/openapi/v3";

/// What a server answered.
pub(crate) enum Download {
    Document {
        document: Value,
        tag: String,
    },
    /// What is known by the entity tag that was sent.
    Unchanged,
    /// It has none, which is no error.
    None,
}

impl Download {
    pub async fn v2(api: &Api, remote: &Remote, tag: Option<&str>) -> Result<Download, String> {
        let answer = get(api, remote, V2, tag).await?;
        match answer.status.as_u16() {
            404 | 406 => Ok(Download::None),
            _ => Download::of(&answer, tag, "failed to retrieve openAPI spec, http error"),
        }
    }

    pub async fn v3_index(api: &Api, remote: &Remote, tag: Option<&str>) -> Result<Download, String> {
        let answer = get(api, remote, V3, tag).await?;
        match answer.status.as_u16() {
            404 => Ok(Download::None),
            _ => Download::of(&answer, tag, "could not get list of group versions for APIService"),
        }
    }

    fn of(answer: &Fetched, asked: Option<&str>, failed: &str) -> Result<Download, String> {
        match answer.status.as_u16() {
            200 => {
                let document = json::parse(&answer.body, None).map_err(|error| error.to_string())?;
                Ok(Download::Document { document, tag: answer.header(ETAG).to_owned() })
            }
            304 if asked.is_some() => Ok(Download::Unchanged),
            code => Err(format!("{failed}: {code}")),
        }
    }
}

async fn get(api: &Api, remote: &Remote, path: &str, tag: Option<&str>) -> Result<Fetched, String> {
    let user = UserInfo::new("system:aggregator", &[]);
    let request = OwnRequest {
        timeout: TIMEOUT,
        max_bytes: MAX_BYTES,
        ..OwnRequest::check(path, "application/json", &user)
    };
    request.unless_it_has(tag).send(api, remote).await
}

/// What a server's document of v2 says of a group version.
pub(crate) fn spec_v2(service: &ApiService, document: &Value) -> SpecV2 {
    let root = service.root();
    SpecV2 { document: only_group_version(document, &root), root }
}

/// What its index says it has of v3.
pub(crate) fn spec_v3(service: &ApiService, index: &Value) -> SpecV3 {
    SpecV3 { root: service.root(), hashes: index_entries(index), converted: None }
}

/// A document of v2 as one of v3.
pub(crate) fn convert(document: &Value) -> Bytes {
    json::to_vec(&openapi::v3_of_v2(document)).into()
}

/// The same of a server that has only v2: one document, made from that.
pub(crate) fn spec_v3_of_v2(service: &ApiService, document: &Bytes) -> SpecV3 {
    let root = service.root();
    let name = root.trim_start_matches('/').to_owned();
    let hashes = BTreeMap::from([(name, openapi::fingerprint(document))]);
    SpecV3 { root, hashes, converted: Some(document.clone()) }
}

/// Names of documents, with their hashes.
fn index_entries(index: &Value) -> BTreeMap<String, String> {
    let paths = index.get("paths").and_then(Value::as_map);
    let hash = |entry: &Value| {
        let url = entry.str_at(&["serverRelativeURL"]).unwrap_or("");
        url.split_once("?hash=").map(|(_, hash)| hash.to_owned()).unwrap_or_default()
    };
    let all = paths.into_iter().flat_map(Map::iter).filter(|(name, _)| name.len() <= MAX_NAME);
    all.take(MAX_DOCUMENTS).map(|(name, entry)| (name.to_string(), hash(entry))).collect()
}

/// The other server a document of v3 comes from, as the index has it: that of its group version, else any that has it and we have not.
pub(crate) fn owner<'r>(
    routes: &'r Routes,
    specs: &Snapshot<SpecV3>,
    name: &str,
    is_ours: impl FnOnce() -> bool,
) -> Option<&'r Arc<ApiService>> {
    let known = |service: &Arc<ApiService>| {
        let spec = specs.of.get(&service.name).filter(|spec| spec.hashes.contains_key(name))?;
        Some(spec.converted.is_some())
    };
    let path = format!("/{name}");
    let of_group_version = routes.find(&path).filter(|service| service.root() == path);
    if let Some(service) = of_group_version
        && let Some(converted) = known(service)
    {
        return (!converted).then_some(service);
    }
    if is_ours() {
        return None;
    }
    routes.remotes().find(|service| known(service) == Some(false))
}

/// The document of v3 of a server that has only v2, with its hash.
pub(crate) fn converted<'s>(
    routes: &Routes,
    specs: &'s Snapshot<SpecV3>,
    name: &str,
) -> Option<(&'s str, &'s Bytes)> {
    let (group, version) = name.strip_prefix("apis/")?.split_once('/')?;
    let spec = specs.of.get(&routes.remote(group, version)?.name)?;
    Some((spec.hashes.get(name)?, spec.converted.as_ref()?))
}

/// Adds other servers' documents to the index of ours.
pub(crate) fn merge_index(specs: &Snapshot<SpecV3>, index: &mut BTreeMap<String, String>) {
    for spec in specs.of.values() {
        for (name, hash) in &spec.hashes {
            if format!("/{name}") == spec.root || !index.contains_key(name) {
                index.insert(name.clone(), hash.clone());
            }
        }
    }
}

/// The paths below `root`, and what they refer to.
fn only_group_version(document: &Value, root: &str) -> Value {
    let mut out = Map::default();
    let paths = document.get("paths").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let own = paths.filter(|(path, _)| is_below(path, root));
    let paths: Map = own.map(|(path, item)| (path.clone(), item.clone())).collect();
    let mut wanted = BTreeSet::new();
    paths.iter().for_each(|(_, item)| references(item, &mut wanted));
    let known = NAMED.map(|kind| {
        let all = document.get(kind).and_then(Value::as_map).into_iter().flat_map(Map::iter);
        (kind, all.map(|(name, value)| (name.as_str(), value)).collect::<HashMap<_, _>>())
    });
    let of = |kind: &str, name: &str| {
        let (_, all) = known.iter().find(|(known, _)| *known == kind)?;
        all.get(name).copied()
    };
    let mut open: Vec<String> = wanted.iter().cloned().collect();
    while let Some(reference) = open.pop() {
        let Some((kind, name)) = split(&reference) else { continue };
        let mut more = BTreeSet::new();
        of(kind, name).into_iter().for_each(|value| references(value, &mut more));
        open.extend(more.iter().filter(|reference| !wanted.contains(*reference)).cloned());
        wanted.extend(more);
    }
    for kind in NAMED {
        let mut all = Map::default();
        for reference in &wanted {
            if let Some((_, name)) = split(reference).filter(|(of, _)| *of == kind)
                && let Some(value) = of(kind, name)
            {
                all.push(name.to_owned().into(), value.clone());
            }
        }
        out.set(kind, all);
    }
    out.set("paths", paths);
    Value::Map(out)
}

/// `#/definitions/x` to its kind and name.
fn split(reference: &str) -> Option<(&str, &str)> {
    reference.strip_prefix("#/")?.split_once('/')
}

fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Map(map) => {
            for (name, value) in map.iter() {
                match value.as_str().filter(|_| *name == *"$ref") {
                    Some(reference) => _ = into.insert(reference.to_owned()),
                    None => deep(|| references(value, into)),
                }
            }
        }
        Value::List(items) => items.iter().for_each(|item| deep(|| references(item, into))),
        _ => {}
    }
}

fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Map(map) => {
            for (name, value) in map.iter_mut() {
                match value.as_str().filter(|_| *name == *"$ref").and_then(|reference| names.get(reference)) {
                    Some(renamed) => *value = Value::from(renamed.clone()),
                    None => deep(|| rename(value, names)),
                }
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| deep(|| rename(item, names))),
        _ => {}
    }
}

fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The parts of a document of v2 that several servers have a share in, by name: each may have very many.
struct Merged {
    named: [(&'static str, BTreeMap<Name, Value>); 2],
    paths: BTreeMap<Name, Value>,
}

/// Ours with the paths and definitions of others, in the order of their names. What has the name of another thing gets another name.
pub(crate) fn merge_v2(ours: &[u8], specs: &Snapshot<SpecV2>) -> Value {
    let mut document = json::parse(ours, None).unwrap_or(Value::Null);
    let mut merged = Merged::take(&mut document);
    for spec in specs.of.values() {
        // Of a group version that is served elsewhere ours is not told.
        merged.paths.retain(|path, _| !is_below(path, &spec.root));
        merged.add(spec.document.clone());
    }
    for (kind, all) in merged.named.into_iter().chain([(PATHS, merged.paths)]) {
        document.make_map().set(kind, all.into_iter().collect::<Map>());
    }
    document
}

impl Merged {
    fn take(document: &mut Value) -> Merged {
        let mut of = |kind| std::mem::take(document.map_at(&[kind])).into_iter().collect();
        Merged { named: NAMED.map(|kind| (kind, of(kind))), paths: of(PATHS) }
    }

    fn add(&mut self, mut spec: Value) {
        let mut renamed = BTreeMap::new();
        for (kind, ours) in &self.named {
            let theirs = spec.get(kind).and_then(Value::as_map).into_iter().flat_map(Map::iter);
            let theirs: BTreeMap<&str, &Value> = theirs.map(|(name, value)| (name.as_str(), value)).collect();
            for (name, value) in &theirs {
                // Everybody's types are the same, however each describes them.
                let same = |ours: &Value| name.starts_with("io.k8s.apimachinery.") || ours == *value;
                if ours.get(*name).is_none_or(same) {
                    continue;
                }
                // What another server has brought already under that name is used again.
                let fits = |other: &String| match ours.get(other.as_str()) {
                    Some(known) => known == *value,
                    None => !theirs.contains_key(other.as_str()),
                };
                let other = (2..).map(|n| format!("{name}_v{n}")).find(fits);
                renamed.extend(other.map(|other| (format!("#/{kind}/{name}"), format!("#/{kind}/{other}"))));
            }
        }
        rename(&mut spec, &renamed);
        let Value::Map(spec) = spec else { return };
        for (kind, theirs) in spec {
            let Value::Map(theirs) = theirs else { continue };
            let ours = match self.named.iter_mut().find(|(named, _)| *kind == **named) {
                Some((_, ours)) => ours,
                None if *kind == *PATHS => &mut self.paths,
                None => continue,
            };
            for (name, value) in theirs {
                let other = renamed.get(&format!("#/{kind}/{name}")).and_then(|other| split(other));
                let name = other.map_or(name, |(_, other)| other.to_owned().into());
                ours.entry(name).or_insert(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), None).unwrap()
    }

    #[test]
    fn only_the_group_versions_own_is_kept_of_a_document() {
        let document = parse(
            r##"{"paths":{"/apis/x.io/v1/":{"get":{"$ref":"#/definitions/a"}},"/apis/x.io/v11/":{},"/version":{}},
            "definitions":{"a":{"items":{"$ref":"#/definitions/b"}},"b":{"$ref":"#/definitions/a"},"c":{}}}"##,
        );
        let kept = only_group_version(&document, "/apis/x.io/v1");
        let names = |kind: &str| -> Vec<String> {
            kept.get(kind).and_then(Value::as_map).unwrap().iter().map(|(name, _)| name.to_string()).collect()
        };
        assert_eq!(
            (names("paths"), names("definitions")),
            (vec!["/apis/x.io/v1/".to_owned()], vec!["a".to_owned(), "b".to_owned()])
        );
    }

    fn spec(document: &str) -> Arc<SpecV2> {
        Arc::new(SpecV2 { root: "/apis/x.io/v1".to_owned(), document: parse(document) })
    }

    #[test]
    fn a_definition_of_another_content_gets_another_name() {
        let ours = r#"{"paths":{"/a":{}},"definitions":{"t":{"type":"string"},"same":{"type":"object"}}}"#;
        let theirs = |path: &str| {
            spec(&format!(
                r##"{{"paths":{{"{path}":{{"x":{{"$ref":"#/definitions/t"}},"y":{{"$ref":"#/definitions/same"}},
                "z":{{"$ref":"#/definitions/t_v2"}}}}}},
                "definitions":{{"t":{{"type":"integer"}},"t_v2":{{"type":"boolean"}},"same":{{"type":"object"}}}}}}"##
            ))
        };
        let of = [("a", theirs("/b")), ("b", theirs("/c"))].map(|(name, spec)| (name.to_owned(), spec));
        let merged = merge_v2(ours.as_bytes(), &Snapshot { generation: 1, of: of.into() });
        for path in ["/b", "/c"] {
            let refers = |name: &str| merged.at(&["paths", path, name]).and_then(|at| at.str_at(&["$ref"]));
            let found = ["x", "y", "z"].map(|name| refers(name).unwrap());
            assert_eq!(found, ["#/definitions/t_v3", "#/definitions/same", "#/definitions/t_v2"]);
        }
        let definitions = merged.get("definitions").and_then(Value::as_map).unwrap();
        let types: Vec<String> = definitions
            .iter()
            .map(|(name, definition)| format!("{name} {}", definition.str_at(&["type"]).unwrap()))
            .collect();
        assert_eq!(types, ["same object", "t string", "t_v2 boolean", "t_v3 integer"]);
    }

    #[test]
    fn each_of_many_definitions_keeps_its_path() {
        const MANY: usize = 20_000;
        let paths = (0..MANY).map(|n| format!(r##""/apis/x.io/v1/{n}":{{"$ref":"#/definitions/d{n}"}}"##));
        let definitions = |of: &str| {
            (0..MANY).map(|n| format!(r#""d{n}":{{"type":"{of}"}}"#)).collect::<Vec<_>>().join(",")
        };
        let theirs = format!(
            r#"{{"paths":{{{}}},"definitions":{{{}}}}}"#,
            paths.collect::<Vec<_>>().join(","),
            definitions("string")
        );
        let ours = format!(r#"{{"definitions":{{{}}}}}"#, definitions("integer"));
        let kept = only_group_version(&parse(&theirs), "/apis/x.io/v1");
        let spec = Arc::new(SpecV2 { root: "/apis/x.io/v1".to_owned(), document: kept });
        let of = BTreeMap::from([("a".to_owned(), spec)]);
        let merged = merge_v2(ours.as_bytes(), &Snapshot { generation: 1, of });
        assert_eq!(merged.get("definitions").and_then(Value::as_map).map(Map::len), Some(2 * MANY));
        for n in 0..MANY {
            let refers = merged.at(&["paths", &format!("/apis/x.io/v1/{n}")]);
            let refers = refers.and_then(|at| at.str_at(&["$ref"]));
            assert_eq!(refers, Some(&*format!("#/definitions/d{n}_v2")));
        }
    }

    #[test]
    fn a_document_is_ours_unless_its_group_version_is_served_elsewhere() {
        let env = env::Env::simulated(1);
        let mut routes = Routes::default();
        for (group, version) in [("x.io", "v1"), ("y.io", "v1"), ("apps", "v1")] {
            let object = parse(&format!(
                r#"{{"metadata":{{"name":"{version}.{group}"}},"spec":{{"group":"{group}","version":"{version}",
                "service":{{"namespace":"a","name":"b"}},"insecureSkipTLSVerify":true}}}}"#
            ));
            routes.set(ApiService::of(&object, None, &env, None));
        }
        let names = ["apis", "apis/x.io", "apis/x.io/v1", "apis/y.io/v1", "api/v1", "apis/apps/v1"];
        let spec = |root: &str, converted: Option<&'static [u8]>| {
            let names: &[&str] = if converted.is_some() { &names[3..4] } else { &names };
            let hashes = names.iter().map(|name| ((*name).to_owned(), "AB".to_owned())).collect();
            Arc::new(SpecV3 { root: root.to_owned(), hashes, converted: converted.map(Bytes::from_static) })
        };
        let of = [
            ("v1.x.io", spec("/apis/x.io/v1", None)),
            ("v1.y.io", spec("/apis/y.io/v1", Some(b"{}"))),
            ("v1.apps", spec("/apis/apps/v1", None)),
        ];
        let of = of.map(|(name, spec)| (name.to_owned(), spec)).into();
        let specs = Snapshot { generation: 1, of };
        let ours = ["api", "apis", "version", "api/v1", "apis/apps", "apis/apps/v1"];
        let owner = |name: &str| {
            let found = owner(&routes, &specs, name, || ours.contains(&name));
            found.map_or("", |service| &*service.name).to_owned()
        };
        let expected = ["", "v1.apps", "v1.x.io", "", "", "v1.apps"];
        assert_eq!(names.map(owner), expected.map(str::to_owned));
        assert_eq!(owner("apis/z.io"), "");
    }

    #[test]
    fn hashes_are_read_from_the_index() {
        let index =
            parse(r#"{"paths":{"apis/x.io/v1":{"serverRelativeURL":"/openapi/v3/apis/x.io/v1?hash=AB"}}}"#);
        assert_eq!(index_entries(&index)["apis/x.io/v1"], "AB");
    }
}
