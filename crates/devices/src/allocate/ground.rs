//! What one search looks at and does not change: the devices a node sees, one after the other.

use std::sync::Arc;

use object::quantity::Quantity;

use super::{Allocator, capacity};
use crate::allocated::{PoolUse, Use};
use crate::allocation::DeviceId;
use crate::claim::Wanted;
use crate::node::NodeView;
use crate::slice::{Device, Slice};
use crate::slices::PoolView;

pub(super) struct Ground<'s, 'a> {
    pub allocator: &'s Allocator<'a>,
    pub node: &'s NodeView<'s>,
    pub pools: Vec<PoolView<'a>>,
    /// In the order they are tried.
    pub devices: Vec<Place>,
    /// By pool.
    used: Vec<Option<&'a PoolUse>>,
}

/// Where a device is: as indices of pools, slices of its generation, and devices.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub pool: usize,
    slice: usize,
    device: usize,
}

impl<'s, 'a> Ground<'s, 'a> {
    pub(super) fn new(
        allocator: &'s Allocator<'a>,
        node: &'s NodeView<'s>,
        pools: Vec<PoolView<'a>>,
    ) -> Self {
        let mut devices = Vec::new();
        for (pool, view) in pools.iter().enumerate() {
            for &slice in &view.slices {
                let count = view.facts.slices[slice].devices.len();
                devices.extend((0..count).map(|device| Place { pool, slice, device }));
            }
        }
        let used =
            pools.iter().map(|view| allocator.allocated.pool(&view.id.driver, &view.id.pool)).collect();
        Ground { allocator, node, pools, devices, used }
    }

    /// The slice of a device, and its place there.
    pub(super) fn slice(&self, device: usize) -> (&'a Arc<Slice>, usize) {
        let place = self.devices[device];
        (&self.pools[place.pool].facts.slices[place.slice], place.device)
    }

    pub(super) fn device(&self, device: usize) -> &'a Device {
        let (slice, place) = self.slice(device);
        &slice.devices[place]
    }

    pub(super) fn id(&self, device: usize) -> DeviceId {
        let (slice, place) = self.slice(device);
        DeviceId {
            driver: slice.driver.clone(),
            pool: slice.pool.clone(),
            device: slice.devices[place].name.clone(),
        }
    }

    /// How a device is used by others.
    pub(super) fn used(&self, device: usize) -> Option<&'a Use> {
        self.used[self.devices[device].pool]?.get(&self.device(device).name)
    }

    /// The first device of a pool, or of what comes after it.
    pub(super) fn first_device(&self, pool: usize) -> usize {
        self.devices.partition_point(|place| place.pool < pool)
    }

    /// Whether a device has the capacity that is wanted, besides what is about to be consumed of it.
    pub(super) fn fits(&self, wanted: &Wanted, device: usize, consuming: &[(Arc<str>, Quantity)]) -> bool {
        let allocated = self.used(device).map_or(&[][..], Use::consumed);
        capacity::fits(&wanted.capacity, &self.device(device).capacity, allocated, consuming)
    }
}
