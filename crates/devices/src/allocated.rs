//! Devices in use: what claims hold, kept with every change instead of counted for every pod.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use object::quantity::Quantity;

use crate::allocation::{Allocation, DeviceId};

/// Who holds which devices. A holder is a claim, known by its uid: setting what it holds replaces what it held, so that a claim may
/// be assumed to hold devices before it is seen to.
#[derive(Clone, Debug, Default)]
pub struct Allocated {
    /// By driver and pool.
    pools: HashMap<Arc<str>, HashMap<Arc<str>, PoolUse>>,
    holders: HashMap<Arc<str>, Vec<Held>>,
    /// Grows with every change.
    version: u64,
}

/// The used devices of a pool, by name.
pub(crate) type PoolUse = HashMap<Arc<str>, Use>;

/// How a device is used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use {
    /// Holders that have it for themselves.
    exclusive: u32,
    /// Holders that share it.
    shares: u32,
    /// Holders that consume capacity.
    consumers: u32,
    /// By name, sorted.
    consumed: Vec<(Arc<str>, Quantity)>,
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    device: DeviceId,
    shared: bool,
    consumed: Option<Vec<(Arc<str>, Quantity)>>,
}

impl Allocated {
    /// What a holder has now; the answer is whether that is a change. Devices for administrators are not held by them.
    pub fn set(&mut self, holder: &str, allocation: Option<&Allocation>) -> bool {
        let results = allocation.into_iter().flat_map(|allocation| &allocation.results);
        let held: Vec<Held> = results
            .filter(|result| result.admin_access != Some(true))
            .map(|result| Held {
                device: result.device.clone(),
                shared: result.share_id.is_some(),
                consumed: result.consumed_capacity.clone().filter(|_| result.share_id.is_some()),
            })
            .collect();
        let old = self.holders.remove(holder).unwrap_or_default();
        let changed = old != held;
        if changed {
            self.version += 1;
            held.iter().for_each(|held| self.add(held));
            old.iter().for_each(|held| self.remove(held));
        }
        if !held.is_empty() {
            self.holders.insert(holder.into(), held);
        }
        changed
    }

    pub fn holds(&self, holder: &str) -> bool {
        self.holders.contains_key(holder)
    }

    /// Whether anyone has the device, or a share of it.
    pub fn is_allocated(&self, id: &DeviceId) -> bool {
        self.pool(&id.driver, &id.pool).is_some_and(|pool| pool.contains_key(&id.device))
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn pool(&self, driver: &str, pool: &str) -> Option<&PoolUse> {
        self.pools.get(driver)?.get(pool)
    }

    fn add(&mut self, held: &Held) {
        let id = &held.device;
        let pools = self.pools.entry(id.driver.clone()).or_default();
        let used = pools.entry(id.pool.clone()).or_default().entry(id.device.clone()).or_default();
        *if held.shared { &mut used.shares } else { &mut used.exclusive } += 1;
        if let Some(consumed) = &held.consumed {
            used.consumers += 1;
            add_amounts(&mut used.consumed, consumed);
        }
    }

    fn remove(&mut self, held: &Held) {
        let id = &held.device;
        let Some(pools) = self.pools.get_mut(&id.driver) else { return };
        let Some(pool) = pools.get_mut(&id.pool) else { return };
        let Some(used) = pool.get_mut(&id.device) else { return };
        let count = if held.shared { &mut used.shares } else { &mut used.exclusive };
        *count = count.saturating_sub(1);
        if let Some(consumed) = &held.consumed {
            used.consumers = used.consumers.saturating_sub(1);
            subtract_amounts(&mut used.consumed, consumed);
            if used.consumers == 0 {
                used.consumed.clear();
            }
        }
        if used.exclusive == 0 && used.shares == 0 {
            pool.remove(&id.device);
        }
        if pool.is_empty() {
            pools.remove(&id.pool);
        }
        if pools.is_empty() {
            self.pools.remove(&id.driver);
        }
    }
}

impl Use {
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive > 0
    }
    /// Whether someone consumes a part of its capacity.
    pub(crate) fn consumes(&self) -> bool {
        self.consumers > 0
    }
    pub(crate) fn consumed(&self) -> &[(Arc<str>, Quantity)] {
        &self.consumed
    }
}

/// Adds amounts to those of the same name; both are sorted.
pub(crate) fn add_amounts(to: &mut Vec<(Arc<str>, Quantity)>, more: &[(Arc<str>, Quantity)]) {
    for (name, amount) in more {
        match to.binary_search_by(|(own, _)| own.cmp(name)) {
            Ok(at) => to[at].1 = to[at].1 + *amount,
            Err(at) => to.insert(at, (name.clone(), *amount)),
        }
    }
}

pub(crate) fn subtract_amounts(from: &mut [(Arc<str>, Quantity)], less: &[(Arc<str>, Quantity)]) {
    for (name, amount) in less {
        if let Ok(at) = from.binary_search_by(|(own, _)| own.cmp(name)) {
            from[at].1 = from[at].1 - *amount;
        }
    }
}
