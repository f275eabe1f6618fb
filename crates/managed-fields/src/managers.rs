//! Who owns which fields: `metadata.managedFields` as sets.
//!
//! A manager is known by its name, operation and subresource, and when it updates also by the version: who applies the same
//! configuration in another version is still the same.

mod decode;
mod encode;
mod scale;

use std::cmp::Ordering;

use catalog::Name;
use object::Value;

use crate::path::{Escape, write_string};
use crate::set::Set;

pub use decode::DecodeError;
pub use scale::{ReplicasPath, ScaleManagers};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What identifies a manager, and the version its fields are of.
#[derive(Clone, Debug)]
pub struct ManagerId {
    pub name: Name,
    pub operation: Operation,
    pub api_version: Name,
    /// Empty for the object itself.
    pub subresource: Name,
}

impl PartialEq for ManagerId {
    fn eq(&self, other: &ManagerId) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

impl ManagerId {
    /// Upstream's identifier of a manager, which some orders go by: the JSON of what identifies it.
    pub(crate) fn identifier(&self) -> String {
        let mut out = String::from("{");
        let version = if self.operation == Operation::Update { self.api_version.as_str() } else { "" };
        let members = [
            ("manager", self.name.as_str()),
            ("operation", self.operation.as_str()),
            ("apiVersion", version),
            ("subresource", self.subresource.as_str()),
        ];
        for (name, value) in members.into_iter().filter(|(_, value)| !value.is_empty()) {
            if out.len() > 1 {
                out.push(',');
            }
            write_string(name, Escape::Html, &mut out);
            out.push(':');
            write_string(value, Escape::Html, &mut out);
        }
        out.push('}');
        out
    }
}

/// As messages name it: `"kubectl" with subresource "status" using apps/v1`.
impl std::fmt::Display for ManagerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&object::quote(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", object::quote(&self.subresource))?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

/// A manager and its fields.
#[derive(Clone, Debug)]
pub struct Manager {
    pub id: ManagerId,
    /// Seconds since 1970.
    pub time: Option<i64>,
    set: Set,
    /// `FieldsV1` of the set where it was read from, so that it need not be made again.
    fields: Option<Value>,
}

impl Manager {
    pub fn new(id: ManagerId, set: Set, time: Option<i64>) -> Manager {
        Manager { id, time, set, fields: None }
    }

    pub fn set(&self) -> &Set {
        &self.set
    }

    pub fn replace_set(&mut self, set: Set) {
        if !set.is_same(&self.set) {
            self.fields = None;
            self.set = set;
        }
    }
}

/// All managers of an object; each once, in any order.
#[derive(Clone, Debug, Default)]
pub struct Managers(Vec<Manager>);

impl Managers {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn iter(&self) -> impl Iterator<Item = &Manager> {
        self.0.iter()
    }
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Manager> {
        self.0.iter_mut()
    }
    pub(crate) fn retain(&mut self, keep: impl FnMut(&Manager) -> bool) {
        self.0.retain(keep);
    }
    pub fn get(&self, id: &ManagerId) -> Option<&Manager> {
        self.0.iter().find(|manager| manager.id == *id)
    }
    pub(crate) fn get_mut(&mut self, id: &ManagerId) -> Option<&mut Manager> {
        self.0.iter_mut().find(|manager| manager.id == *id)
    }
    pub(crate) fn remove(&mut self, id: &ManagerId) -> Option<Manager> {
        let at = self.0.iter().position(|manager| manager.id == *id)?;
        Some(self.0.remove(at))
    }
    /// Replaces the manager of that identity, or adds it.
    pub fn put(&mut self, manager: Manager) {
        match self.get_mut(&manager.id) {
            Some(own) => *own = manager,
            None => self.0.push(manager),
        }
    }

    /// Merges the oldest updates of a version into one, until there are at most so many managers that update.
    pub(crate) fn cap_updates(&mut self, max: usize) {
        let is_update = |manager: &&Manager| manager.id.operation == Operation::Update;
        let mut count = self.0.iter().filter(is_update).count();
        if count <= max {
            return;
        }
        let mut updaters: Vec<ManagerId> = {
            let mut found: Vec<_> = self.0.iter().filter(is_update).collect();
            found.sort_by(|a, b| by_age(a, b));
            found.into_iter().map(|manager| manager.id.clone()).collect()
        };
        // The first of each version, until a second one comes.
        let mut firsts: Vec<ManagerId> = Vec::new();
        for id in updaters.drain(..) {
            if count <= max {
                break;
            }
            let Some(first) = firsts.iter().find(|first| first.api_version == id.api_version) else {
                firsts.push(id);
                continue;
            };
            let bucket = ManagerId {
                name: Name::Static("ancient-changes"),
                operation: Operation::Update,
                api_version: id.api_version.clone(),
                subresource: Name::EMPTY,
            };
            if self.get(&bucket).is_none()
                && let Some(mut manager) = self.remove(first)
            {
                manager.id = bucket.clone();
                self.0.push(manager);
            }
            let Some(manager) = self.get(&id).cloned() else { continue };
            let merged = self.get(&bucket).map(|bucket| manager.set.union(&bucket.set));
            let Some(merged) = merged else { continue };
            self.remove(&id);
            self.put(Manager::new(bucket, merged, manager.time));
            count -= 1;
        }
    }
}

fn by_age(a: &Manager, b: &Manager) -> Ordering {
    let seconds = |manager: &Manager| manager.time.unwrap_or(0);
    seconds(a).cmp(&seconds(b)).then_with(|| a.id.identifier().cmp(&b.id.identifier()))
}
