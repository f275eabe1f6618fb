//! Device classes: what kinds of devices an administrator names.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use object::Value;

use crate::claim::Selector;
use crate::read::{list, some_text};

/// Every class is an extended resource of this prefix and its name.
pub const RESOURCE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

#[derive(Debug)]
pub struct DeviceClass {
    pub name: Arc<str>,
    pub selectors: Vec<Selector>,
    /// `DeviceClassConfiguration`s.
    pub config: Vec<Value>,
    /// The extended resource that stands for devices of this class.
    pub extended_resource_name: Option<Arc<str>>,
    /// As it is stored.
    pub created: Arc<str>,
}

impl DeviceClass {
    pub fn parse(tree: &Value) -> DeviceClass {
        let none = Value::Null;
        let spec = tree.get("spec").unwrap_or(&none);
        DeviceClass {
            name: tree.str_at(&["metadata", "name"]).unwrap_or("").into(),
            selectors: Selector::parse_all(spec),
            config: list(spec, "config").to_vec(),
            extended_resource_name: some_text(spec, "extendedResourceName"),
            created: tree.str_at(&["metadata", "creationTimestamp"]).unwrap_or("").into(),
        }
    }
}

#[derive(Debug, Default)]
pub struct Classes {
    by_name: HashMap<Arc<str>, Arc<DeviceClass>>,
    /// Names of classes by extended resource: the newest first, then by name.
    by_resource: HashMap<Arc<str>, BTreeSet<Rank>>,
}

/// When a class was created, and its name.
type Rank = (Reverse<Arc<str>>, Arc<str>);

impl Classes {
    /// The answer is what was there before.
    pub fn set(&mut self, name: &str, new: Option<DeviceClass>) -> Option<Arc<DeviceClass>> {
        let old = self.by_name.remove(name);
        if let Some(old) = &old
            && let Some(resource) = &old.extended_resource_name
            && let Some(classes) = self.by_resource.get_mut(resource)
        {
            classes.remove(&(Reverse(old.created.clone()), old.name.clone()));
            if classes.is_empty() {
                self.by_resource.remove(resource);
            }
        }
        if let Some(new) = new {
            if let Some(resource) = &new.extended_resource_name {
                let classes = self.by_resource.entry(resource.clone()).or_default();
                classes.insert((Reverse(new.created.clone()), new.name.clone()));
            }
            self.by_name.insert(name.into(), Arc::new(new));
        }
        old
    }

    pub fn get(&self, name: &str) -> Option<&Arc<DeviceClass>> {
        self.by_name.get(name)
    }

    /// The class an extended resource stands for: of several the newest, then the first by name.
    pub fn for_extended_resource(&self, resource: &str) -> Option<&Arc<DeviceClass>> {
        if let Some(name) = resource.strip_prefix(RESOURCE_CLASS_PREFIX)
            && let Some(class) = self.by_name.get(name)
        {
            return Some(class);
        }
        let (_, name) = self.by_resource.get(resource)?.first()?;
        self.by_name.get(name)
    }
}
