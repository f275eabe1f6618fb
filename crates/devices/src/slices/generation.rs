//! The slices of one generation of a pool, and what is true of them all.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use super::Reach;
use crate::read::find;
use crate::slice::{Counters, Slice};

/// Counters by the name of their set, sorted.
pub(crate) type CounterSets = Vec<(Arc<str>, Counters)>;

#[derive(Debug, Default)]
pub(crate) struct Generation {
    slices: BTreeMap<Arc<str>, Arc<Slice>>,
    /// Made for the first who asks, gone with the next change.
    facts: OnceLock<Facts>,
}

#[derive(Debug)]
pub(crate) struct Facts {
    /// By name.
    pub slices: Vec<Arc<Slice>>,
    /// Slices with devices of one node, as indices.
    pub by_node: HashMap<Arc<str>, Vec<usize>>,
    /// Slices with devices whose nodes are to be asked for.
    pub shared: Vec<usize>,
    /// Slices with counters.
    pub counters: Vec<usize>,
    /// Two devices have the same name.
    pub repeats_names: bool,
    /// Counter sets by name, sorted; `None` if two have the same name.
    pub counter_sets: Option<CounterSets>,
    /// Some device consumes counters that are not there.
    pub misses_counters: bool,
    /// Devices by name: slice and place.
    devices: HashMap<Arc<str>, (usize, usize)>,
    /// Devices that consume counters by name, sorted: slice and place.
    consumers: Vec<(Arc<str>, usize, usize)>,
}

impl Generation {
    pub(super) fn insert(&mut self, slice: &Arc<Slice>) {
        self.slices.insert(slice.name.clone(), slice.clone());
        self.facts = OnceLock::new();
    }
    pub(super) fn remove(&mut self, slice: &Slice) {
        self.slices.remove(&slice.name);
        self.facts = OnceLock::new();
    }
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }
    pub(super) fn slices(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.slices.values()
    }
    pub(crate) fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::new(self.slices.values().cloned().collect()))
    }
}

impl Facts {
    fn new(slices: Vec<Arc<Slice>>) -> Facts {
        let counter_sets = counter_sets(&slices);
        let mut facts = Facts {
            by_node: HashMap::new(),
            shared: Vec::new(),
            counters: Vec::new(),
            repeats_names: false,
            misses_counters: slices.iter().any(|slice| misses_counters(slice, counter_sets.as_ref())),
            counter_sets,
            devices: HashMap::new(),
            consumers: Vec::new(),
            slices,
        };
        for (at, slice) in facts.slices.iter().enumerate() {
            match Reach::of(slice) {
                Reach::Counters => facts.counters.push(at),
                Reach::Shared => facts.shared.push(at),
                Reach::Nobody => {}
                Reach::Nodes(nodes) => {
                    nodes.into_iter().for_each(|node| facts.by_node.entry(node).or_default().push(at));
                }
            }
            for (place, device) in slice.devices.iter().enumerate().filter(|_| !slice.has_counters()) {
                if !device.consumes_counters.is_empty() {
                    facts.consumers.push((device.name.clone(), at, place));
                }
                if facts.devices.contains_key(&device.name) {
                    facts.repeats_names = true;
                } else {
                    facts.devices.insert(device.name.clone(), (at, place));
                }
            }
        }
        facts.consumers.sort();
        facts
    }

    pub(super) fn device(&self, name: &str) -> Option<(&Arc<Slice>, usize)> {
        let (slice, place) = self.devices.get(name)?;
        Some((&self.slices[*slice], *place))
    }

    /// The devices of a name that consume counters, as slice and place: more than one if names are repeated.
    pub(crate) fn consumers(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        let start = self.consumers.partition_point(|(own, ..)| **own < *name);
        let named = self.consumers[start..].iter().take_while(move |(own, ..)| **own == *name);
        named.map(|(_, slice, place)| (*slice, *place))
    }
}

/// The counter sets of all slices; `None` if two have the same name.
fn counter_sets(slices: &[Arc<Slice>]) -> Option<CounterSets> {
    let sets = slices.iter().flat_map(|slice| &slice.shared_counters);
    let mut sets: CounterSets = sets.map(|s| (s.name.clone(), s.counters.clone())).collect();
    sets.sort_by(|a, b| a.0.cmp(&b.0));
    let repeated = sets.windows(2).any(|pair| pair[0].0 == pair[1].0);
    (!repeated).then_some(sets)
}

/// Whether a device of a slice consumes counters that are not there.
pub(super) fn misses_counters(slice: &Slice, sets: Option<&CounterSets>) -> bool {
    let consumed = slice.devices.iter().flat_map(|device| &device.consumes_counters);
    let Some(sets) = sets else { return false };
    consumed.into_iter().any(|part| match find(sets, &part.name) {
        Some(set) => part.counters.iter().any(|(name, _)| find(set, name).is_none()),
        None => true,
    })
}
