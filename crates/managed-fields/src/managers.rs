//! Who owns which fields: `metadata.managedFields` as sets.
//!
//! A manager is known by its name, operation and subresource, and when it updates also by the version: who applies the same
//! configuration in another version is still the same.

mod decode;
mod encode;
mod scale;

use catalog::Name;

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
    text: Option<Box<str>>,
}

impl Manager {
    pub fn new(id: ManagerId, set: Set, time: Option<i64>) -> Manager {
        Manager { id, time, set, text: None }
    }

    pub fn set(&self) -> &Set {
        &self.set
    }

    /// Takes the text of one that owns the same fields.
    pub(crate) fn take_text(&mut self, other: Manager) {
        if self.text.is_none() && other.text.is_some() && self.set == other.set {
            self.text = other.text;
        }
    }

    pub fn replace_set(&mut self, set: Set) {
        if !set.is_same(&self.set) {
            self.text = None;
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
        let mut updaters: Vec<usize> =
            (0..self.0.len()).filter(|i| self.0[*i].id.operation == Operation::Update).collect();
        let mut count = updaters.len();
        if count <= max {
            return;
        }
        updaters.sort_by_cached_key(|i| {
            let manager = &self.0[*i];
            (manager.time.unwrap_or(0), manager.id.identifier())
        });
        let mut buckets: Vec<Bucket> = Vec::new();
        let mut merged = vec![false; self.0.len()];
        for i in updaters {
            if count <= max {
                break;
            }
            let version = &self.0[i].id.api_version;
            let Some(bucket) = buckets.iter_mut().find(|bucket| bucket.id.api_version == *version) else {
                let id = ManagerId {
                    name: Name::Static("ancient-changes"),
                    operation: Operation::Update,
                    api_version: version.clone(),
                    subresource: Name::EMPTY,
                };
                let into = self.0.iter().position(|manager| manager.id == id);
                buckets.push(Bucket { id, first: i, into, time: None, sets: Vec::new() });
                continue;
            };
            let into = *bucket.into.get_or_insert(bucket.first);
            // Differs from kube-apiserver: it merges the bucket into itself and then drops it, with all that it owned.
            if i == into {
                continue;
            }
            bucket.sets.push(self.0[i].set.clone());
            bucket.time = self.0[i].time;
            merged[i] = true;
            count -= 1;
        }
        for Bucket { id, into, time, mut sets, .. } in buckets {
            if let Some(into) = into.filter(|_| !sets.is_empty()) {
                sets.push(self.0[into].set.clone());
                self.0[into] = Manager::new(id, Set::union_all(sets), time);
            }
        }
        let mut merged = merged.into_iter();
        self.0.retain(|_| !merged.next().unwrap_or(false));
    }
}

/// What the oldest updates of a version are merged into.
struct Bucket {
    id: ManagerId,
    /// The oldest of them, which becomes the bucket if there is none yet.
    first: usize,
    into: Option<usize>,
    /// Of the newest of them.
    time: Option<i64>,
    sets: Vec<Set>,
}
