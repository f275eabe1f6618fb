//! Whose children are whose: the candidates of an owner, looked up in the caches, and what its selector says of them.
//!
//! Adoption and release themselves are [`runtime::owners::claim`], the same for every owner.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use object::Obj;
use object::Value;
use object::selector::LabelSelector;
use runtime::{BY_CONTROLLER, Informer, owners};

/// An owner's selector, or why it cannot be used. Validation lets none through that cannot, but a later or an earlier
/// version's may: who cannot tell which children it means must neither take nor let go of any.
pub(crate) type Selector = Result<LabelSelector, String>;

/// Objects nobody controls, by namespace: few, and the only ones an owner must look through.
const ORPHANS: &str = "orphans";

/// `spec.selector` of an owner.
pub(crate) fn selector(value: Option<&Value>) -> Selector {
    match value {
        None | Some(Value::Null) => Err("there is none".to_owned()),
        Some(value @ Value::Map(_)) => LabelSelector::from_label_selector(value),
        Some(_) => Err("it is not an object".to_owned()),
    }
}

/// A selector that means everything would take all that is free in its namespace.
pub(crate) fn not_everything(selector: Selector) -> Selector {
    selector.and_then(|s| if s.is_everything() { Err("it is empty".to_owned()) } else { Ok(s) })
}

pub(crate) fn matches(selector: &Selector, obj: &Obj) -> bool {
    selector.as_ref().is_ok_and(|selector| selector.matches(&|name| obj.label(name)))
}

/// Has to be called before [`candidates`].
pub(crate) fn index_orphans(children: &Informer) {
    children.store().add_index(ORPHANS, |obj| {
        if owners::controller_of(obj).is_none() { vec![obj.namespace().to_owned()] } else { Vec::new() }
    });
}

/// What the owner controls, and orphans its selector means, each once.
pub(crate) fn candidates(children: &Informer, owner: &Obj, selector: &Selector) -> Vec<Arc<Obj>> {
    candidates_among(children, owner, selector, ORPHANS, owner.namespace())
}

/// The same for an owner that can name its orphans more closely, by an index of its own.
pub(crate) fn candidates_among(
    children: &Informer,
    owner: &Obj,
    selector: &Selector,
    index: &'static str,
    value: &str,
) -> Vec<Arc<Obj>> {
    // Orphans first: one that is adopted between the two looks is seen twice, never missed.
    let mut orphans = children.store().by_index(index, value);
    let mut own = children.store().by_index(BY_CONTROLLER, owner.uid());
    // Whoever writes our uid into an object elsewhere does not give it to us.
    own.retain(|obj| obj.namespace() == owner.namespace());
    let is_own = |orphan: &Arc<Obj>| own.binary_search_by(|obj| obj.path().cmp(orphan.path())).is_ok();
    orphans.retain(|orphan| matches(selector, orphan) && !is_own(orphan));
    own.extend(orphans);
    own
}
