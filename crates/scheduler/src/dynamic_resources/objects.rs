//! What the scheduler keeps of a ResourceClaim.

use std::sync::Arc;

use devices::{Allocation, NodeSelector};
use object::{Value, time};

use crate::read::{list, text};

/// Keeps a claim from being deleted while devices are allocated to it.
pub const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// Marks the claim that a scheduler made for a pod's extended resources.
pub const EXTENDED_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";

#[derive(Debug)]
pub struct ResourceClaim {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
    pub revision: u64,
    pub deleting: bool,
    /// The uid of the controller it belongs to.
    pub controller: Option<Arc<str>>,
    /// A scheduler made it for its controller's extended resources.
    pub extended: bool,
    pub finalizers: Vec<Value>,
    /// What is asked for.
    pub spec: devices::Claim,
    pub allocation: Option<Allocated>,
    pub reserved_for: Vec<Value>,
    /// The status as it is, to tell whether it changed.
    status: Option<Value>,
}

/// `status.allocation`.
#[derive(Debug)]
pub struct Allocated {
    pub devices: Arc<Allocation>,
    /// Where the devices can be used; anywhere without it.
    pub nodes: Option<NodeSelector>,
    /// In Unix seconds.
    pub since: Option<i64>,
    tree: Value,
}

impl Allocated {
    fn parse(tree: &Value) -> Allocated {
        let nodes = tree.get("nodeSelector").filter(|v| !v.is_null());
        Allocated {
            devices: Arc::new(Allocation::parse(tree)),
            nodes: nodes.map(NodeSelector::parse),
            since: time::parse(text(tree, "allocationTimestamp")).map(|(seconds, _)| seconds),
            tree: tree.clone(),
        }
    }

    pub fn tree(&self) -> &Value {
        &self.tree
    }
}

impl ResourceClaim {
    pub fn parse(tree: &Value) -> ResourceClaim {
        let (metadata, status) = (tree.get("metadata"), tree.get("status"));
        let of = |name: &str| -> Arc<str> { metadata.map_or("", |m| text(m, name)).into() };
        let mut owners = list(metadata, "ownerReferences").iter();
        let controller = owners.find(|o| o.get("controller").and_then(Value::as_bool) == Some(true));
        let annotation = metadata.and_then(|m| m.at(&["annotations", EXTENDED_ANNOTATION]));
        let allocation = status.and_then(|s| s.get("allocation")).filter(|v| !v.is_null());
        ResourceClaim {
            namespace: of("namespace"),
            name: of("name"),
            uid: of("uid"),
            revision: metadata.map_or("", |m| text(m, "resourceVersion")).parse().unwrap_or(0),
            deleting: metadata.and_then(|m| m.get("deletionTimestamp")).is_some_and(|t| !t.is_null()),
            controller: controller.map(|owner| text(owner, "uid").into()),
            extended: annotation.and_then(Value::as_str) == Some("true"),
            finalizers: list(metadata, "finalizers").to_vec(),
            spec: devices::Claim::parse(tree),
            allocation: allocation.map(Allocated::parse),
            reserved_for: list(status, "reservedFor").to_vec(),
            status: status.filter(|v| !v.is_null()).cloned(),
        }
    }

    /// For people: `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub fn is_reserved_for(&self, pod_uid: &str) -> bool {
        self.reserved_for.iter().any(|consumer| text(consumer, "uid") == pod_uid)
    }

    /// Nobody but this pod would miss its devices.
    pub fn is_idle(&self, pod_uid: &str) -> bool {
        self.reserved_for.iter().all(|consumer| text(consumer, "uid") == pod_uid)
            && self.reserved_for.len() <= 1
    }

    pub fn same_status(&self, other: &ResourceClaim) -> bool {
        self.status == other.status
    }

    /// Whether a device of it is not to be used before its driver says so.
    pub fn has_binding_conditions(&self) -> bool {
        let results = self.allocation.iter().flat_map(|a| &a.devices.results);
        results.into_iter().any(|result| !result.binding_conditions.is_empty())
    }

    /// Whether all its devices may be used; `Err`: one never will be, and why.
    pub fn is_ready(&self) -> Result<bool, String> {
        let Some(allocation) = &self.allocation else { return Ok(false) };
        for result in &allocation.devices.results {
            if result.binding_conditions.is_empty() {
                continue;
            }
            let said = list(self.status.as_ref(), "devices").iter().find(|device| {
                text(device, "driver") == &*result.device.driver
                    && text(device, "pool") == &*result.device.pool
                    && text(device, "device") == &*result.device.device
            });
            let Some(said) = said else { return Ok(false) };
            let is_true = |kind: &str| {
                let mut conditions = list(Some(said), "conditions").iter();
                conditions.find(|c| text(c, "type") == kind).filter(|c| text(c, "status") == "True")
            };
            if let Some(failed) = result.binding_failure_conditions.iter().find_map(|kind| is_true(kind)) {
                return Err(format!(
                    "device binding failed: claim={}, reason={}, message={:?}",
                    self.name,
                    text(failed, "reason"),
                    text(failed, "message")
                ));
            }
            if result.binding_conditions.iter().any(|kind| is_true(kind).is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// When it is too late for its devices to become ready, in Unix seconds; `None` where that is not waited for.
    pub fn binding_deadline(&self, timeout_seconds: i64) -> Option<i64> {
        let since = self.allocation.as_ref()?.since?;
        self.has_binding_conditions().then(|| since.saturating_add(timeout_seconds))
    }
}
