//! What a write does to `metadata.managedFields`: the one entry to this crate for a server.
//!
//! ```text
//! update   managers of the request or the live object ── first write? track it ── who wrote owns what has changed ── at most ten
//! apply    managers of the live object ── first apply? all belongs to before-first-apply ── merge, prune, conflicts
//!          └─ of kubectl: fields of the last-applied annotation are no conflicts, and the annotation follows
//! ```

mod last_applied;
mod times;

use std::sync::LazyLock;

use catalog::Name;
use object::{Status, Value, time};
use thiserror::Error;

use crate::conflict::Conflicts;
use crate::managers::{Manager, ManagerId, Managers, Operation};
use crate::schema::TypeRef;
use crate::set::Set;
use crate::typed::{self, Duplicates};
use crate::updater::{Converter, ResetFields, UpdateError, Updater, Versioned, failed};

pub use times::keep_times_of_unchanged;

/// Updates are kept apart for so many managers.
const MAX_UPDATE_MANAGERS: usize = 10;

/// The field manager of a kind in a version, for one write.
pub struct FieldManager<'a> {
    /// `apps/v1`.
    pub api_version: &'a str,
    pub kind: &'a str,
    pub ty: TypeRef<'a>,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub converter: &'a dyn Converter,
    /// What the strategy resets, by version.
    pub reset: &'a ResetFields,
    /// The canonical form of an object of which nothing is set: `apiVersion`, `kind`, and of built-in kinds the structs that are
    /// always written.
    pub empty: &'a Value,
    /// Seconds since 1970.
    pub now: i64,
}

/// What came of an apply.
pub struct Applied {
    pub object: Value,
    /// Whether fields have new values. Else the object is the live one, but for who manages it (and kubectl's annotation).
    pub changed: bool,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ApplyError {
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Conflicts(Conflicts),
    #[error("{0}")]
    Failed(String),
}

impl From<ApplyError> for Status {
    fn from(error: ApplyError) -> Status {
        match error {
            ApplyError::BadRequest(message) => Status::bad_request(message),
            ApplyError::Conflicts(conflicts) => conflicts.status(),
            ApplyError::Failed(message) => Status::unknown(message),
        }
    }
}

impl From<UpdateError> for ApplyError {
    fn from(error: UpdateError) -> ApplyError {
        match error {
            UpdateError::Conflicts(conflicts) => ApplyError::Conflicts(conflicts),
            UpdateError::Failed(message) => ApplyError::Failed(message),
        }
    }
}

impl FieldManager<'_> {
    /// After every write but apply: `new` gets its `managedFields`. On an error it has none, as upstream, and the write goes on;
    /// the error is for the log.
    ///
    /// For a create, `live` is [`FieldManager::empty`]. In `new`, `managedFields` are what the client sent: an empty list, or one
    /// with nothing but an empty entry, clears them.
    pub fn update(&self, live: &Value, new: &mut Value, manager: &str) -> Result<(), UpdateError> {
        let sent = take_managed_fields(new);
        if let Some(fields) = self.managed_fields_after(live, new, sent, manager)? {
            new.map_at(&["metadata"]).set(Name::Static("managedFields"), fields);
        }
        Ok(())
    }

    /// As [`FieldManager::update`], for a `new` whose `managedFields` were taken out.
    pub fn managed_fields_after(
        &self,
        live: &Value,
        new: &Value,
        sent: Option<Value>,
        manager: &str,
    ) -> Result<Option<Value>, UpdateError> {
        let mut managers = self.managers_of(live, sent);
        self.track_update(live, new, &mut managers, manager)?;
        Ok(managers.encode())
    }

    fn managers_of(&self, live: &Value, sent: Option<Value>) -> Managers {
        // A subresource is no way to set the managers of the object.
        if self.subresource.is_empty() {
            if sent.as_ref().is_some_and(is_reset) {
                return Managers::default();
            }
            // Clients that do not know of them leave them out; who sends wrong ones is as if.
            match Managers::decode(sent) {
                Ok(managers) if !managers.is_empty() => return managers,
                _ => {}
            }
        }
        Managers::decode(managed_fields(live).cloned()).unwrap_or_default()
    }

