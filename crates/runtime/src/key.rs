//! What a queue holds: the place of an object, never the object.

use std::fmt;
use std::sync::Arc;

use object::Obj;

/// `namespace/name`, or `name` where there are no namespaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    pub fn new(namespace: &str, name: &str) -> Key {
        if namespace.is_empty() { Key(name.into()) } else { Key(format!("{namespace}/{name}").into()) }
    }
    pub fn of(obj: &Obj) -> Key {
        Key(obj.path().into())
    }
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&*self.0, |(_, name)| name)
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
