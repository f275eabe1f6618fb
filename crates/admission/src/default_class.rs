//! DefaultStorageClass and DefaultIngressClass: who names no class gets the one marked as the default, the newest
//! of several.

use std::sync::Arc;

use codec::json;
use object::{Obj, Status, Value};

use crate::tree::{annotation, member};
use crate::{Attempt, Effects, Memo, Operation, Plugin, Refusal};

/// Claims without a class.
pub struct DefaultStorageClass {
    default: Memo<Option<String>>,
}

/// Ingresses without a class.
pub struct DefaultIngressClass {
    default: Memo<Option<String>>,
}

const STORAGE_MARKS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
const INGRESS_MARKS: &[&str] = &["ingressclass.kubernetes.io/is-default-class"];
/// How a claim named its class before it had a field for it.
pub(crate) const OLD_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const OLD_INGRESS_CLASS: &str = "kubernetes.io/ingress.class";

impl Default for DefaultStorageClass {
    fn default() -> Self {
        DefaultStorageClass { default: Memo::of("storage.k8s.io", "storageclasses") }
    }
}

impl Default for DefaultIngressClass {
    fn default() -> Self {
        DefaultIngressClass { default: Memo::of("networking.k8s.io", "ingressclasses") }
    }
}

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation == Operation::Create && attempt.is("", "persistentvolumeclaims") {
            let default = || self.default.get(attempt, |all| list_newest(all, STORAGE_MARKS));
            complete(new, OLD_STORAGE_CLASS, "storageClassName", default)?;
        }
        Ok(())
    }
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn mutate(&self, attempt: &Attempt<'_>, new: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation == Operation::Create && attempt.is("networking.k8s.io", "ingresses") {
            let default = || self.default.get(attempt, |all| list_newest(all, INGRESS_MARKS));
            complete(new, OLD_INGRESS_CLASS, "ingressClassName", default)?;
        }
        Ok(())
    }
}

fn complete(
    new: &mut Value,
    old_name: &str,
    field: &'static str,
    default: impl FnOnce() -> Result<Option<Arc<Option<String>>>, Status>,
) -> Result<(), Status> {
    // An empty class is a choice too: none.
    let named = new.get("spec").and_then(|spec| member(spec, field)).is_some();
    if named || annotation(new, old_name).is_some() {
        return Ok(());
    }
    if let Some(class) = default()?.as_deref().and_then(Option::as_deref) {
        new.map_at(&["spec"]).set(field, class);
    }
    Ok(())
}

/// The newest class with one of the marks; of equally new ones the first by name.
fn list_newest(objects: Vec<Arc<Obj>>, marks: &[&str]) -> Option<String> {
    let mut found: Option<(String, String)> = None;
    // In order of names, so that only a newer one takes the place.
    for obj in objects {
        let Ok(tree) = json::parse(obj.body(), None) else { continue };
        if !marks.iter().any(|mark| annotation(&tree, mark) == Some("true")) {
            continue;
        }
        let made = tree.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned();
        if found.as_ref().is_none_or(|(newest, _)| made > *newest) {
            found = Some((made, obj.name().to_owned()));
        }
    }
    found.map(|(_, name)| name)
}