    fn track_update(
        &self,
        live: &Value,
        new: &Value,
        managers: &mut Managers,
        manager: &str,
    ) -> Result<(), UpdateError> {
        // Objects from before there was tracking, or whose managers were cleared, wait for their first apply.
        if managers.is_empty() && live.str_at(&["metadata", "uid"]).is_some_and(|uid| !uid.is_empty()) {
            return Ok(());
        }
        self.update_managers(live, new, managers, manager)
    }

    fn update_managers(
        &self,
        live: &Value,
        new: &Value,
        managers: &mut Managers,
        manager: &str,
    ) -> Result<(), UpdateError> {
        for (object, which) in [(new, "new"), (live, "live")] {
            typed::validate_object(object, self.ty, Duplicates::Allowed).map_err(|why| {
                failed(
                    &format!("failed to convert {which} object ({}) to smd typed", self.named(object)),
                    why,
                )
            })?;
        }
        let set = self
            .updater()
            .update(self.versioned(live), new, managers)
            .map_err(|why| failed(&format!("failed to update ManagedFields ({})", self.named(new)), why))?;
        let set = set.difference(&STRIPPED);
        if !set.is_empty() {
            let id = self.id(manager, Operation::Update);
            let set = match managers.get(&id) {
                Some(before) => set.union(before.set()),
                None => set,
            };
            managers.put(Manager::new(id, set, Some(self.now)));
        }
        managers.cap_updates(MAX_UPDATE_MANAGERS);
        Ok(())
    }

    /// The object of [`FieldManager::merge`].
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, ApplyError> {
        Ok(self.merge(live, config, manager, force)?.object)
    }

    /// The live object with a configuration applied, and its new `managedFields`. Defaults are the caller's, and the canonical
    /// form: members of the configuration come last, and nulls are left.
    ///
    /// For a create, `live` is [`FieldManager::empty`].
    pub fn merge(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Applied, ApplyError> {
        let text = |name| config.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") != self.api_version || text("kind") != self.kind {
            // A version with two slashes is none, and then upstream has no kind either.
            let is_broken = text("apiVersion").matches('/').count() > 1;
            let kind =
                if is_broken { "/, Kind=".to_owned() } else { kind_text(text("apiVersion"), text("kind")) };
            return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
        }
        // Nothing below looks at them in the object: they would only be merged and compared.
        let (mut live, stored) = (live.clone(), live);
        let managers = Managers::decode(take_managed_fields(&mut live))
            .map_err(|why| ApplyError::Failed(format!("failed to decode managed fields: {why}")))?;
        let by_kubectl = manager == last_applied::KUBECTL;
        let mut outcome = self.apply_config(&live, config, managers, manager, force);
        if by_kubectl && let Err(ApplyError::Conflicts(conflicts)) = outcome {
            outcome = match self.without_last_applied(&live, conflicts) {
                None => {
                    let managers = Managers::decode(managed_fields(stored).cloned()).unwrap_or_default();
                    self.apply_config(&live, config, managers, manager, true)
                }
                Some(conflicts) => Err(ApplyError::Conflicts(conflicts)),
            };
        }
        let (new, managers) = outcome?;
        let changed = new.is_some();
        let mut object = new.unwrap_or(live);
        if by_kubectl {
            last_applied::follow(&mut object, config);
        }
        set_managed_fields(&mut object, managers);
        Ok(Applied { object, changed })
    }

