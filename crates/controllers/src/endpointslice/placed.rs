//! Where the pods of a service stand: one that changes is looked for in its own slices, not in all.
//!
//! ```text
//! pods that changed ──> slices they stand in ──> plan for these alone ──> endpoints left over?
//!                                                     ^                        │ yes: the slice that becomes fullest
//!                                                     └────────────────────────┘
//! ```
//! The plan is the one that all pods and slices would give: slices that hold none of the changed pods stay as they are, but for the one
//! that takes what is left over. Where a slice would go, all are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::plan::Plan;
use super::slice::{Endpoint, Port, SliceView, port_key};

/// Of a service, as its last reconcile left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    slices: BTreeMap<String, Slice>,
    /// The names of the slices a pod stands in.
    pods: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// Slices of the same group, by how many endpoints they have.
    sizes: BTreeMap<Group, BTreeMap<usize, BTreeSet<String>>>,
}

/// Endpoints share slices only with those of the same family and ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    pub address_type: String,
    /// As [`port_key`] orders them.
    pub ports: Vec<Port>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    group: Group,
    endpoints: usize,
    pods: BTreeSet<Arc<str>>,
}

impl Slice {
    pub fn of(address_type: &str, ports: &[Port], endpoints: &[Endpoint]) -> Slice {
        let pod = |endpoint: &Endpoint| Some(Arc::from(endpoint.target.as_ref()?.name.as_str()));
        Slice {
            group: Group { address_type: address_type.to_owned(), ports: port_key(ports) },
            endpoints: endpoints.len(),
            pods: endpoints.iter().filter_map(pod).collect(),
        }
    }

    pub fn of_view(view: &SliceView) -> Slice {
        Slice::of(&view.address_type, &view.ports, &view.endpoints)
    }
}

impl Placed {
    pub fn len(&self) -> usize {
        self.slices.len()
    }

    /// A slice as it is now; `None`: it is gone.
    pub fn set(&mut self, name: &str, slice: Option<Slice>) {
        if let Some(old) = self.slices.remove(name) {
            for pod in &old.pods {
                if let Some(slices) = self.pods.get_mut(pod) {
                    slices.remove(name);
                    if slices.is_empty() {
                        self.pods.remove(pod);
                    }
                }
            }
            if let Some(sizes) = self.sizes.get_mut(&old.group) {
                if let Some(names) = sizes.get_mut(&old.endpoints) {
                    names.remove(name);
                    if names.is_empty() {
                        sizes.remove(&old.endpoints);
                    }
                }
                if sizes.is_empty() {
                    self.sizes.remove(&old.group);
                }
            }
        }
        let Some(slice) = slice else { return };
        for pod in &slice.pods {
            self.pods.entry(pod.clone()).or_default().insert(name.to_owned());
        }
        let sizes = self.sizes.entry(slice.group.clone()).or_default();
        sizes.entry(slice.endpoints).or_default().insert(name.to_owned());
        self.slices.insert(name.to_owned(), slice);
    }

    /// Who stands in a slice.
    pub fn pods_in(&self, slice: &str) -> impl Iterator<Item = &Arc<str>> {
        self.slices.get(slice).into_iter().flat_map(|slice| &slice.pods)
    }

    /// The slice that becomes fullest by so many endpoints, and holds them all; none of those that are looked at anyway.
    fn fullest(&self, group: &Group, count: usize, most: usize, but: &BTreeSet<String>) -> Option<&String> {
        let room = most.checked_sub(count)?;
        let sizes = self.sizes.get(group)?.range(..=room).rev();
        sizes.flat_map(|(_, names)| names).find(|name| !but.contains(*name))
    }

    /// The plan for pods that changed, for the slices `plan` was last asked for, in the order of their names. `None`: all must be
    /// looked at.
    pub fn narrow(
        &self,
        changed: &BTreeSet<String>,
        most: usize,
        mut plan: impl FnMut(&BTreeSet<String>) -> Option<Plan>,
    ) -> Option<Plan> {
        let stand = |pod: &String| self.pods.get(pod.as_str()).into_iter().flatten().cloned();
        let mut names: BTreeSet<String> = changed.iter().flat_map(stand).collect();
        let alone = |plan: &Plan| plan.notes.deleted == 0 && plan.delete.is_empty();
        let first = plan(&names).filter(alone)?;
        let mut takers = Vec::new();
        for (group, left) in &first.notes.left {
            // Whole slices are new ones; what then is left may find room.
            let left = left % most;
            if left > 0 {
                takers.extend(self.fullest(group, left, most, &names).cloned());
            }
        }
        if takers.is_empty() {
            return Some(first);
        }
        names.extend(takers);
        plan(&names).filter(alone)
    }
}
