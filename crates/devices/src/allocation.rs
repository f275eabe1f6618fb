//! What a claim was given: its `status.allocation`.

use std::fmt;
use std::sync::Arc;

use catalog::Name;
use object::quantity::Quantity;
use object::{Map, Value};

use crate::read::{flag, list, members, present, quantity, shared, some_text, strings, text};
use crate::taint::Toleration;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    pub results: Vec<DeviceResult>,
    /// `DeviceAllocationConfiguration`s.
    pub config: Vec<Value>,
    /// Where the devices can be used; everywhere without one.
    pub node_selector: Option<Value>,
}

/// One device.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceResult {
    /// A request, or `request/subrequest`.
    pub request: String,
    pub device: DeviceId,
    pub admin_access: Option<bool>,
    pub tolerations: Arc<[Toleration]>,
    pub binding_conditions: Vec<Arc<str>>,
    pub binding_failure_conditions: Vec<Arc<str>>,
    /// Set where others may have the same device.
    pub share_id: Option<Arc<str>>,
    /// By qualified name, sorted.
    pub consumed_capacity: Option<Vec<(Arc<str>, Quantity)>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

impl Allocation {
    /// Of a `status.allocation`.
    pub fn parse(value: &Value) -> Allocation {
        let none = Value::Null;
        let devices = value.get("devices").unwrap_or(&none);
        Allocation {
            results: list(devices, "results").iter().map(DeviceResult::parse).collect(),
            config: list(devices, "config").to_vec(),
            node_selector: present(value, "nodeSelector").cloned(),
        }
    }

    /// A `status.allocation` without the time it was made.
    pub fn to_value(&self) -> Value {
        let mut devices = Map::default();
        if !self.results.is_empty() {
            devices.set("results", self.results.iter().map(DeviceResult::to_value).collect::<Vec<_>>());
        }
        if !self.config.is_empty() {
            devices.set("config", self.config.clone());
        }
        let mut allocation = Map::default();
        allocation.set("devices", devices);
        if let Some(selector) = &self.node_selector {
            allocation.set("nodeSelector", selector.clone());
        }
        Value::Map(allocation)
    }
}

impl DeviceResult {
    fn parse(value: &Value) -> DeviceResult {
        DeviceResult {
            request: text(value, "request").to_owned(),
            device: DeviceId {
                driver: shared(value, "driver"),
                pool: shared(value, "pool"),
                device: shared(value, "device"),
            },
            admin_access: flag(value, "adminAccess"),
            tolerations: list(value, "tolerations").iter().map(Toleration::parse).collect(),
            binding_conditions: strings(value, "bindingConditions"),
            binding_failure_conditions: strings(value, "bindingFailureConditions"),
            share_id: some_text(value, "shareID"),
            consumed_capacity: present(value, "consumedCapacity").map(|map| members(Some(map), quantity)),
        }
    }

    fn to_value(&self) -> Value {
        let mut result = Map::default();
        result.set("request", self.request.as_str());
        result.set("driver", &*self.device.driver);
        result.set("pool", &*self.device.pool);
        result.set("device", &*self.device.device);
        if let Some(admin) = self.admin_access {
            result.set("adminAccess", admin);
        }
        if !self.tolerations.is_empty() {
            result.set("tolerations", self.tolerations.iter().map(Toleration::to_value).collect::<Vec<_>>());
        }
        let conditions = [
            ("bindingConditions", &self.binding_conditions),
            ("bindingFailureConditions", &self.binding_failure_conditions),
        ];
        for (name, list) in conditions.into_iter().filter(|(_, list)| !list.is_empty()) {
            result.set(name, texts(list));
        }
        if let Some(id) = &self.share_id {
            result.set("shareID", &**id);
        }
        if let Some(capacity) = self.consumed_capacity.as_ref().filter(|capacity| !capacity.is_empty()) {
            let amounts = capacity.iter();
            let amounts: Map = amounts
                .map(|(name, amount)| (Name::Shared(name.clone()), amount.to_string().into()))
                .collect();
            result.set("consumedCapacity", amounts);
        }
        Value::Map(result)
    }
}

pub(crate) fn texts(list: &[Arc<str>]) -> Vec<Value> {
    list.iter().map(|text| Value::from(&**text)).collect()
}
