//! Devices of Dynamic Resource Allocation: which there are, which are in use, and which a claim gets on a node.
//!
//! ```text
//! ResourceSlices ──parse──> Slices     by pool and generation, indexed by node ─┐
//! DeviceClasses  ──parse──> Classes ────────────────────────────────────────────┤
//! allocations of claims ──> Allocated  what is taken, kept with every change ───┼─> Allocator::allocate(node, claims)
//! CEL expressions ────────> Selectors  compiled once ───────────────────────────┘        │
//!                                                                                        └─> Allocation per claim, or why not
//! ```
//!
//! Everything is a plain value: no I/O, no clock. Objects are parsed once per change. What one allocation costs depends on the pools
//! that serve its node, not on how many there are.
//!
//! The search is kube-scheduler's (the `incubating` allocator, which the gates of v1.36 choose): the first solution in the order of
//! pools, slices and devices is taken, so that the same cluster gives the same answer.

mod allocate;
mod allocated;
mod allocation;
mod claim;
mod class;
mod node;
mod read;
pub mod selectors;
mod slice;
mod slices;
mod taint;
#[cfg(test)]
mod testing;

pub use allocate::{AllocateError, Allocator};
pub use allocated::Allocated;
pub use allocation::{Allocation, DeviceId, DeviceResult};
pub use claim::{Choice, Claim, ClaimConfig, Constraint, ConstraintKind, Mode, Request, Selector, Wanted};
pub use class::{Classes, DeviceClass, RESOURCE_CLASS_PREFIX};
pub use node::{NodeScope, NodeSelector, NodeView};
pub use selectors::Selectors;
pub use slice::{Attribute, Capacity, CounterSet, Counters, Device, RequestPolicy, Slice, ValidRange};
pub use slices::Slices;
pub use taint::{Taint, Toleration};
