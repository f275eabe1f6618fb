//! What a write does to the sets of all managers.

mod prune;

use catalog::Name;
use object::Value;
use thiserror::Error;

use crate::conflict::{Conflict, Conflicts};
use crate::managers::{Manager, ManagerId, Managers};
use crate::schema::TypeRef;
use crate::set::{Filter, Set};
use crate::typed::{self, Comparison, Duplicates};
use crate::values::equal;

/// Objects in other versions.
pub trait Converter {
    /// The type of an object in a version; `None` if there is no such version (any more).
    fn type_of(&self, api_version: &str) -> Option<TypeRef<'_>>;

    /// Whether managers of a version that has no type are forgotten, or why nothing can be done while there are any.
    fn check_missing(&self, _api_version: &str) -> Result<(), String> {
        Ok(())
    }

    /// The object in a version that has a type. It is never asked for the version the object has.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Why a write has no outcome.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum UpdateError {
    #[error("{0}")]
    Conflicts(Conflicts),
    /// In upstream's words, one `failed to` after the other.
    #[error("{0}")]
    Failed(String),
}

pub(crate) fn failed(step: &str, why: impl std::fmt::Display) -> UpdateError {
    UpdateError::Failed(format!("{step}: {why}"))
}

/// The fields of each version that a write does not own, because they are reset anyway.
pub type ResetFields = [(Name, Filter)];

pub(crate) struct Updater<'a> {
    pub(crate) converter: &'a dyn Converter,
    pub(crate) reset: &'a ResetFields,
}

/// An object in other versions.
type Others = Vec<(Name, Value)>;

/// An object in one of its versions.
#[derive(Clone, Copy)]
pub(crate) struct Versioned<'a> {
    pub(crate) value: &'a Value,
    pub(crate) ty: TypeRef<'a>,
    pub(crate) api_version: &'a str,
}

