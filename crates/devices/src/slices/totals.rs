//! How much of a class of devices there is on a node: what a resource that they stand for amounts to there.

use super::{PoolId, Slices};
use crate::allocated::Allocated;
use crate::class::DeviceClass;
use crate::node::NodeView;
use crate::selectors::{Outcome, Selectors};
use crate::slice::Slice;

impl Slices {
    /// The devices of a class that a node sees, and those of them that are in use. Fails where that cannot be said.
    ///
    /// As kube-scheduler counts for a score: also what is out of date, incomplete or tainted.
    pub fn totals(
        &self,
        node: &NodeView<'_>,
        class: &DeviceClass,
        allocated: &Allocated,
        selectors: &Selectors,
    ) -> Result<(i64, i64), String> {
        let expressions = class.selectors.iter().filter_map(|selector| selector.expression.as_ref());
        let selectors: Vec<Outcome> = expressions.map(|expression| selectors.get(expression)).collect();
        let mut ids: Vec<&PoolId> = self.shared.iter().collect();
        ids.extend(self.by_node.get(node.name).into_iter().flatten());
        ids.sort_unstable();
        ids.dedup();
        let (mut all, mut in_use) = (0, 0);
        for id in ids {
            let used = allocated.pool(&id.driver, &id.pool);
            let generations = self.pools.get(id).into_iter().flat_map(|pool| pool.generations.values());
            for slice in generations.flat_map(|generation| generation.slices()) {
                for at in 0..slice.devices.len() {
                    if sees(node, slice, at)? && is_selected(&selectors, slice, at)? {
                        all += 1;
                        in_use +=
                            i64::from(used.is_some_and(|used| used.contains_key(&slice.devices[at].name)));
                    }
                }
            }
        }
        Ok((all, in_use))
    }
}

fn sees(node: &NodeView<'_>, slice: &Slice, at: usize) -> Result<bool, String> {
    let scope = if slice.per_device { &slice.devices[at].node } else { &slice.node };
    scope.matches(node).map_err(str::to_owned)
}

fn is_selected(selectors: &[Outcome], slice: &Slice, at: usize) -> Result<bool, String> {
    for selector in selectors {
        let selector = selector.as_ref().map_err(ToString::to_string)?;
        if !selector.matches(slice, at)? {
            return Ok(false);
        }
    }
    Ok(true)
}
