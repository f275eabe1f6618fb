//! Allocation: the devices some claims get on one node.
//!
//! ```text
//! node ──> pools it sees ──> requests: classes, how many devices ──> search ──> Allocation per claim
//!                              └─ what cannot be is refused here       └─ depth first, the first solution is taken
//! ```

mod capacity;
mod constraints;
mod counters;
mod ground;
mod outcome;
mod requests;
mod search;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use crate::allocated::Allocated;
use crate::allocation::Allocation;
use crate::claim::Claim;
use crate::class::Classes;
use crate::node::NodeView;
use crate::selectors::Selectors;
use crate::slices::{PoolId, PoolView, Slices, State};
use counters::Available;
use ground::Ground;
use requests::ClaimState;
use search::Search;

/// Devices of a claim's allocation; more are never given.
const MAX_RESULTS: usize = 32;

/// Allocates devices as things stand. To be made for a pod, whose nodes share what it finds out.
pub struct Allocator<'a> {
    slices: &'a Slices,
    classes: &'a Classes,
    allocated: &'a Allocated,
    selectors: &'a Selectors,
    /// What is left of the counters of pools. Guards nothing else: who comes second finds out the same.
    available: Mutex<BTreeMap<&'a PoolId, Arc<Available>>>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AllocateError {
    /// Concerns this node only: others may do.
    #[error("{0}")]
    OnNode(String),
    /// Concerns the claims, their classes or devices: no use in asking for other nodes.
    #[error("{0}")]
    Fatal(String),
    #[error("filter operation aborted")]
    Interrupted,
}

impl<'a> Allocator<'a> {
    pub fn new(
        slices: &'a Slices,
        classes: &'a Classes,
        allocated: &'a Allocated,
        selectors: &'a Selectors,
    ) -> Allocator<'a> {
        Allocator { slices, classes, allocated, selectors, available: Mutex::default() }
    }

    /// What each claim gets on a node; `None` if not all can get what they ask for.
    ///
    /// `interrupted` is asked at every step, as there may be very many. `share_id` makes an id for a share of a device.
    pub fn allocate(
        &self,
        node: &NodeView<'_>,
        claims: &[&Claim],
        interrupted: &dyn Fn() -> bool,
        share_id: &dyn Fn() -> String,
    ) -> Result<Option<Vec<Allocation>>, AllocateError> {
        let pools = self.slices.views(node);
        let pools =
            pools.map_err(|error| AllocateError::Fatal(format!("gather pool information: {error}")))?;
        let ground = Ground::new(self, node, pools);
        let states: Result<Vec<_>, _> = claims.iter().map(|claim| ClaimState::new(&ground, claim)).collect();
        if let Some(found) = Search::new(&ground, states?, interrupted).run()? {
            let allocations = found.iter().map(|claim| outcome::allocation(&ground, claim, share_id));
            return allocations.collect::<Result<_, _>>().map(Some).map_err(AllocateError::Fatal);
        }
        // Others might have had what is needed, so this is told only now.
        if ground.pools.iter().any(|pool| pool.state == State::Invalid) {
            return Err(AllocateError::OnNode("invalid resource pools were encountered".to_owned()));
        }
        Ok(None)
    }

    /// What devices in use have left of the counters of a pool.
    fn available(&self, view: &PoolView<'a>) -> Arc<Available> {
        let used = self.allocated.pool(&view.id.driver, &view.id.pool);
        if !view.sees_all() {
            return Arc::new(Available::new(view, used));
        }
        let mut available = self.available.lock();
        available.entry(view.id).or_insert_with(|| Arc::new(Available::new(view, used))).clone()
    }
}
