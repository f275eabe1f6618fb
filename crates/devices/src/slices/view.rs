//! A pool as one node sees it.
//!
//! A driver replaces the slices of a pool one after the other, and a node sees only those that serve it. So it is to be
//! found out which generation counts for the node, whether that one is there as a whole, and whether it makes sense.

use std::collections::HashSet;
use std::sync::Arc;

use super::generation::{Facts, misses_counters};
use super::{Pool, PoolId, Slices};
use crate::node::{NodeScope, NodeView};
use crate::slice::Slice;

#[derive(Debug)]
pub(crate) struct PoolView<'s> {
    pub id: &'s PoolId,
    pub state: State,
    pub facts: &'s Facts,
    /// The slices with devices for the node, as indices; none unless the pool is usable.
    pub slices: Vec<usize>,
    /// All slices of the generation count, not only those of the node.
    pub is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Usable,
    /// Slices are missing, or there are too many.
    Incomplete,
    /// Its slices contradict each other.
    Invalid,
}

impl Slices {
    /// The pools a node sees, in the order devices are taken from them: by driver and name, those whose devices have to be
    /// prepared before a pod is bound last.
    pub(crate) fn views(&self, node: &NodeView<'_>) -> Result<Vec<PoolView<'_>>, String> {
        let mut ids: Vec<&PoolId> = self.shared.iter().chain(&self.troubled).collect();
        ids.extend(self.by_node.get(node.name).into_iter().flatten());
        ids.sort_unstable();
        ids.dedup();
        let mut views = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(pool) = self.pools.get(id) else { continue };
            views.extend(PoolView::new(id, pool, node)?);
        }
        views.sort_by_key(PoolView::has_binding_conditions);
        Ok(views)
    }
}

impl<'s> PoolView<'s> {
    /// `None` if the pool has nothing for the node.
    fn new(id: &'s PoolId, pool: &'s Pool, node: &NodeView<'_>) -> Result<Option<PoolView<'s>>, String> {
        let mut view = None;
        for (is_newest, generation) in newest_first(pool) {
            let facts = generation.facts();
            let mut slices = facts.by_node.get(node.name).cloned().unwrap_or_default();
            // Outdated ones are asked, too: what is wrong with them is told.
            for at in &facts.shared {
                if serves(&facts.slices[*at], node)? {
                    slices.push(*at);
                }
            }
            if view.is_none() && (!slices.is_empty() || !facts.counters.is_empty()) {
                slices.sort_unstable();
                view = Some(PoolView::build(id, facts, slices, is_newest));
            }
        }
        Ok(view.flatten())
    }

    /// As a node sees it that has no devices of it.
    pub(super) fn without_devices(id: &'s PoolId, pool: &'s Pool) -> Option<PoolView<'s>> {
        let mut generations = newest_first(pool);
        let (is_newest, generation) = generations.find(|(_, g)| !g.facts().counters.is_empty())?;
        PoolView::build(id, generation.facts(), Vec::new(), is_newest)
    }

    fn build(id: &'s PoolId, facts: &'s Facts, slices: Vec<usize>, is_newest: bool) -> Option<PoolView<'s>> {
        let first = slices.first().into_iter().chain(facts.counters.first()).min()?;
        let wanted = facts.slices[*first].slice_count;
        let is = |count: usize| i64::try_from(count) == Ok(wanted);
        let seen = slices.len() + facts.counters.len();
        // What the node sees may be all there is, even if the driver is about to replace it by what the node will not see.
        let is_whole = !is(seen);
        if is_whole && !is_newest {
            return None;
        }
        let mut view = PoolView { id, state: State::Usable, facts, slices, is_whole };
        if is_whole && !is(facts.slices.len()) {
            view.state = State::Incomplete;
        } else if view.is_invalid() {
            view.state = State::Invalid;
        }
        if view.state != State::Usable {
            view.slices.clear();
        }
        Some(view)
    }

    /// Whether no slice of the generation is left out.
    pub(crate) fn sees_all(&self) -> bool {
        self.is_whole || self.slices.len() + self.facts.counters.len() == self.facts.slices.len()
    }

    fn is_invalid(&self) -> bool {
        let facts = self.facts;
        if facts.counter_sets.is_none() {
            return true;
        }
        let own = || self.slices.iter().map(|at| &facts.slices[*at]);
        let misses = || own().any(|slice| misses_counters(slice, facts.counter_sets.as_ref()));
        (facts.repeats_names && repeats_names(own()))
            || (facts.misses_counters && (self.is_whole || misses()))
    }

    /// Whether a pod may have to wait for a device of it.
    fn has_binding_conditions(&self) -> bool {
        self.slices.iter().any(|at| self.facts.slices[*at].has_binding_conditions)
    }
}

/// The generations of a pool, and whether each is the newest.
fn newest_first(pool: &Pool) -> impl Iterator<Item = (bool, &super::Generation)> {
    pool.generations.values().rev().enumerate().map(|(i, generation)| (i == 0, generation))
}

/// Whether a slice has devices for a node.
fn serves(slice: &Slice, node: &NodeView<'_>) -> Result<bool, String> {
    let failed = |what: String, error: &str| format!("failed to perform node selection for {what}: {error}");
    if !matches!(slice.node, NodeScope::None) {
        return slice.node.matches(node).map_err(|error| failed(format!("slice {}", slice.name), error));
    }
    for device in &slice.devices {
        let what = || format!("device {} in slice {}", device.name, slice.name);
        if device.node.matches(node).map_err(|error| failed(what(), error))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn repeats_names<'a>(slices: impl Iterator<Item = &'a Arc<Slice>>) -> bool {
    let mut seen = HashSet::new();
    slices.flat_map(|slice| &slice.devices).any(|device| !seen.insert(&device.name))
}
