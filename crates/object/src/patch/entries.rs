//! A map opened for many changes by name: unique names, quick to find however many there are.

use std::collections::HashMap;

use catalog::Name;

use crate::{Map, Value, discard};

/// Above this many names a search through all of them is slower than a table.
const SMALL: usize = 24;

/// The entries of a [`Map`] while a patch works on them. A patch and a document of a hundred thousand
/// names each must not cost their product.
pub(super) struct Entries {
    /// Emptied by `remove`, so that the other positions stay.
    slots: Vec<Option<(Name, Value)>>,
    /// Positions by name; only once there are more than [`SMALL`].
    table: Option<HashMap<Name, usize>>,
}

impl Entries {
    /// Of a name that occurs twice the last value stays, as in Go.
    pub fn open(map: Map) -> Entries {
        let mut out = Entries { slots: Vec::with_capacity(map.len()), table: None };
        for (name, value) in map {
            out.set(name, value);
        }
        out
    }

    pub fn close(self) -> Map {
        self.slots.into_iter().flatten().collect()
    }

    fn position(&self, name: &str) -> Option<usize> {
        match &self.table {
            Some(table) => table.get(name).copied(),
            None => self.slots.iter().position(|slot| slot.as_ref().is_some_and(|(n, _)| n == name)),
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        let at = self.position(name)?;
        self.slots[at].as_ref().map(|(_, v)| v)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        let at = self.position(name)?;
        self.slots[at].as_mut().map(|(_, v)| v)
    }

    /// In place where the name exists, else at the end.
    pub fn set(&mut self, name: Name, value: Value) {
        if let Some(slot) = self.get_mut(&name) {
            discard(std::mem::replace(slot, value));
            return;
        }
        let at = self.slots.len();
        if let Some(table) = &mut self.table {
            table.insert(name.clone(), at);
        }
        self.slots.push(Some((name, value)));
        if self.table.is_none() && self.slots.len() > SMALL {
            let names = self.slots.iter().enumerate();
            self.table = Some(names.filter_map(|(i, s)| s.as_ref().map(|(n, _)| (n.clone(), i))).collect());
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let at = self.position(name)?;
        if let Some(table) = &mut self.table {
            table.remove(name);
        }
        self.slots[at].take().map(|(_, v)| v)
    }

    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        for slot in &mut self.slots {
            if let Some((name, _)) = slot
                && !keep(name)
            {
                if let Some(table) = &mut self.table {
                    table.remove(name);
                }
                slot.take().into_iter().for_each(|(_, value)| discard(value));
            }
        }
    }
}
