//! Counters of a pool: what devices in use have left of them, and what those about to be given take.

use std::sync::Arc;

use object::quantity::Quantity;

use crate::allocated::PoolUse;
use crate::read::find;
use crate::slice::{Counters, Device};
use crate::slices::{CounterSets, PoolView};

/// What is left, by set and name, sorted. Less than nothing where more is in use than there is.
pub(super) struct Available(CounterSets);

/// What is left, and what of it is about to be taken.
pub(super) struct Draw {
    available: Arc<Available>,
    taken: CounterSets,
}

impl Available {
    pub(super) fn new(view: &PoolView<'_>, used: Option<&PoolUse>) -> Available {
        let mut available = Available(view.facts.counter_sets.clone().unwrap_or_default());
        let counts = |slice: &usize| view.is_whole || view.slices.contains(slice);
        // The order of subtractions makes no difference.
        #[allow(clippy::iter_over_hash_type)]
        for name in used.into_iter().flat_map(|used| used.keys()) {
            for (slice, place) in view.facts.consumers(name).filter(|(slice, _)| counts(slice)) {
                change(&mut available.0, &view.facts.slices[slice].devices[place], |a, b| a - b);
            }
        }
        available
    }
}

impl Draw {
    pub(super) fn new(available: Arc<Available>) -> Draw {
        let nothing =
            |counters: &Counters| counters.iter().map(|(n, _)| (n.clone(), Quantity::ZERO)).collect();
        let taken = available.0.iter().map(|(name, counters)| (name.clone(), nothing(counters))).collect();
        Draw { available, taken }
    }

    /// Takes what a device consumes, if it is there. A counter that is overdrawn stops all devices that draw on its pool.
    pub(super) fn take(&mut self, device: &Device) -> bool {
        change(&mut self.taken, device, |a, b| a + b);
        let pairs = self.available.0.iter().zip(&self.taken);
        let mut pairs = pairs.flat_map(|((_, left), (_, taken))| left.iter().zip(taken));
        let enough = pairs.all(|((_, left), (_, taken))| left >= taken);
        if !enough {
            self.give_back(device);
        }
        enough
    }

    pub(super) fn give_back(&mut self, device: &Device) {
        change(&mut self.taken, device, |a, b| a - b);
    }
}

fn change(sets: &mut [(Arc<str>, Counters)], device: &Device, by: impl Fn(Quantity, Quantity) -> Quantity) {
    for part in &device.consumes_counters {
        let Ok(at) = sets.binary_search_by(|(name, _)| name.cmp(&part.name)) else { continue };
        for (name, counter) in &mut sets[at].1 {
            if let Some(amount) = find(&part.counters, name) {
                *counter = by(*counter, *amount);
            }
        }
    }
}
