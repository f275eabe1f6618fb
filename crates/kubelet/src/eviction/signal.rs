//! What a node can be short of, and how much of it there is.

use std::collections::BTreeMap;

use object::quantity::{Format, Quantity};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    MemoryAvailable,
    AllocatableMemoryAvailable,
    NodeFsAvailable,
    NodeFsInodesFree,
    ImageFsAvailable,
    ImageFsInodesFree,
    ContainerFsAvailable,
    ContainerFsInodesFree,
    PidAvailable,
}

/// What is taken back by ending pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Memory,
    EphemeralStorage,
    Inodes,
    Pids,
}

/// Conditions of the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    MemoryPressure,
    DiskPressure,
    PidPressure,
}

/// Name, resource and condition of each.
const SIGNALS: [(Signal, &str, Resource, Condition); 9] = [
    (Signal::MemoryAvailable, "memory.available", Resource::Memory, Condition::MemoryPressure),
    (
        Signal::AllocatableMemoryAvailable,
        "allocatableMemory.available",
        Resource::Memory,
        Condition::MemoryPressure,
    ),
    (Signal::NodeFsAvailable, "nodefs.available", Resource::EphemeralStorage, Condition::DiskPressure),
    (Signal::NodeFsInodesFree, "nodefs.inodesFree", Resource::Inodes, Condition::DiskPressure),
    (Signal::ImageFsAvailable, "imagefs.available", Resource::EphemeralStorage, Condition::DiskPressure),
    (Signal::ImageFsInodesFree, "imagefs.inodesFree", Resource::Inodes, Condition::DiskPressure),
    (
        Signal::ContainerFsAvailable,
        "containerfs.available",
        Resource::EphemeralStorage,
        Condition::DiskPressure,
    ),
    (Signal::ContainerFsInodesFree, "containerfs.inodesFree", Resource::Inodes, Condition::DiskPressure),
    (Signal::PidAvailable, "pid.available", Resource::Pids, Condition::PidPressure),
];

impl Signal {
    pub fn parse(name: &str) -> Option<Signal> {
        SIGNALS.iter().find(|(_, known, ..)| *known == name).map(|(signal, ..)| *signal)
    }

    pub fn name(self) -> &'static str {
        SIGNALS[self as usize].1
    }

    pub fn resource(self) -> Resource {
        SIGNALS[self as usize].2
    }

    pub fn condition(self) -> Condition {
        SIGNALS[self as usize].3
    }

    pub fn is_memory(self) -> bool {
        self.resource() == Resource::Memory
    }

    /// Bytes, and not pieces.
    fn format(self) -> Format {
        match self.resource() {
            Resource::Memory | Resource::EphemeralStorage => Format::BinarySi,
            Resource::Inodes | Resource::Pids => Format::DecimalSi,
        }
    }
}

impl Resource {
    pub fn is_on_disk(self) -> bool {
        matches!(self, Resource::EphemeralStorage | Resource::Inodes)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::EphemeralStorage => "ephemeral-storage",
            Resource::Inodes => "inodes",
            Resource::Pids => "pids",
        }
    }
}

impl Condition {
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::MemoryPressure => "MemoryPressure",
            Condition::DiskPressure => "DiskPressure",
            Condition::PidPressure => "PIDPressure",
        }
    }
}

/// How much there is of something now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    pub available: Quantity,
    pub capacity: Quantity,
}

pub type Observations = BTreeMap<Signal, Observation>;

/// Takes note of what could be read.
pub fn observe(
    observations: &mut Observations,
    signal: Signal,
    available: Option<u64>,
    capacity: Option<u64>,
) {
    let Some((available, capacity)) = available.zip(capacity) else { return };
    let quantity = |n: u64| Quantity::from_i64(i64::try_from(n).unwrap_or(i64::MAX), signal.format());
    observations.insert(signal, Observation { available: quantity(available), capacity: quantity(capacity) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_signals() {
        for (signal, name, resource, condition) in SIGNALS {
            assert_eq!(Signal::parse(name), Some(signal));
            assert_eq!((signal.resource(), signal.condition()), (resource, condition), "{name}");
        }
        assert_eq!(Signal::parse("memory"), None);
    }
}
