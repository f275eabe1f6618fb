//! The end state of a cluster as text two runs can be compared by: without what differs by chance or by time.

use std::fmt::Write;

use serde_json::Value;
use table::{Scope, Selection};

use crate::TestCluster;

/// Not part of the state: what tells people, what only says who is alive.
const IGNORED: [&str; 2] = ["events", "leases"];

impl TestCluster {
    /// One line an object, sorted; generated names, uids, times, versions, addresses and places are left out.
    pub fn state(&self) -> String {
        let table = self.api().registry().table();
        let mut lines = Vec::new();
        for storage in table.catalog().storages() {
            if IGNORED.iter().any(|plural| storage.plural == *plural) {
                continue;
            }
            let everything = Selection::everything(Scope::All);
            let page = table.list(storage.id, &everything, None, None, 0).expect("the present is readable");
            for obj in page.items {
                let mut value: Value = serde_json::from_slice(obj.body()).expect("stored objects are JSON");
                let generated = value["metadata"]["generateName"].as_str().map(|base| format!("{base}*"));
                let name = generated.unwrap_or_else(|| obj.name().to_owned());
                blur(&mut value);
                let mut line = String::new();
                let _ = write!(line, "{} {}/{name} {value}", storage.plural, obj.namespace());
                lines.push(line);
            }
        }
        lines.sort();
        lines.join("\n")
    }

    /// The version of every resource but leases: it moves with every write.
    pub fn versions(&self) -> Vec<table::Version> {
        let table = self.api().registry().table();
        let counted = table.catalog().storages().iter().filter(|s| s.plural != "leases");
        counted.map(|s| table.version(s.id)).collect()
    }

    /// Waits until nothing but leases was written for `quiet` virtual time; panics if that never happens.
    pub async fn quiet(&self, quiet: std::time::Duration) {
        for _ in 0..2000 {
            let before = self.versions();
            self.env().sleep(quiet).await;
            if self.versions() == before {
                return;
            }
        }
        panic!("the cluster never came to rest");
    }
}

/// Takes out what differs between two runs that came to the same end.
fn blur(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| {
                let moment = name.ends_with("Time") || name.ends_with("Timestamp");
                let chance = matches!(
                    name.as_str(),
                    "uid"
                        | "resourceVersion"
                        | "generation"
                        | "observedGeneration"
                        | "podIP"
                        | "podIPs"
                        | "hostIP"
                        | "hostIPs"
                        | "containerID"
                        | "nodeName"
                        | "managedFields"
                        | "batch.kubernetes.io/controller-uid"
                        | "controller-uid"
                        | "clusterIP"
                        | "clusterIPs"
                        | "ca.crt"
                        | "addresses"
                        | "endpoints"
                );
                !moment && !chance
            });
            // A pod's name in a list of pods, a replica set's own name: only what generated it counts.
            if let Some(base) = map.get("generateName").and_then(Value::as_str).map(|base| format!("{base}*"))
                && let Some(name) = map.get_mut("name")
            {
                *name = Value::String(base);
            }
            map.values_mut().for_each(blur);
        }
        Value::Array(items) => items.iter_mut().for_each(blur),
        _ => {}
    }
}
