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

/// Objects nobody controls, by namespace and by each of their labels.
const ORPHANS: &str = "orphans";

/// Objects by each of their labels, whoever controls them.
const BY_LABEL: &str = "label";

/// Owners, by a label that all they select have.
const BY_SELECTOR: &str = "selector";

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

/// A label that is on everything a selector means, if it names one.
fn label_of(selector: &LabelSelector) -> Option<(&str, &str)> {
    selector.requirements().iter().find_map(|r| Some((r.key.as_str(), selector.exact(&r.key)?)))
}

/// Where an index has what a selector means.
pub(crate) fn place(namespace: &str, selector: &LabelSelector) -> String {
    label_of(selector).map_or_else(|| namespace.to_owned(), |(name, value)| under(namespace, name, value))
}

/// All places an object may be meant from.
pub(crate) fn places(obj: &Obj) -> Vec<String> {
    let namespace = obj.namespace();
    let mut places = vec![namespace.to_owned()];
    places.extend(obj.labels().map(|(name, value)| under(namespace, name, value)));
    places
}

fn under(namespace: &str, name: &str, value: &str) -> String {
    format!("{namespace}\n{name}={value}")
}

/// Has to be called before [`candidates`].
pub(crate) fn index_orphans(children: &Informer) {
    children.store().add_index(ORPHANS, |obj| match owners::controller_of(obj) {
        Some(_) => Vec::new(),
        None => places(obj),
    });
}

/// Has to be called before [`selected`].
pub(crate) fn index_labels(objects: &Informer) {
    objects.store().add_index(BY_LABEL, |obj| {
        let namespace = obj.namespace();
        obj.labels().map(|(name, value)| under(namespace, name, value)).collect()
    });
}

/// What a selector means in a namespace, in the order of names.
pub(crate) fn selected(objects: &Informer, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Obj>> {
    let store = objects.store();
    let mut found = match label_of(selector) {
        Some((name, value)) => store.by_index(BY_LABEL, &under(namespace, name, value)),
        None => store.list_namespace(namespace),
    };
    found.retain(|obj| selector.matches(&|name| obj.label(name)));
    found
}

/// Has to be called before [`selecting`].
pub(crate) fn index_selectors(owners: &Informer, of: impl Fn(&Obj) -> Selector + Send + Sync + 'static) {
    owners.store().add_index(BY_SELECTOR, move |owner| {
        of(owner).map_or_else(|_| Vec::new(), |selector| vec![place(owner.namespace(), &selector)])
    });
}

/// Owners that may select an object: few more than do, in the order of their names.
pub(crate) fn selecting(owners: &Informer, obj: &Obj) -> Vec<Arc<Obj>> {
    let found = places(obj).into_iter().flat_map(|place| owners.store().by_index(BY_SELECTOR, &place));
    let mut found: Vec<Arc<Obj>> = found.collect();
    found.sort_by(|a, b| a.path().cmp(b.path()));
    found
}

/// What the owner controls, and orphans its selector means, each once.
pub(crate) fn candidates(children: &Informer, owner: &Obj, selector: &Selector) -> Vec<Arc<Obj>> {
    candidates_among(children, owner, selector, ORPHANS, &orphans_place(owner, selector))
}

fn orphans_place(owner: &Obj, selector: &Selector) -> String {
    match selector {
        Ok(selector) => place(owner.namespace(), selector),
        Err(_) => owner.namespace().to_owned(),
    }
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

/// What nobody controls and the owner's selector means.
pub(crate) fn wanted_orphans(children: &Informer, owner: &Obj, selector: &Selector) -> Vec<Arc<Obj>> {
    let mut orphans = children.store().by_index(ORPHANS, &orphans_place(owner, selector));
    orphans.retain(|orphan| matches(selector, orphan));
    orphans
}
