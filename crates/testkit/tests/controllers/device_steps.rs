//! Workloads whose pods use devices of simulated nodes, and what must be so of claims in the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use testkit::TestCluster;
use testkit::journal::Journal;

use crate::scheduling_devices::held;

pub const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";
pub const CLASS: &str = "simulated";
pub const EXTENDED_RESOURCE: &str = "example.com/device";

/// How the pods of a workload come by devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uses {
    Nothing,
    /// Each has a claim of its own.
    Template,
    /// All use the same claim.
    Shared,
    /// They ask for a resource that devices stand for.
    Extended,
}

impl Uses {
    /// A pod like this one, that uses devices. Claim and template have the workload's name.
    pub fn add_to(self, spec: &mut Value, name: &str) {
        let source = match self {
            Uses::Nothing => return,
            Uses::Extended => {
                let amounts = json!({EXTENDED_RESOURCE: "1"});
                spec["containers"][0]["resources"] = json!({"requests": amounts, "limits": amounts});
                return;
            }
            Uses::Template => "resourceClaimTemplateName",
            Uses::Shared => "resourceClaimName",
        };
        spec["resourceClaims"] = json!([{"name": "device", source: name}]);
        spec["containers"][0]["resources"] = json!({"claims": [{"name": "device"}]});
    }

    /// What has to be there beside the workload: where, and what.
    pub fn beside(self, namespace: &str, name: &str) -> Option<(String, Value)> {
        let group = format!("/apis/resource.k8s.io/v1/namespaces/{namespace}");
        let request = json!({"name": "one", "exactly": {"deviceClassName": CLASS}});
        let spec = json!({"devices": {"requests": [request]}});
        let (plural, spec) = match self {
            Uses::Nothing | Uses::Extended => return None,
            Uses::Template => ("resourceclaimtemplates", json!({"spec": spec})),
            Uses::Shared => ("resourceclaims", spec),
        };
        Some((format!("{group}/{plural}"), json!({"metadata": {"name": name}, "spec": spec})))
    }
}

/// All devices of simulated nodes.
pub async fn add_class(cluster: &TestCluster) {
    let selector = json!({"cel": {"expression": "device.driver == 'simulated.setpoint.dev'"}});
    let spec = json!({"selectors": [selector], "extendedResourceName": EXTENDED_RESOURCE});
    cluster.post(CLASSES, json!({"metadata": {"name": CLASS}, "spec": spec})).await.ok(201);
}

/// Over every state there ever was: a device belongs to one claim.
pub fn never_given_twice(journal: &Journal, run: &str) {
    let mut claims = BTreeMap::<String, Vec<(String, String)>>::new();
    let mut holders = BTreeMap::<(String, String), String>::new();
    for (key, claim) in journal.states("/registry/resourceclaims/") {
        let devices = claim.as_ref().map(held).unwrap_or_default();
        for device in claims.remove(&key).unwrap_or_default() {
            holders.remove(&device);
        }
        for device in &devices {
            let other = holders.insert(device.clone(), key.clone());
            assert!(other.is_none(), "{run}: {device:?} of {other:?} is given to {key}");
        }
        claims.insert(key, devices);
    }
}

/// Pods run where their devices are, and nothing else has devices.
pub fn devices_are_in_use(pods: &[Value], claims: &[Value], run: &str) {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let ended = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let standing: BTreeSet<String> = pods.iter().filter(|pod| !ended(pod)).map(uid).collect();
    for claim in claims {
        let consumers = claim["status"]["reservedFor"].as_array().cloned().unwrap_or_default();
        for consumer in &consumers {
            let uid = consumer["uid"].as_str().expect("a uid");
            assert!(standing.contains(uid), "{run}: reserved for nobody: {claim:#}");
        }
        let allocated = !held(claim).is_empty();
        assert_eq!(allocated, !consumers.is_empty(), "{run}: {claim:#}");
        assert_eq!(allocated, claim["metadata"].get("finalizers").is_some(), "{run}: {claim:#}");
        assert!(allocated || claim["status"].get("devices").is_none(), "{run}: {claim:#}");
        for owner in claim["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
            let uid = owner["uid"].as_str().expect("a uid");
            assert!(standing.contains(uid), "{run}: its pod needs it no more: {claim:#}");
        }
    }
    for pod in pods.iter().filter(|pod| !ended(pod)) {
        let names = claims_of(pod);
        let asks = &pod["spec"]["containers"][0]["resources"]["limits"][EXTENDED_RESOURCE];
        let wanted = pod["spec"]["resourceClaims"].as_array().map_or(0, Vec::len);
        assert_eq!(names.len(), wanted + usize::from(asks.is_string()), "{run}: {pod:#}");
        for name in names {
            let is = |claim: &&Value| {
                claim["metadata"]["name"] == *name
                    && claim["metadata"]["namespace"] == pod["metadata"]["namespace"]
            };
            let claim = claims.iter().find(is).unwrap_or_else(|| panic!("{run}: no {name} of {pod:#}"));
            let mut consumers = claim["status"]["reservedFor"].as_array().into_iter().flatten();
            assert!(consumers.any(|c| c["uid"] == pod["metadata"]["uid"]), "{run}: {pod:#} {claim:#}");
            let devices = held(claim);
            let here = |(pool, _): &(String, String)| pod["spec"]["nodeName"] == **pool;
            assert!(!devices.is_empty() && devices.iter().all(here), "{run}: {pod:#} {claim:#}");
        }
    }
}

/// The claims a pod uses, by name.
pub fn claims_of(pod: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let named = list(&pod["spec"]["resourceClaims"]);
    let made = list(&pod["status"]["resourceClaimStatuses"]);
    let extended = [pod["status"]["extendedResourceClaimStatus"].clone()];
    let all = named.iter().chain(&made).chain(&extended);
    all.filter_map(|entry| entry["resourceClaimName"].as_str().map(str::to_owned)).collect()
}
