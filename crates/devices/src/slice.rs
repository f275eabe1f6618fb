//! What is kept of a ResourceSlice: devices a driver offers, and counters they draw from.

mod device;

use std::sync::Arc;

use object::Value;
use object::quantity::Quantity;

pub use device::{Attribute, Capacity, Device, RequestPolicy, ValidRange};

use crate::node::NodeScope;
use crate::read::{flag, int, list, members, quantity, shared};
use crate::selectors::Verdicts;

#[derive(Debug)]
pub struct Slice {
    pub name: Arc<str>,
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    /// Slices of an older generation than another of their pool are out of date.
    pub generation: i64,
    /// How many slices its pool has in this generation.
    pub slice_count: i64,
    pub node: NodeScope,
    /// Each device says for itself which nodes can use it.
    pub per_device: bool,
    pub devices: Vec<Device>,
    pub shared_counters: Vec<CounterSet>,
    /// Some device has.
    pub(crate) has_binding_conditions: bool,
    /// What selectors said of its devices.
    pub(crate) verdicts: Verdicts,
}

/// Amounts by name, sorted.
pub type Counters = Vec<(Arc<str>, Quantity)>;

/// Counters that devices of a pool draw from: a set a slice offers, or the part of one a device consumes.
#[derive(Clone, Debug)]
pub struct CounterSet {
    pub name: Arc<str>,
    pub counters: Counters,
}

impl Slice {
    pub fn parse(tree: &Value) -> Slice {
        let none = Value::Null;
        let spec = tree.get("spec").unwrap_or(&none);
        let pool = spec.get("pool").unwrap_or(&none);
        let devices: Vec<Device> = list(spec, "devices").iter().map(Device::parse).collect();
        Slice {
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            driver: shared(spec, "driver"),
            pool: shared(pool, "name"),
            generation: int(pool, "generation").unwrap_or(0),
            slice_count: int(pool, "resourceSliceCount").unwrap_or(0),
            node: NodeScope::parse(spec),
            per_device: flag(spec, "perDeviceNodeSelection") == Some(true),
            has_binding_conditions: devices.iter().any(|device| !device.binding_conditions.is_empty()),
            devices,
            shared_counters: CounterSet::parse_all(spec, "sharedCounters", "name"),
            verdicts: Verdicts::default(),
        }
    }

    /// Slices with counters have no devices and belong to every node's view of their pool.
    pub fn has_counters(&self) -> bool {
        !self.shared_counters.is_empty()
    }
}

impl CounterSet {
    fn parse_all(value: &Value, field: &str, name: &str) -> Vec<CounterSet> {
        let sets = list(value, field).iter();
        sets.map(|set| CounterSet {
            name: shared(set, name),
            counters: members(set.get("counters"), |counter| {
                counter.get("value").map_or(Quantity::ZERO, quantity)
            }),
        })
        .collect()
    }
}
