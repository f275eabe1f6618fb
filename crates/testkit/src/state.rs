//! The final state of a cluster as text, to compare two runs: without what differs by chance or time.

use std::fmt::Write;

use serde_json::Value;
use table::{Scope, Selection};

use crate::TestCluster;

/// Not part of the state: Events and Leases.
const IGNORED: [&str; 2] = ["events", "leases"];
/// Named after a randomly chosen address.
const DRAWN: &str = "ipaddresses";

impl TestCluster {
    /// One line an object, sorted. Of generated names, uids, times, versions, addresses and places only that they are there;
    /// of generations what they are, and whether the last one was observed.
    pub fn state(&self) -> String {
        let table = self.api().registry().table();
        let mut lines = Vec::new();
        for storage in table.catalog().storages() {
            if storage.plural == DRAWN || IGNORED.iter().any(|plural| storage.plural == *plural) {
                continue;
            }
            let everything = Selection::everything(Scope::All);
            let page = table.list(storage.id, &everything, None, None, 0).expect("the present is readable");
            for obj in page.items {
                let mut value: Value = serde_json::from_slice(obj.body()).expect("stored objects are JSON");
                let generated = value["metadata"]["generateName"].as_str().map(|base| format!("{base}*"));
                let name = generated.unwrap_or_else(|| obj.name().to_owned());
                generations(&storage.plural, &mut value);
                blur(&mut value);
                let mut line = String::new();
                let _ = write!(line, "{} {}/{name} {value}", storage.plural, obj.namespace());
                lines.push(line);
            }
        }
        lines.sort();
        lines.join("\n")
    }

    /// The version of every resource but those named: it moves with every write.
    pub fn versions(&self, without: &[&str]) -> Vec<(String, table::Version)> {
        let table = self.api().registry().table();
        let catalog = table.catalog();
        let counted = catalog.storages().iter().filter(|s| !without.iter().any(|name| s.plural == *name));
        counted.map(|s| (s.plural.to_string(), table.version(s.id))).collect()
    }

    /// Waits until nothing but leases and events was written for `quiet` virtual time; panics if that never happens.
    pub async fn quiet(&self, quiet: std::time::Duration) {
        let mut moved = Vec::new();
        for _ in 0..200 {
            let before = self.versions(&IGNORED);
            self.env().sleep(quiet).await;
            let after = self.versions(&IGNORED);
            if after == before {
                return;
            }
            moved = after.into_iter().zip(before).filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
        }
        panic!("the cluster never came to rest: {moved:?} were still written");
    }
}

/// How often controllers change the specs of these on the way depends on when they look.
const WRITTEN_BY_LOOPS: [&str; 2] = ["replicasets", "endpointslices"];

/// What was observed, in words: `current` is of the present generation.
fn generations(plural: &str, value: &mut Value) {
    let now = value["metadata"]["generation"].clone();
    if WRITTEN_BY_LOOPS.contains(&plural) {
        value["metadata"]["generation"] = Value::from("*");
    }
    if let Some(status) = value.get_mut("status") {
        observed(&now, status);
    }
}

fn observed(now: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if name == "observedGeneration" {
                    *value = Value::from(if value == now { "current" } else { "old" });
                } else {
                    observed(now, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| observed(now, item)),
        _ => {}
    }
}

/// Differ between two runs that came to the same end; that they are there does not.
const CHANCE: [&str; 14] = [
    "certificate",
    "request",
    "uid",
    "zone",
    "resourceVersion",
    "containerID",
    "nodeName",
    "podCIDR",
    "podCIDRs",
    "nominatedNodeName",
    "batch.kubernetes.io/controller-uid",
    "controller-uid",
    "kubernetes.io/service-account.uid",
    "token",
];

/// Blurs what differs between two runs that came to the same end.
fn blur(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // The time of what made an object change: there or not, depending on what changed it last.
            // Who wrote a field depends on it, too.
            // An autoscaler that died between the scale and its status does not know when it scaled, here as upstream.
            let by_chance = ["managedFields", "lastScaleTime"];
            map.retain(|name, _| !name.ends_with("-time") && !by_chance.contains(&name.as_str()));
            for (name, value) in map.iter_mut() {
                let moment = name.ends_with("Time") || name.ends_with("Timestamp") || name.ends_with("edAt");
                if !value.is_null() && (moment || CHANCE.contains(&name.as_str())) {
                    *value = Value::from("*");
                }
                // Whose address it is: a pod whose name was generated.
                if name == "targetRef"
                    && let Some((base, _)) = value["name"].as_str().and_then(|name| name.rsplit_once('-'))
                {
                    value["name"] = Value::from(format!("{base}-*"));
                }
            }
            // A pod's name in a list of pods, a replica set's own name: only what generated it counts.
            if let Some(base) = map.get("generateName").and_then(Value::as_str).map(|base| format!("{base}*"))
                && let Some(name) = map.get_mut("name")
            {
                *name = Value::String(base);
            }
            map.values_mut().for_each(blur);
            map.retain(|name, value| {
                name != "annotations" || value.as_object().is_none_or(|map| !map.is_empty())
            });
        }
        Value::Array(items) => {
            items.iter_mut().for_each(blur);
            // Said and taken back: who was chosen to make room, and then another was.
            items.retain(|item| item["type"] != "DisruptionTarget" || item["status"] != "False");
            // Conditions stand in the order they came.
            if items.iter().all(|item| item["type"].is_string() && item["status"].is_string()) {
                items.sort_by_key(|item| item["type"].to_string());
            }
        }
        // The volume of a pod's token, and its mount.
        Value::String(text) if text.starts_with("kube-api-access-") => "kube-api-access-*".clone_into(text),
        Value::String(text) if text.strip_prefix("zone-").is_some_and(|n| n.parse::<u8>().is_ok()) => {
            "a zone".clone_into(text);
        }
        // Which one is chance; how many there are is not.
        Value::String(text) if text.parse::<std::net::IpAddr>().is_ok() => "an address".clone_into(text),
        _ => {}
    }
}
