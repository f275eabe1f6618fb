//! Removes what a manager applied last time and does not any more, unless somebody else owns it.
//!
//! ```text
//! merged ── without all it owned last ──> pruned ── with what anybody owns ──> pruned ── with what it did not own itself
//! ```
//! The second and third step work out what of the first may stay removed; what is returned is always `merged` without something.

use std::borrow::Cow;

use catalog::Name;
use object::Value;

use super::{Updater, Versioned};
use crate::managers::{Manager, ManagerId, Managers};
use crate::schema::TypeRef;
use crate::set::Set;
use crate::typed::{field_set, remove_items, with_named_fields};

impl Updater<'_> {
    pub(super) fn prune(
        &self,
        live: Versioned<'_>,
        merged: Value,
        managers: &Managers,
        id: &ManagerId,
        last: Option<&Manager>,
    ) -> Result<Value, String> {
        let Some(last) = last.filter(|last| !last.set().is_empty()) else { return Ok(merged) };
        let version = &last.id.api_version;
        let same_version = version.as_str() == live.api_version;
        // What is applied again has its owner: nothing can be removed.
        if same_version
            && let Some(now) = managers.get(id)
            && last.set().difference(now.set()).is_empty()
        {
            return Ok(merged);
        }
        let Some(ty) = self.converter.type_of(version) else { return Ok(merged) };
        let step = |step: &'static str| move |why: String| format!("{step}: {why}");
        let merged_then = if same_version {
            merged
        } else {
            self.convert(&merged, version, ty)
                .map_err(step("failed to convert merged object to last applied version"))?
        };
        let owned_last = with_named_fields(last.set(), ty);
        let mut pruned = merged_then.clone();
        remove_items(&mut pruned, &owned_last, ty);
        let pruned = self
            .with_owned(&merged_then, pruned, version, managers)
            .map_err(step("failed add back owned items"))?;
        // In the version it was applied in last time.
        let pruned_set = with_named_fields(&field_set(&pruned, ty), ty);
        let merged_set = with_named_fields(&field_set(&merged_then, ty), ty);
        let gone = merged_set.difference(&pruned_set).intersection(&owned_last);
        let mut out = merged_then;
        remove_items(&mut out, &gone, ty);
        if same_version { Ok(out) } else { self.convert(&out, live.api_version, live.ty) }
    }

    /// `pruned` with what any manager owns, in the version `version`.
    fn with_owned(
        &self,
        merged: &Value,
        pruned: Value,
        version: &Name,
        managers: &Managers,
    ) -> Result<Value, String> {
        // First the version at hand: what was pruned may be needed to convert to others.
        let mut versions: Vec<(&Name, Vec<Set>)> = vec![(version, Vec::new())];
        for manager in managers.iter() {
            let of = &manager.id.api_version;
            match versions.iter_mut().find(|(known, _)| *known == of) {
                Some((_, sets)) => sets.push(manager.set().clone()),
                None => versions.push((of, vec![manager.set().clone()])),
            }
        }
        // Others in a fixed order.
        versions[1..].sort_by(|a, b| a.0.cmp(b.0));
        let mut merged = Cow::Borrowed(merged);
        let mut pruned = pruned;
        let mut here = version;
        for (of, managed) in versions {
            let Some(ty) = self.converter.type_of(of) else { continue };
            if of != here {
                let convert = |value: &Value, which| {
                    self.convert(value, of, ty)
                        .map_err(|why| format!("failed to convert {which} object at version {of}: {why}"))
                };
                merged = Cow::Owned(convert(&merged, "merged")?);
                pruned = convert(&pruned, "pruned")?;
                here = of;
            }
            if !managed.is_empty() {
                pruned = add_owned(&merged, &pruned, &Set::union_all(managed), ty);
            }
        }
        if here == version {
            return Ok(pruned);
        }
        let ty = self.converter.type_of(version).ok_or("no such version")?;
        self.convert(&pruned, version, ty)
            .map_err(|why| format!("failed to convert pruned object to last applied version: {why}"))
    }
}

fn add_owned(merged: &Value, pruned: &Value, managed: &Set, ty: TypeRef<'_>) -> Value {
    let named = |set: &Set| with_named_fields(set, ty);
    let kept = named(&field_set(pruned, ty)).union(&named(managed));
    let gone = named(&field_set(merged, ty)).difference(&kept);
    let mut out = merged.clone();
    remove_items(&mut out, &gone, ty);
    out
}
