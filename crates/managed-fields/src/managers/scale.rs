//! The owners of a resource's replicas as those of its scale, and back.

use catalog::Name;

use super::{Manager, ManagerId, Managers, Operation};
use crate::path::PathElement;
use crate::set::Set;

const SCALE: Name = Name::Static("autoscaling/v1");

/// Where a version of the resource has its replicas.
#[derive(Clone, Copy, Debug)]
pub enum ReplicasPath<'a> {
    /// There is no such version.
    Unknown,
    /// A version without scale.
    None,
    At(&'a [PathElement]),
}

/// The managers of an object whose scale is written.
pub struct ScaleManagers<'a> {
    pub parent: Managers,
    /// The version of the object that is written.
    pub api_version: Name,
    pub paths: &'a dyn Fn(&str) -> ReplicasPath<'a>,
}

impl ScaleManagers<'_> {
    fn replicas() -> Set {
        Set::of_fields(&[&["spec", "replicas"]])
    }

    /// The managers of the scale: those who own the replicas.
    pub fn to_scale(&self) -> Managers {
        let mut scale = Managers::default();
        for manager in self.parent.iter() {
            if let ReplicasPath::At(path) = (self.paths)(&manager.id.api_version)
                && manager.set().has(path)
            {
                let id = ManagerId { api_version: SCALE, ..manager.id.clone() };
                scale.put(Manager::new(id, ScaleManagers::replicas(), manager.time));
            }
        }
        scale
    }

    /// The managers of the object after the scale was written.
    pub fn to_parent(self, mut scale: Managers) -> Managers {
        let mut parent = Managers::default();
        let times: Vec<(ManagerId, Option<i64>)> =
            self.parent.iter().map(|manager| (manager.id.clone(), manager.time)).collect();
        for mut manager in self.parent.0 {
            let path = match (self.paths)(&manager.id.api_version) {
                ReplicasPath::Unknown => continue,
                ReplicasPath::At(path) if manager.set().has(path) => path,
                _ => {
                    parent.0.push(manager);
                    continue;
                }
            };
            // Who updates is another one in another version: its replicas come back below, as those of the scale.
            if scale.remove(&manager.id).is_none() {
                let mut replicas = Set::new();
                replicas.insert(path);
                let rest = manager.set().difference(&replicas);
                manager.replace_set(rest);
            }
            if !manager.set().is_empty() {
                parent.0.push(manager);
            }
        }
        let ReplicasPath::At(path) = (self.paths)(&self.api_version) else { return parent };
        let mut replicas = Set::new();
        replicas.insert(path);
        let in_scale = [PathElement::field("spec"), PathElement::field("replicas")];
        for manager in scale.0.into_iter().filter(|manager| manager.set().has(&in_scale)) {
            // Upstream looks for the time of the parent's manager, and there is one only of those who apply.
            let time = times.iter().find(|(own, _)| *own == manager.id).and_then(|(_, time)| *time);
            let id = ManagerId { api_version: self.api_version.clone(), ..manager.id };
            let manager = Manager::new(id, replicas.clone(), time);
            match manager.id.operation {
                Operation::Apply => parent.put(manager),
                // Of another version until now, and so somebody else.
                Operation::Update => parent.0.push(manager),
            }
        }
        parent
    }
}
