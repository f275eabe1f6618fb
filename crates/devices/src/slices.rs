//! All resource slices, by pool, and which of them serve a node.
//!
//! ```text
//! set(slice) ──> by name
//!            ──> pool ──> generation ──> Facts, made for the first who looks: order, nodes, what is wrong with it
//!            ──> by node: the pools with slices of that node alone
//!            ──> shared: the pools any node may see
//! ```

mod generation;
mod totals;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) use generation::{CounterSets, Generation};
pub(crate) use view::{PoolView, State};

use crate::slice::{Device, Slice};

#[derive(Debug, Default)]
pub struct Slices {
    by_name: HashMap<Arc<str>, Arc<Slice>>,
    pools: BTreeMap<PoolId, Pool>,
    /// Pools with devices that only one node can use, by that node.
    by_node: HashMap<Arc<str>, BTreeSet<PoolId>>,
    /// Pools with devices that other nodes, too, may use.
    shared: BTreeSet<PoolId>,
    /// Pools not shared that bother nodes without devices of theirs: those with counters belong to every node, and
    /// something is wrong with these.
    troubled: BTreeSet<PoolId>,
    /// Grows with every change.
    version: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PoolId {
    pub(crate) driver: Arc<str>,
    pub(crate) pool: Arc<str>,
}

impl std::fmt::Display for PoolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    /// The newest last.
    pub generations: BTreeMap<i64, Generation>,
    /// How many slices are of a node, or have devices that are.
    nodes: BTreeMap<Arc<str>, usize>,
    /// How many slices any node may see.
    shared: usize,
    /// How many slices have counters.
    counters: usize,
}

impl Slices {
    /// The answer is what was there before.
    pub fn set(&mut self, name: &str, new: Option<Slice>) -> Option<Arc<Slice>> {
        self.version += 1;
        let old = self.by_name.remove(name);
        if let Some(old) = &old {
            self.remove(old);
        }
        if let Some(new) = new {
            let new = Arc::new(new);
            self.insert(&new);
            self.by_name.insert(name.into(), new);
        }
        old
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Slice>> {
        self.by_name.get(name)
    }

    /// The slices of the newest generation of a pool, by name.
    pub fn pool(&self, driver: &str, pool: &str) -> impl Iterator<Item = &Arc<Slice>> {
        self.newest(driver, pool).into_iter().flat_map(Generation::slices)
    }

    /// A device of the newest generation of a pool.
    pub fn device(&self, driver: &str, pool: &str, device: &str) -> Option<(&Arc<Slice>, &Device)> {
        let (slice, at) = self.newest(driver, pool)?.facts().device(device)?;
        Some((slice, &slice.devices[at]))
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    fn newest(&self, driver: &str, pool: &str) -> Option<&Generation> {
        let id = PoolId { driver: driver.into(), pool: pool.into() };
        self.pools.get(&id)?.generations.values().next_back()
    }

    fn insert(&mut self, slice: &Arc<Slice>) {
        let id = PoolId { driver: slice.driver.clone(), pool: slice.pool.clone() };
        let pool = self.pools.entry(id.clone()).or_default();
        pool.generations.entry(slice.generation).or_default().insert(slice);
        match Reach::of(slice) {
            Reach::Counters => pool.counters += 1,
            Reach::Nobody => {}
            Reach::Shared => {
                pool.shared += 1;
                self.shared.insert(id.clone());
            }
            Reach::Nodes(nodes) => {
                for node in nodes {
                    *pool.nodes.entry(node.clone()).or_default() += 1;
                    self.by_node.entry(node).or_default().insert(id.clone());
                }
            }
        }
        self.check(id);
    }

    fn remove(&mut self, slice: &Arc<Slice>) {
        let id = PoolId { driver: slice.driver.clone(), pool: slice.pool.clone() };
        let Some(pool) = self.pools.get_mut(&id) else { return };
        if let Some(generation) = pool.generations.get_mut(&slice.generation) {
            generation.remove(slice);
            if generation.is_empty() {
                pool.generations.remove(&slice.generation);
            }
        }
        match Reach::of(slice) {
            Reach::Counters => pool.counters -= 1,
            Reach::Nobody => {}
            Reach::Shared => {
                pool.shared -= 1;
                if pool.shared == 0 {
                    self.shared.remove(&id);
                }
            }
            Reach::Nodes(nodes) => {
                for node in nodes {
                    let count = pool.nodes.entry(node.clone()).or_default();
                    *count = count.saturating_sub(1);
                    if *count > 0 {
                        continue;
                    }
                    pool.nodes.remove(&node);
                    if let Some(pools) = self.by_node.get_mut(&node) {
                        pools.remove(&id);
                        if pools.is_empty() {
                            self.by_node.remove(&node);
                        }
                    }
                }
            }
        }
        if pool.generations.is_empty() {
            self.pools.remove(&id);
        }
        self.check(id);
    }

    /// Whether a pool bothers nodes without devices of it.
    fn check(&mut self, id: PoolId) {
        let pool = self.pools.get(&id).filter(|pool| pool.counters > 0 && pool.shared == 0);
        let troubled = pool.is_some_and(|pool| {
            let view = PoolView::without_devices(&id, pool);
            view.is_some_and(|view| view.state != State::Usable)
        });
        if troubled {
            self.troubled.insert(id);
        } else {
            self.troubled.remove(&id);
        }
    }
}

/// Who may see the devices of a slice.
pub(crate) enum Reach {
    /// Everyone sees counters.
    Counters,
    /// Without duplicates.
    Nodes(Vec<Arc<str>>),
    Shared,
    Nobody,
}

impl Reach {
    pub(crate) fn of(slice: &Slice) -> Reach {
        use crate::node::NodeScope::{All, Named, None, Selected};
        if slice.has_counters() {
            return Reach::Counters;
        }
        match &slice.node {
            Named(node) => return Reach::Nodes(vec![node.clone()]),
            All | Selected(_) => return Reach::Shared,
            None if !slice.per_device => return Reach::Nobody,
            None => {}
        }
        let mut nodes = BTreeSet::new();
        for device in &slice.devices {
            match &device.node {
                Named(node) => {
                    nodes.insert(node.clone());
                }
                All | Selected(_) => return Reach::Shared,
                None => {}
            }
        }
        Reach::Nodes(nodes.into_iter().collect())
    }
}