    fn apply_config(
        &self,
        live: &Value,
        config: &Value,
        mut managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<(Option<Value>, Managers), ApplyError> {
        if managers.is_empty() {
            self.update_managers(self.empty, live, &mut managers, "before-first-apply").map_err(|why| {
                ApplyError::Failed(format!("failed to create manager for existing fields: {why}"))
            })?;
        }
        // What is no list of entries fails below, where all fields are checked.
        if managed_fields(config).and_then(Value::as_list).is_some_and(|sent| sent.iter().all(is_entry)) {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        let typed = |object, duplicates, which| {
            typed::validate(object, self.ty, duplicates).map_err(|why| {
                let named = self.named(object);
                ApplyError::Failed(format!("failed to create typed {which} object ({named}): {why}"))
            })
        };
        typed(config, Duplicates::Refused, "patch")?;
        typed(live, Duplicates::Allowed, "live")?;
        let id = self.id(manager, Operation::Apply);
        let last = managers.get(&id).cloned();
        let new = self.updater().apply(self.versioned(live), config, &mut managers, &id, force)?;
        if let Some(own) = managers.get_mut(&id) {
            let rest = own.set().difference(&STRIPPED);
            own.replace_set(rest);
            if let Some(last) = last {
                own.take_text(last);
            }
            if new.is_some() {
                own.time = Some(self.now);
            }
        }
        managers.retain(|manager| !manager.set().is_empty());
        Ok((new, managers))
    }

    fn updater(&self) -> Updater<'_> {
        Updater { converter: self.converter, reset: self.reset }
    }

    fn versioned<'v>(&'v self, value: &'v Value) -> Versioned<'v> {
        Versioned { value, ty: self.ty, api_version: self.api_version }
    }

    fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        let name = |text: &str| Name::from(text.to_owned());
        ManagerId {
            name: if manager.is_empty() { Name::Static("unknown") } else { name(manager) },
            operation,
            api_version: name(self.api_version),
            subresource: if self.subresource.is_empty() { Name::EMPTY } else { name(self.subresource) },
        }
    }

    /// An object in messages: `default/web; apps/v1, Kind=Deployment`.
    pub fn named(&self, object: &Value) -> String {
        let text = |path: &[&str]| object.str_at(path).unwrap_or_default().to_owned();
        let (namespace, name) = (text(&["metadata", "namespace"]), text(&["metadata", "name"]));
        format!("{namespace}/{name}; {}", self.kind_text())
    }

    /// The kind in messages: `apps/v1, Kind=Deployment`.
    pub fn kind_text(&self) -> String {
        kind_text(self.api_version, self.kind)
    }
}

/// `apps/v1, Kind=Deployment`; the core group is empty: `/v1, Kind=Pod`.
fn kind_text(api_version: &str, kind: &str) -> String {
    let core = if api_version.contains('/') { "" } else { "/" };
    format!("{core}{api_version}, Kind={kind}")
}

/// What nobody ever owns. The other members of `metadata` have owners.
static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
    Set::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

fn managed_fields(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"]).filter(|fields| !fields.is_null())
}

/// The `managedFields` of an object, which has none afterwards.
pub fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.as_map_mut()?.get_mut("metadata")?.as_map_mut()?.remove("managedFields")
}

fn set_managed_fields(object: &mut Value, managers: Managers) {
    match managers.encode() {
        Some(fields) => object.map_at(&["metadata"]).set(Name::Static("managedFields"), fields),
        None => drop(take_managed_fields(object)),
    }
}

/// Whether Go can read it as one.
fn is_entry(entry: &Value) -> bool {
    let is_text = |name| entry.get(name).is_none_or(|value| matches!(value, Value::Str(_) | Value::Null));
    let is_time =
        |value: &Value| value.is_null() || value.as_str().is_some_and(|text| time::parse(text).is_some());
    matches!(entry, Value::Map(_))
        && ["manager", "operation", "apiVersion", "fieldsType", "subresource"]
            .iter()
            .all(|name| is_text(name))
        && entry.get("time").is_none_or(is_time)
}

/// How a client clears the managers of an object.
fn is_reset(sent: &Value) -> bool {
    match sent.as_list() {
        Some([]) => true,
        Some([Value::Map(entry)]) => entry.iter().all(|(_, value)| value.is_null()),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
