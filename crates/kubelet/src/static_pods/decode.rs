//! A file, or what a URL answers, as a pod of this node: canonical, with its defaults, valid, and named after the node.

use std::path::Path;

use catalog::Catalog;
use kinds::Context;
use node::static_pods::{HASH, SEEN, SOURCE};
use object::normalise::{Strict, normalise_decoded, normalise_written};
use object::{Map, Value, quote, time};

use super::{FILE_SOURCE, URL_SOURCE};
use crate::generate::qos_class;

/// No file is read beyond that.
pub const MOST_BYTES: u64 = 10 << 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("couldn't parse as pod({0}), please check config file")]
    NotAPod(String),
    #[error("invalid pod: {0}")]
    Invalid(String),
    #[error("static pods may not reference {0}")]
    Refers(&'static str),
}

/// Where a pod was read.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    File(&'a Path),
    Url(&'a str),
}

/// The pod of a file, as it would be read from the API if it had been created there.
pub fn decode(
    catalog: &Catalog,
    bytes: &[u8],
    node: &str,
    file: &Path,
    now_nanos: u128,
) -> Result<Value, DecodeError> {
    let pod = document(bytes)?;
    decode_pod(catalog, pod, node, Origin::File(file), now_nanos)
}

/// One pod, or all pods of a list.
pub fn decode_all(
    catalog: &Catalog,
    bytes: &[u8],
    node: &str,
    origin: Origin<'_>,
    now_nanos: u128,
) -> Result<Vec<Value>, DecodeError> {
    let mut given = document(bytes)?;
    if (given.str_at(&["apiVersion"]), given.str_at(&["kind"])) != (Some("v1"), Some("PodList")) {
        return Ok(vec![decode_pod(catalog, given, node, origin, now_nanos)?]);
    }
    let items = match given.make_map().remove("items") {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    };
    let decoded = items.into_iter().map(|mut pod| {
        if let Some(pod) = pod.as_map_mut() {
            pod.set("apiVersion", "v1");
            pod.set("kind", "Pod");
        }
        decode_pod(catalog, pod, node, origin, now_nanos)
    });
    decoded.collect()
}

fn document(bytes: &[u8]) -> Result<Value, DecodeError> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err(DecodeError::NotAPod(format!("it is larger than {MOST_BYTES} bytes")));
    }
    let parsed = codec::yaml::parse_document(bytes);
    parsed.map(|document| document.value).map_err(|error| DecodeError::NotAPod(error.to_string()))
}

fn decode_pod(
    catalog: &Catalog,
    mut pod: Value,
    node: &str,
    origin: Origin<'_>,
    now_nanos: u128,
) -> Result<Value, DecodeError> {
    let not_a_pod = |why: String| DecodeError::NotAPod(why);
    let said = |name: &str| pod.str_at(&[name]).unwrap_or("");
    if (said("apiVersion"), said("kind")) != ("v1", "Pod") {
        return Err(not_a_pod(format!(
            "no kind {} is registered for version {} as a pod",
            quote(said("kind")),
            quote(said("apiVersion"))
        )));
    }
    let storage = catalog.find_storage("", "pods").expect("pods are in the catalogue");
    let kind = kinds::kind_of(storage);
    let schema = storage.schema();
    normalise_decoded(schema, storage.ty, &mut pod, &mut Strict::off())
        .map_err(|error| not_a_pod(error.to_string()))?;
    kinds::defaults::apply(kind, "v1", &mut pod);
    kinds::drop_disabled(kind, &mut pod, None);
    let named = pod.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
    if named.is_empty() {
        return Err(DecodeError::Invalid("name is needed for the pod".to_owned()));
    }
    adopt(&mut pod, &named, node, origin, now_nanos);
    normalise_written(schema, storage.ty, &mut pod).map_err(|error| not_a_pod(error.to_string()))?;
    let now = i64::try_from(now_nanos / 1_000_000_000).unwrap_or(i64::MAX);
    let errors = kinds::validate_create(kind, storage, &pod, &Context::plain(storage, now));
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Err(DecodeError::Invalid(format!("[{}]", errors.join(" "))));
    }
    match kinds::pod::api_reference(&pod) {
        Ok(None) => Ok(pod),
        Ok(Some(what)) => Err(DecodeError::Refers(what)),
        Err(why) => Err(DecodeError::Invalid(why)),
    }
}

/// Makes it this node's.
fn adopt(pod: &mut Value, name: &str, node: &str, origin: Origin<'_>, now_nanos: u128) {
    let given = pod.str_at(&["metadata", "uid"]).filter(|uid| !uid.is_empty()).map(str::to_owned);
    let uid = given.unwrap_or_else(|| {
        let whence = match origin {
            Origin::File(file) => format!("host:{node}file:{}", file.display()),
            Origin::Url(url) => format!("url:{url}"),
        };
        format!("{:032x}", digest(&[&codec::json::to_vec(pod), whence.as_bytes()]))
    });
    let metadata = pod.map_at(&["metadata"]);
    metadata.set("name", format!("{name}-{}", node.to_lowercase()));
    metadata.set("uid", &*uid);
    if metadata.get("namespace").and_then(Value::as_str).unwrap_or("").is_empty() {
        metadata.set("namespace", "default");
    }
    for name in ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "generation"] {
        metadata.remove(name);
    }
    let (seconds, nanos) = ((now_nanos / 1_000_000_000) as i64, now_nanos % 1_000_000_000);
    let seen = time::format_seconds(seconds);
    let seen = format!("{}.{nanos:09}Z", seen.trim_end_matches('Z'));
    let annotations = pod.map_at(&["metadata", "annotations"]);
    annotations.set(HASH, uid);
    annotations.set(SEEN, seen);
    let source = match origin {
        Origin::File(_) => FILE_SOURCE,
        Origin::Url(_) => URL_SOURCE,
    };
    annotations.set(SOURCE, source);
    pod.map_at(&["spec"]).set("nodeName", node);
    if matches!(origin, Origin::File(_)) {
        tolerate_everything(pod.map_at(&["spec"]));
    }
    let mut status = Map::with_capacity(2);
    status.set("phase", "Pending");
    status.set("qosClass", qos_class(pod));
    pod.make_map().set("status", status);
}

/// Nothing that befalls the node drives the pod away.
fn tolerate_everything(spec: &mut Map) {
    let mut toleration = Map::with_capacity(2);
    toleration.set("effect", "NoExecute");
    toleration.set("operator", "Exists");
    let mut all = spec.get("tolerations").and_then(Value::as_list).unwrap_or_default().to_vec();
    // One for the same taints is replaced, as upstream's helper does.
    let text = |one: &Value, name: &str| one.str_at(&[name]).unwrap_or("").to_owned();
    let same = |one: &Value| {
        text(one, "key").is_empty()
            && text(one, "effect") == "NoExecute"
            && text(one, "operator") == "Exists"
            && text(one, "value").is_empty()
    };
    match all.iter().position(same) {
        Some(at) => all[at] = Value::Map(toleration),
        None => all.push(Value::Map(toleration)),
    }
    spec.set("tolerations", Value::List(all));
}

/// FNV-1a of all parts, one after the other.
pub fn digest(parts: &[&[u8]]) -> u128 {
    parts.iter().copied().flatten().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
