//! OpenAPI of other servers: asked in the background; documents of v3 are passed on, those of v2 merged into ours, and converted for servers
//! that have no v3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use auth::UserInfo;
use bytes::Bytes;
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
        ..OwnRequest::get(path, "application/json", &user)
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

/// The server a document of v3 comes from: that of its group version, else any that has it and we have not.
pub(crate) fn owner<'r>(
    routes: &'r Routes,
    specs: &Snapshot<SpecV3>,
    name: &str,
) -> Option<&'r std::sync::Arc<ApiService>> {
    let of_group_version = || {
        let (group, version) = name.strip_prefix("apis/")?.split_once('/')?;
        routes.remote(group, version)
    };
    let describes = |service: &&std::sync::Arc<ApiService>| {
        let known = specs.of.get(&service.name);
        known.is_some_and(|spec| spec.converted.is_none() && spec.hashes.contains_key(name))
    };
    of_group_version().filter(describes).or_else(|| routes.remotes().find(describes))
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
    let of = |kind: &str, name: &str| document.at(&[kind, name]);
    let mut open: Vec<String> = wanted.iter().cloned().collect();
    while let Some(reference) = open.pop() {
        let Some((kind, name)) = split(&reference) else { continue };
        let mut more = BTreeSet::new();
        of(kind, name).into_iter().for_each(|value| references(value, &mut more));
        open.extend(more.iter().filter(|reference| !wanted.contains(*reference)).cloned());
        wanted.extend(more);
    }
    for kind in ["definitions", "parameters"] {
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

/// Ours with the paths and definitions of others, in the order of their names. What has the name of another thing gets another name.
pub(crate) fn merge_v2(ours: &[u8], specs: &Snapshot<SpecV2>) -> Value {
    let mut document = json::parse(ours, None).unwrap_or(Value::Null);
    for spec in specs.of.values() {
        // Of a group version that is served elsewhere ours is not told.
        document.map_at(&["paths"]).retain(|path, _| !is_below(path, &spec.root));
        merge_one(&mut document, spec.document.clone());
    }
    for kind in ["definitions", "parameters", "paths"] {
        document.map_at(&[kind]).entries_mut().sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    document
}

fn merge_one(document: &mut Value, mut spec: Value) {
    let mut names = BTreeMap::new();
    for kind in ["definitions", "parameters"] {
        let theirs = spec.get(kind).and_then(Value::as_map);
        for (name, value) in theirs.into_iter().flat_map(Map::iter) {
            let ours = document.at(&[kind, name]);
            // Everybody's types are the same, however each describes them.
            let same = |ours: &Value| name.starts_with("io.k8s.apimachinery.") || ours == value;
            if ours.is_none_or(same) {
                continue;
            }
            let free =
                (2..).map(|n| format!("{name}_v{n}")).find(|free| document.at(&[kind, free]).is_none());
            names.extend(free.map(|free| (format!("#/{kind}/{name}"), format!("#/{kind}/{free}"))));
        }
    }
    rename(&mut spec, &names);
    for kind in ["definitions", "parameters", "paths"] {
        let Some(theirs) = spec.as_map_mut().and_then(|map| map.remove(kind)) else { continue };
        let Value::Map(theirs) = theirs else { continue };
        let ours = document.map_at(&[kind]);
        for (name, value) in theirs {
            let renamed =
                names.get(&format!("#/{kind}/{name}")).and_then(|new| split(new)).map(|(_, new)| new);
            match renamed {
                Some(renamed) => ours.push(renamed.to_owned().into(), value),
                None if ours.contains(&name) => {}
                None => ours.push(name, value),
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

    #[test]
    fn a_definition_of_another_content_gets_another_name() {
        let mut ours =
            parse(r#"{"paths":{"/a":{}},"definitions":{"t":{"type":"string"},"same":{"type":"object"}}}"#);
        let theirs = parse(
            r##"{"paths":{"/b":{"x":{"$ref":"#/definitions/t"},"y":{"$ref":"#/definitions/same"}}},
            "definitions":{"t":{"type":"integer"},"same":{"type":"object"}}}"##,
        );
        merge_one(&mut ours, theirs);
        assert_eq!(
            ours.at(&["paths", "/b", "x"]).and_then(|x| x.str_at(&["$ref"])),
            Some("#/definitions/t_v2")
        );
        assert_eq!(
            ours.at(&["paths", "/b", "y"]).and_then(|x| x.str_at(&["$ref"])),
            Some("#/definitions/same")
        );
        assert_eq!(ours.str_at(&["definitions", "t_v2", "type"]), Some("integer"));
        assert_eq!(ours.str_at(&["definitions", "t", "type"]), Some("string"));
    }

    #[test]
    fn hashes_are_read_from_the_index() {
        let index =
            parse(r#"{"paths":{"apis/x.io/v1":{"serverRelativeURL":"/openapi/v3/apis/x.io/v1?hash=AB"}}}"#);
        assert_eq!(index_entries(&index)["apis/x.io/v1"], "AB");
    }
}
