//! What expressions are evaluated over.

use std::sync::{Arc, LazyLock};

use cel::library::authz::{Authorizer, RequestResource};
use object::Value;

/// The values of the variables. All are borrowed: inputs cost nothing until an expression reads them.
#[derive(Clone, Copy)]
pub struct Inputs<'i> {
    /// An `AdmissionRequest` without the objects.
    pub request: &'i dyn Source,
    pub object: Option<&'i Value>,
    pub old_object: Option<&'i Value>,
    pub params: Option<&'i Value>,
    /// The namespace of the request as [`namespace_object`] shows it; `None` for cluster-wide resources.
    pub namespace_object: Option<&'i dyn Source>,
    pub authorizer: Option<&'i dyn Authorization>,
    /// Whether nobody waits for the answer any more: evaluation then ends with an error.
    pub interrupted: Option<&'i (dyn Fn() -> bool + Sync)>,
}

impl Inputs<'_> {
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted())
    }
}

/// A tree that may have to be made first.
pub trait Source: Sync {
    fn value(&self) -> &Value;
}

impl Source for Value {
    fn value(&self) -> &Value {
        self
    }
}
impl<F: FnOnce() -> Value + Send> Source for LazyLock<Value, F> {
    fn value(&self) -> &Value {
        self
    }
}

/// Whom expressions ask what the user may.
pub trait Authorization: Sync {
    fn authorizer(&self) -> Arc<dyn Authorizer>;
    /// What `authorizer.requestResource` is about.
    fn request_resource(&self) -> RequestResource<'_>;
}

/// What expressions see of a namespace: neither its kind nor who manages its fields.
pub fn namespace_object(namespace: &Value) -> Value {
    const HIDDEN: [&str; 3] = ["managedFields", "ownerReferences", "selfLink"];
    let mut shown = Value::map();
    let map = shown.make_map();
    for name in ["metadata", "spec", "status"] {
        let mut part = namespace.get(name).cloned().unwrap_or_else(Value::map);
        if let Some(part) = part.as_map_mut() {
            part.retain(|field, _| name != "metadata" || !HIDDEN.contains(&field.as_str()));
        }
        map.set(name, part);
    }
    shown
}