impl<'a> Updater<'a> {
    fn filter(&self, api_version: &str) -> Option<&'a Filter> {
        self.reset.iter().find(|(version, _)| version.as_str() == api_version).map(|(_, filter)| filter)
    }

    /// After any write but apply: whoever wrote owns what has changed, and nobody else does. It is returned as a set.
    pub(crate) fn update(
        &self,
        live: Versioned<'_>,
        new: &Value,
        managers: &mut Managers,
    ) -> Result<Set, UpdateError> {
        let others = self.reconcile(live, managers)?;
        let comparison = self.take(live, &others, new, managers, None, true)?;
        let set = comparison.modified.union(&comparison.added);
        Ok(match self.filter(live.api_version) {
            Some(filter) => filter.apply(&set),
            None => set,
        })
    }

    /// The object with the configuration applied, or `None` if that changes nothing.
    pub(crate) fn apply(
        &self,
        live: Versioned<'_>,
        config: &Value,
        managers: &mut Managers,
        id: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, UpdateError> {
        let others = self.reconcile(live, managers)?;
        let merged = typed::merge(live.value, config, live.ty);
        let merged = merged.map_err(|why| failed("failed to merge config", why))?;
        let mut set = typed::field_set(config, live.ty);
        if let Some(filter) = self.filter(live.api_version) {
            set = filter.apply(&set);
        }
        let last = managers.remove(id);
        let time = last.as_ref().and_then(|last| last.time);
        managers.put(Manager::new(id.clone(), set, time));
        let new = self.prune(live, merged, managers, id, last.as_ref());
        let new = new.map_err(|why| failed("failed to prune fields", why))?;
        self.take(live, &others, &new, managers, Some(id), force)?;
        Ok((!equal(live.value, &new)).then_some(new))
    }

    /// Sets from before a schema changed, and nothing of versions that are gone. Returns the object in the managers' versions
    /// other than its own.
    fn reconcile(&self, live: Versioned<'_>, managers: &mut Managers) -> Result<Others, UpdateError> {
        if let Some(broken) = managers.iter().map(|m| &m.id.api_version).find(|v| v.matches('/').count() > 1)
        {
            return Err(UpdateError::Failed(format!("unexpected GroupVersion string: {broken}")));
        }
        let is_known = |manager: &Manager| self.converter.type_of(&manager.id.api_version).is_some();
        for missing in managers.iter().filter(|manager| !is_known(manager)) {
            self.converter.check_missing(&missing.id.api_version).map_err(UpdateError::Failed)?;
        }
        managers.retain(is_known);
        let mut others = Others::new();
        for manager in managers.iter_mut() {
            let version = &manager.id.api_version;
            let Some(ty) = self.converter.type_of(version) else { continue };
            if version.as_str() != live.api_version && !others.iter().any(|(known, _)| known == version) {
                let converted = self.convert(live.value, version, ty).map_err(UpdateError::Failed)?;
                others.push((version.clone(), converted));
            }
            if let Some(set) = typed::reconcile(manager.set(), ty) {
                manager.replace_set(set);
            }
        }
        Ok(others)
    }

    /// Takes from all managers but `own` what the write changes or removes.
    fn take(
        &self,
        old: Versioned<'_>,
        others: &Others,
        new: &Value,
        managers: &mut Managers,
        own: Option<&ManagerId>,
        force: bool,
    ) -> Result<Comparison, UpdateError> {
        let is_other = |manager: &Manager| own.is_none_or(|own| manager.id != *own);
        let compare = |old: &Value, new: &Value, ty, version: &str| {
            let mut found =
                typed::compare(old, new, ty).map_err(|why| failed("failed to compare objects", why))?;
            found.filter(self.filter(version));
            Ok::<_, UpdateError>(found)
        };
        let own_version = Name::from(old.api_version.to_owned());
        let mut versions = vec![(&own_version, compare(old.value, new, old.ty, old.api_version)?)];
        for (version, old) in others {
            let is_of = |manager: &Manager| is_other(manager) && manager.id.api_version == *version;
            let Some(ty) = self.converter.type_of(version).filter(|_| managers.iter().any(is_of)) else {
                continue;
            };
            let new = self.convert(new, version, ty);
            let new = new.map_err(|why| failed("failed to convert new object", why))?;
            versions.push((version, compare(old, &new, ty, version)?));
        }

        let mut conflicts = Vec::new();
        let mut rest: Vec<(usize, Set)> = Vec::new();
        for (i, manager) in managers.iter().enumerate() {
            let version = versions.iter().find(|(version, _)| **version == manager.id.api_version);
            let found = version.map(|(_, found)| found).filter(|found| !found.is_same() && is_other(manager));
            let Some(found) = found else { continue };
            let taken =
                manager.set().intersection(&found.modified).union(&manager.set().intersection(&found.added));
            if !taken.is_empty() && !force {
                taken.for_each(&mut |path| {
                    conflicts.push(Conflict { manager: manager.id.clone(), path: path.to_vec() });
                });
            }
            rest.push((i, manager.set().difference(&taken).difference(&found.removed)));
        }
        if !conflicts.is_empty() {
            return Err(UpdateError::Conflicts(Conflicts::new(conflicts)));
        }
        let mut rest = rest.into_iter().peekable();
        for (i, manager) in managers.iter_mut().enumerate() {
            if let Some((_, set)) = rest.next_if(|(at, _)| *at == i) {
                manager.replace_set(set);
            }
        }
        managers.retain(|manager| !manager.set().is_empty());
        Ok(versions.swap_remove(0).1)
    }

    /// An object in another version, valid there.
    fn convert(&self, value: &Value, version: &str, ty: TypeRef<'_>) -> Result<Value, String> {
        let converted = self.converter.convert(value, version)?;
        typed::validate(&converted, ty, Duplicates::Refused).map_err(|why| why.to_string())?;
        Ok(converted)
    }
}
