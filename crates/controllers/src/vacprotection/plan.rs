//! Who uses a class.

use object::Value;

use crate::volumes::in_use::Protection;

pub const FINALIZER: &str = "kubernetes.io/vac-protection";

/// For a class that lives without the finalizer, or is deleted with it.
pub fn plan(deleting: bool, used: bool) -> Protection {
    Protection::of(deleting, || used)
}

/// The classes a claim or a volume names: the one it asks for, the one it has, the one it is just given.
pub fn classes_of(object: &Value) -> Vec<String> {
    let places: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let mut names: Vec<String> =
        places.iter().filter_map(|place| object.str_at(place)).map(str::to_owned).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    names.dedup();
    names
}

/// What it does not name any more.
pub fn left(mut old: Vec<String>, new: &[String]) -> Vec<String> {
    old.retain(|name| !new.contains(name));
    old
}
