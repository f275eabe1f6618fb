//! OpenAPI of other servers: asked in the background; documents of v3 are passed on, those of v2 merged into ours, and converted for servers
//! that have no v3.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use auth::UserInfo;
use bytes::Bytes;
use codec::json;
use object::{Map, Value, deep};

use super::backend::OwnRequest;
use super::documents::{Spec, Specs};
use super::routes::{ApiService, Remote, Routes};
use crate::api::Api;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Of one document.
const MAX_BYTES: usize = 16 << 20;
/// Documents of v3 of one server, and the length of their names.
const MAX_DOCUMENTS: usize = 1000;

/// What a server describes of a group version; a server that describes nothing is no error.
pub(crate) async fn fetch(api: &Api, service: &ApiService, remote: &Remote) -> Result<Spec, String> {
    let user = UserInfo::new("system:aggregator", &[]);
    let get = |path| OwnRequest {
        timeout: TIMEOUT,
        max_bytes: MAX_BYTES,
        ..OwnRequest::get(path, "application/json", &user)
    };
    let mut spec = Spec::default();
    let mut converts = false;
    let answer = get("/openapi/v3").send(api, remote).await?;
    match answer.status.as_u16() {
        200 => {
            let index = json::parse(&answer.body, None).map_err(|error| error.to_string())?;
            spec.v3 = index_entries(&index);
        }
        404 => converts = true,
        code => return Err(format!("could not get list of group versions for APIService: {code}")),
    }
    let answer = get("/openapi/v2").send(api, remote).await?;
    match answer.status.as_u16() {
        200 => {
            let document = json::parse(&answer.body, None).map_err(|error| error.to_string())?;
            if converts {
                let converted = json::to_vec(&openapi::v3_of_v2(&document));
                let name = service.root().trim_start_matches('/').to_owned();
                spec.v3.insert(name, openapi::fingerprint(&converted));
                spec.converted = Some(converted.into());
            }
            spec.v2 = Some(only_group_version(document, &service.root()));
        }
        404 | 406 => {}
        code => return Err(format!("failed to retrieve openAPI spec, http error: {code}")),
    }
    Ok(spec)
}

/// Names of documents, with their hashes.
fn index_entries(index: &Value) -> BTreeMap<String, String> {
    let paths = index.get("paths").and_then(Value::as_map);
    let hash = |entry: &Value| {
        let url = entry.str_at(&["serverRelativeURL"]).unwrap_or("");
        url.split_once("?hash=").map(|(_, hash)| hash.to_owned()).unwrap_or_default()
    };
    let all = paths.into_iter().flat_map(Map::iter).filter(|(name, _)| name.len() <= MAX_DOCUMENTS);
    all.take(MAX_DOCUMENTS).map(|(name, entry)| (name.to_string(), hash(entry))).collect()
}

/// The server a document of v3 comes from: that of its group version, else any that has it and we have not.
pub(crate) fn owner<'r>(
    routes: &'r Routes,
    specs: &Specs,
    name: &str,
) -> Option<&'r std::sync::Arc<ApiService>> {
    let of_group_version = || {
        let (group, version) = name.strip_prefix("apis/")?.split_once('/')?;
        routes.remote(group, version)
    };
    let describes = |service: &&std::sync::Arc<ApiService>| {
        let known = specs.of.get(&service.name);
        known.is_some_and(|spec| spec.converted.is_none() && spec.v3.contains_key(name))
    };
    of_group_version().filter(describes).or_else(|| routes.remotes().find(describes))
}

/// The document of v3 of a server that has only v2, with its hash.
pub(crate) fn converted<'s>(routes: &Routes, specs: &'s Specs, name: &str) -> Option<(&'s str, &'s Bytes)> {
    let (group, version) = name.strip_prefix("apis/")?.split_once('/')?;
    let spec = specs.of.get(&routes.remote(group, version)?.name)?;
    Some((spec.v3.get(name)?, spec.converted.as_ref()?))
}

/// Adds other servers' documents to the index of ours.
pub(crate) fn merge_index(routes: &Routes, specs: &Specs, index: &mut BTreeMap<String, String>) {
    for service in routes.remotes() {
        let Some(spec) = specs.of.get(&service.name) else { continue };
        let own = service.root();
        for (name, hash) in &spec.v3 {
            if format!("/{name}") == own || !index.contains_key(name) {
                index.insert(name.clone(), hash.clone());
            }
        }
    }
}

/// The paths below `root`, and what they refer to.
fn only_group_version(document: Value, root: &str) -> Value {
    let mut out = Map::default();
    let paths = document.get("paths").and_then(Value::as_map).cloned().unwrap_or_default();
    let below =
        |path: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let paths: Map = paths.into_iter().filter(|(path, _)| below(path)).collect();
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

/// Ours with the paths and definitions of others, in the order of their names. What has the name of another thing gets another name.
pub(crate) fn merge_v2(ours: &[u8], routes: &Routes, specs: &Specs) -> Value {
    let mut document = json::parse(ours, None).unwrap_or(Value::Null);
    for service in routes.remotes() {
        let Some(spec) = specs.of.get(&service.name).and_then(|spec| spec.v2.as_ref()) else { continue };
        // Of a group version that is served elsewhere ours is not told.
        let root = service.root();
        let below =
            |path: &str| path.strip_prefix(&*root).is_some_and(|r| r.is_empty() || r.starts_with('/'));
        document.map_at(&["paths"]).retain(|path, _| !below(path));
        merge_one(&mut document, spec.clone());
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
        let static_kind = kind;
        let ours = document.map_at(&[static_kind]);
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
        let kept = only_group_version(document, "/apis/x.io/v1");
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
