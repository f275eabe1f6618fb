//! Small readers of pods' trees.

use std::collections::BTreeMap;
use std::path::PathBuf;

use node::pod::Pod;
use object::Value;

use crate::config::Config;

/// The quality of service the API server wrote down, or would have: the class never changes in a pod's life.
pub fn qos_class(pod: &Value) -> &'static str {
    match pod.str_at(&["status", "qosClass"]) {
        Some("Guaranteed") => "Guaranteed",
        Some("Burstable") => "Burstable",
        Some("BestEffort") => "BestEffort",
        _ => kinds::pod::qos::class(pod),
    }
}

/// Where everything of a pod is on this machine.
pub fn pod_directory(config: &Config, uid: &str) -> PathBuf {
    config.root_directory.join("pods").join(uid)
}

pub(super) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    value.str_at(path).unwrap_or("")
}

pub(super) fn flag(value: &Value, path: &[&str]) -> Option<bool> {
    value.at(path)?.as_bool()
}

pub(super) fn int(value: &Value, path: &[&str]) -> Option<i64> {
    value.at(path)?.as_int()
}

pub(super) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    value.at(path).and_then(Value::as_list).unwrap_or_default()
}

/// What is set to something.
pub(super) fn present<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    value.at(path).filter(|found| !found.is_null())
}

pub(super) fn strings(value: &Value, path: &[&str]) -> Vec<String> {
    list(value, path).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn string_map(value: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let members = value.at(path).and_then(Value::as_map);
    let pairs = members.into_iter().flat_map(|map| map.iter());
    pairs.filter_map(|(name, value)| Some((name.as_str().to_owned(), value.as_str()?.to_owned()))).collect()
}

/// `name_namespace(uid)`, as kubelet's messages have it.
pub(super) fn described(pod: &Value) -> String {
    Pod::read(pod).described()
}
