//! Claims that found no volume, by what they look for: a volume that becomes free wakes one of them, not all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kinds::persistentvolume::view::VolumeView;
use kinds::persistentvolumeclaim::view::ClaimView;
use object::Obj;
use object::quantity::Quantity;
use runtime::Key;

/// So many are looked at for one volume; the others look for themselves now and then.
const LOOKED_AT: usize = 16;

/// What has to be equal: class, attributes class, volume mode.
type Slot = (Box<str>, Box<str>, bool);

#[derive(Default)]
pub struct WaitingClaims {
    claims: BTreeMap<Key, Arc<ClaimView>>,
    slots: BTreeMap<Slot, BTreeMap<Quantity, BTreeSet<Key>>>,
}

impl WaitingClaims {
    pub fn put(&mut self, key: &Key, view: &Arc<ClaimView>) {
        self.remove(key);
        let sizes = self.slots.entry(slot(view)).or_default();
        sizes.entry(view.requested).or_default().insert(key.clone());
        self.claims.insert(key.clone(), view.clone());
    }

    pub fn remove(&mut self, key: &Key) {
        let Some(view) = self.claims.remove(key) else { return };
        let slot = slot(&view);
        let Some(sizes) = self.slots.get_mut(&slot) else { return };
        if let Some(keys) = sizes.get_mut(&view.requested) {
            keys.remove(key);
            if keys.is_empty() {
                sizes.remove(&view.requested);
            }
        }
        if sizes.is_empty() {
            self.slots.remove(&slot);
        }
    }

    /// The claim that makes the most of a volume that is free now; it waits no longer.
    pub fn take_for(&mut self, volume: &Obj, view: &VolumeView) -> Option<Key> {
        let slot = (view.class.clone(), view.attributes_class.clone(), view.block);
        let fitting = self.slots.get(&slot)?.range(..=view.capacity).rev().flat_map(|(_, keys)| keys);
        let wants = |key: &&Key| {
            self.claims.get(*key).is_some_and(|claim| {
                let selects = claim.selector.as_ref().is_none_or(|selector| {
                    selector.as_ref().is_ok_and(|selector| selector.matches(&|name| volume.label(name)))
                });
                view.modes.contains(claim.modes) && selects
            })
        };
        let key = fitting.take(LOOKED_AT).find(wants)?.clone();
        self.remove(&key);
        Some(key)
    }

    /// Those that ask for a class.
    pub fn of_class(&self, class: &str) -> Vec<Key> {
        let from: Slot = (class.into(), "".into(), false);
        let slots = self.slots.range(from..).take_while(|(slot, _)| *slot.0 == *class);
        slots.flat_map(|(_, sizes)| sizes.values().flatten()).cloned().collect()
    }

    /// Those that ask for none and may be given the default one.
    pub fn without_class(&self) -> Vec<Key> {
        let mut keys = self.of_class("");
        keys.retain(|key| self.claims.get(key).is_some_and(|view| view.class.is_none()));
        keys
    }
}

fn slot(view: &ClaimView) -> Slot {
    (view.class_name().into(), view.attributes_class.clone(), view.block)
}
