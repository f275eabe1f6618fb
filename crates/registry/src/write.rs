//! The one path every change of state takes; creates and patches come to it from their own files.
//!
//! ```text
//! create   decode ─ place ─ to storage version ─ system fields ─┐
//! update   old ─ decoded body ─┐                                 ├─ mutate ─ reserve ─ disabled fields ─ strategy ─ canonical ─┐
//! patch    old ─ patched, decoded ─ place, version, uid ─────────┘                                                             │
//!            commit with the effects ─ same bytes? answer old.  dry run? stop. ─ encode ─ validating admission ─ warn ─ validate
//!              └ conflict: again
//! ```

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ::managed_fields::keep_times_of_unchanged;
use admission::{Attempt, Authorize, Effects, Operation, Refusal};
use auth::Attributes;
use catalog::{Resource, Storage};
use cel_schema::Meter;
use kinds::{Context, Labels, Permission, Permissions, Requester};
use object::normalise::{Strict, normalise, normalise_decoded};
use object::{About, FieldError, Obj, Status, Value};
use store::{CommitError, Guard, Key, Op, Revision};
use table::Table;

use crate::admit::Phases;
use crate::convert::memo::Conversions;
use crate::convert::webhook::{Asked, converted_storage};
use crate::read::parse_unsigned;
use crate::subresource::ScaleChange;
use crate::{
    BodyType, Registry, RequestContext, ResourceResolver, convert, decode, managed_fields, store_failed,
};

/// Upstream's etcd refuses requests above this; so do all our engines, so that data can move between them.
const MAX_OBJECT_BYTES: usize = 3 * 512 * 1024;

/// Why the store refuses to create what is there.
const ALREADY_EXISTS: &str = "AlreadyExists";

/// What a write led to.
pub struct Written {
    pub obj: Arc<Obj>,
    pub created: bool,
    pub warnings: Vec<String>,
}

/// What a verb makes of the current object, both in the request's version.
pub(crate) type Verb<'v> = dyn FnMut(&Value) -> Result<(Value, Vec<String>), Status> + Send + 'v;

/// How a change treats versions and absence.
#[derive(Clone, Copy)]
pub(crate) struct ChangeRules<'a> {
    /// The new object must name a version unless the kind allows unconditional updates. A patch takes it over from the
    /// object, or takes it away.
    pub needs_version: bool,
    /// A uid that the new object names must be the object's (PUT); else it is left to validation, which calls the
    /// field immutable.
    pub names_uid: bool,
    pub creates: Creates,
    /// What it changes is noted as the request's; otherwise the verb did so itself, or nobody asked for it.
    pub tracked: bool,
    pub extended: Extended<'a>,
}

/// What policies and webhooks are shown of a change.
#[derive(Clone, Copy)]
pub(crate) enum Extended<'a> {
    /// The object.
    Whole,
    /// Its scale.
    Scale(&'a ScaleChange<'a>),
    /// Nothing: they were asked about the body that led to it.
    Not,
}

/// The versions extensions are shown: what is encoded has none.
struct ShownVersions<'a> {
    /// By the new object; may be empty.
    named: &'a str,
    current: &'a Obj,
}

/// What the server owns stays as it was when the client leaves it out.
fn keep_owned(new: &mut Value, old: &Value) {
    let metadata = new.map_at(&["metadata"]);
    metadata.remove("selfLink");
    for ours in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let absent = metadata.get(ours).is_none_or(Value::is_null);
        if absent && let Some(value) = old.at(&["metadata", ours]) {
            metadata.set(ours, value.clone());
        }
    }
    match old.at(&["metadata", "generation"]) {
        Some(generation) => metadata.set("generation", generation.clone()),
        None => {
            metadata.remove("generation");
        }
    }
}

fn set_version(object: &mut Value, version: &str) {
    if !version.is_empty() {
        object.map_at(&["metadata"]).set("resourceVersion", version);
    }
}

/// Whether an absent object is created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creates {
    Never,
    /// PUT: where the kind allows it.
    IfAllowed,
    /// Apply.
    Always,
}

/// A key as a conflict names it: upstream's dry run does not add the prefix of its store.
pub(crate) fn key_in_message(key: &str, dry_run: bool) -> &str {
    key.strip_prefix("/registry").filter(|_| dry_run).unwrap_or(key)
}

impl Registry {
    pub async fn update(&self, request: &RequestContext<'_>, body: Value) -> Result<Written, Status> {
        let (mut new, mut warnings) = decode::object(
            request.catalog,
            BodyType::of(request.resource),
            body,
            request.options.field_validation,
        )?;
        decode::check_place(request, &mut new).map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(kinds::dedup_owner_references(&mut new, false));
        let creates = if request.subresource.is_none() { Creates::IfAllowed } else { Creates::Never };
        let rules = ChangeRules {
            needs_version: true,
            names_uid: true,
            creates,
            tracked: true,
            extended: Extended::Whole,
        };
        // Warnings from before: sent whatever comes of it.
        match self.change(request, rules, &mut |_| Ok((new.clone(), Vec::new()))).await {
            Ok(mut written) => {
                written.warnings.splice(0..0, warnings);
                Ok(written)
            }
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    /// Replaces the object the request names by what `verb` makes of it.
    pub(crate) async fn change(
        &self,
        request: &RequestContext<'_>,
        rules: ChangeRules<'_>,
        verb: &mut Verb<'_>,
    ) -> Result<Written, Status> {
        self.change_with(request, rules, &Conversions::default(), verb).await
    }

    /// The same for a verb that needs objects in other versions.
    pub(crate) async fn change_with(
        &self,
        request: &RequestContext<'_>,
        rules: ChangeRules<'_>,
        conversions: &Conversions,
        verb: &mut Verb<'_>,
    ) -> Result<Written, Status> {
        let mut written = self.change_stored(request, rules, conversions, verb).await?;
        written.obj = self.convert_one(request.resource, &written.obj, Asked::Now).await?;
        Ok(written)
    }

    async fn change_stored(
        &self,
        request: &RequestContext<'_>,
        rules: ChangeRules<'_>,
        conversions: &Conversions,
        verb: &mut Verb<'_>,
    ) -> Result<Written, Status> {
        let storage = request.storage()?;
        let key: Key = storage.key(request.namespace, request.name).into();
        let kind = kinds::kind_of(storage);
        // A refusal counts only when it was based on the newest state; the first look may be at an older one. Policies and webhooks
        // are asked once, so they are asked about the newest.
        let mut fresh = false;
        let mut contended = None;
        let mark = request.mark();
        loop {
            request.begin_attempt(mark);
            // Asked once: somebody may configure a webhook while we wait below. The next try is asked about then.
            let phases = self.phases_of_change(request, storage, rules);
            let is_extended = phases.any();
            if let Extended::Scale(change) = rules.extended {
                change.begin(phases.admit);
            }
            if is_extended && !fresh {
                self.linearizable_read().await?;
                fresh = true;
            }
            let Some(old) = self.find(storage, &key)? else {
                if !fresh {
                    self.linearizable_read().await?;
                    fresh = true;
                    continue;
                }
                if rules.creates == Creates::Always
                    || rules.creates == Creates::IfAllowed && storage.create_on_update
                {
                    let (mut new, warnings) = verb(&Value::map())?;
                    let version = new.str_at(&["metadata", "resourceVersion"]).unwrap_or("");
                    if !version.is_empty()
                        && let Err(why) = parse_unsigned(version)
                    {
                        return Err(Status::unknown(why).after_warnings(warnings));
                    }
                    new.map_at(&["metadata"]).remove("uid");
                    // It waits for locks of its own.
                    drop(contended.take());
                    let copy = new.clone();
                    let again = || Ok(copy.clone());
                    match self.insert(request, storage, new, warnings, rules.tracked, &again).await {
                        // Somebody else created it meanwhile: it is changed.
                        Err(taken) if taken.reason == ALREADY_EXISTS => {
                            self.check_deadline(request)?;
                            continue;
                        }
                        written => return written,
                    }
                }
                return Err(Status::not_found(request.about(), request.name));
            };
            if is_extended || converted_storage(request.resource).is_some() {
                // A webhook may take its time: nobody waits for us meanwhile.
                drop(contended.take());
            }
            let served = self.convert_one(request.resource, &old, Asked::Now).await?;
            let now = self.env().now_seconds() as i64;
            let changed = loop {
                let changed =
                    self.changed(request, storage, (rules, phases), &served, conversions, verb, now);
                if !self.answer(request, storage, conversions).await? {
                    break changed;
                }
            };
            let (mut new, old_tree, mut warnings, named) = match changed {
                Ok(changed) => changed,
                Err(_) if !fresh => {
                    self.linearizable_read().await?;
                    fresh = true;
                    continue;
                }
                Err(status) => return Err(status),
            };
            let mut effects = Effects::default();
            let admitted = match is_extended {
                false => self.admit(request, storage, rules, &mut new, &old_tree, now, &mut effects).await,
                true => {
                    let versions = ShownVersions { named: &named, current: &old };
                    let rules = (rules, phases);
                    self.admit_shown(request, rules, &mut new, &old_tree, versions, now, &mut effects).await
                }
            };
            warnings.append(&mut effects.warnings);
            let encoded = match admitted {
                Ok(Some(encoded)) => encoded,
                // What was reserved is somebody else's by now.
                Ok(None) => {
                    self.check_deadline(request)?;
                    continue;
                }
                Err(refusal) if !fresh && !refusal.is_final => {
                    self.linearizable_read().await?;
                    fresh = true;
                    continue;
                }
                Err(refusal) => return Err(refusal.status.after_warnings(warnings)),
            };
            let encoded = self.encode_converted(request.resource, storage, &new, encoded).await?;
            let remove = kinds::should_remove_after_update(kind, &new, &old_tree);
            if !remove && old.is_stored_as(&encoded) {
                if !fresh {
                    // "Nothing changed" is an answer about the newest state too.
                    self.linearizable_read().await?;
                    fresh = true;
                    let now = self.find(storage, &key)?;
                    if now.is_none_or(|now| now.revision() != old.revision()) {
                        continue;
                    }
                }
                return Ok(Written { obj: old, created: false, warnings });
            }
            if request.options.dry_run {
                let obj = Obj::publish(storage, &key, &encoded, old.revision(), old.expires_at());
                return Ok(Written {
                    obj: Arc::new(obj.map_err(|_| not_encodable())?),
                    created: false,
                    warnings,
                });
            }
            let expires_at = storage.ttl_seconds.map(|ttl| now as u64 + u64::from(ttl));
            let value = bytes::Bytes::from(encoded);
            let op = if remove { Op::Delete } else { Op::Put { value: value.clone(), expires_at } };
            if remove && let Some(allocator) = self.admission.allocator(storage) {
                let attempt = self.attempt(request, storage, Operation::Delete, request.name, false);
                effects = Effects::default();
                allocator.released(&attempt, &old_tree, &mut effects);
            }
            let mut commit = effects.join(&key, Guard::At(old.revision()), op);
            // An object that is being deleted must be able to go on a full disk too.
            commit.removal = old_tree.at(&["metadata", "deletionTimestamp"]).is_some();
            self.guard_by_fence(request, &mut commit)?;
            match self.engine().commit(commit).await {
                Ok(revision) => {
                    self.writers.note(revision, request.user);
                    // What is gone keeps the version it was last seen with.
                    let revision = if remove { old.revision() } else { revision };
                    let obj = self.committed(storage, &key, &value, revision, expires_at)?;
                    return Ok(Written { obj, created: false, warnings });
                }
                // The table shows who won: read again. A version the client named will no longer match.
                Err(CommitError::Conflict { key: lost }) => {
                    self.check_readable(&lost)?;
                    self.check_deadline(request)?;
                    conversions.forget();
                    fresh = true;
                    if lost != key {
                        drop(contended.take());
                        contended = Some(self.contended.lock(&lost).await);
                    }
                }
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// Admission, strategy and validation of a changed object: the bytes to commit, or `None` if it must be tried again. Warnings
    /// given before a refusal are in `effects`.
    #[allow(clippy::too_many_arguments)] // One step of one loop, split off for its length.
    async fn admit(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        rules: ChangeRules<'_>,
        new: &mut Value,
        old: &Value,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let mut attempt =
            self.attempt(request, storage, Operation::Update, request.name, request.options.dry_run);
        attempt.old = Some(old);
        let nobody = Phases::default();
        self.mutate(&attempt, rules.extended, nobody, new, effects).await?;
        let encoded = self.complete_update(&attempt, rules.tracked, new, old, now, effects)?;
        let holds = self.validate(&attempt, rules.extended, nobody, new, effects).await?;
        Ok(holds.then_some(encoded))
    }

    /// The same for a change that policies or webhooks see: they are shown versions, and are asked before the version is checked.
    #[allow(clippy::too_many_arguments)] // As above.
    async fn admit_shown(
        &self,
        request: &RequestContext<'_>,
        (rules, phases): (ChangeRules<'_>, Phases),
        new: &mut Value,
        old: &Value,
        versions: ShownVersions<'_>,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let storage = request.storage()?;
        let mut shown_old = old.clone();
        set_version(&mut shown_old, &versions.current.revision().to_string());
        let attempt =
            self.attempt(request, storage, Operation::Update, request.name, request.options.dry_run);
        let attempt = Attempt { old: Some(&shown_old), ..attempt };
        set_version(new, versions.named);
        self.mutate(&attempt, rules.extended, phases, new, effects).await?;
        new.map_at(&["metadata"]).remove("resourceVersion");
        decode::check_namespace(request, new)?;
        self.check_version(request, storage, rules, versions.current, versions.named)?;
        keep_owned(new, old);
        let own = Attempt { old: Some(old), ..attempt };
        let encoded = self.complete_update(&own, rules.tracked, new, old, now, effects)?;
        set_version(new, &versions.current.revision().to_string());
        let holds = self.validate(&attempt, rules.extended, phases, new, effects).await;
        new.map_at(&["metadata"]).remove("resourceVersion");
        Ok(holds?.then_some(encoded))
    }

    /// What needs nobody else: reservations, strategy, validation.
    fn complete_update(
        &self,
        attempt: &Attempt<'_>,
        tracked: bool,
        new: &mut Value,
        old: &Value,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Vec<u8>, Refusal> {
        let (request, storage) = (attempt.request, attempt.storage);
        if let Some(allocator) = self.admission.allocator(storage) {
            allocator.reserve(attempt, new, effects)?;
        }
        let namespace = self.in_namespace(request);
        let warnings = RefCell::default();
        let context = Context { warnings: &warnings, ..context(request, storage, now, &namespace) };
        let kind = kinds::kind_of(storage);
        kinds::prepare_update(kind, new, old, &context);
        let encoded = self.complete(request.resource, storage, tracked, new, Some(old), &context);
        effects.warnings.append(&mut warnings.borrow_mut());
        let encoded = encoded?;
        effects.warnings.extend(kinds::warnings::of(kind, new, Some(old), &context));
        Ok(encoded)
    }

    pub(crate) fn in_namespace<'a>(&'a self, request: &'a RequestContext<'a>) -> InNamespace<'a> {
        InNamespace {
            table: self.table(),
            request,
            authorize: self.admission.authorize(),
            meter: &self.meter,
            resolver: self.resolver.as_deref(),
            asked: Cell::new(false),
        }
    }

    /// What `verb` makes of `old`, in the storage version; and the old tree.
    #[allow(clippy::too_many_arguments)] // One step of one loop, split off for its length.
    fn changed(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        (rules, phases): (ChangeRules<'_>, Phases),
        old: &Obj,
        conversions: &Conversions,
        verb: &mut Verb<'_>,
        now: i64,
    ) -> Result<(Value, Value, Vec<String>, String), Status> {
        let as_served = kinds::kind_of(storage).converts_last();
        let mut old_tree = match as_served {
            true => convert::body_in(request.resource, storage, old),
            false => convert::tree(storage, old),
        };
        let (mut new, warnings) = if as_served || convert::is_storage_version(request.resource, storage) {
            let (mut new, warnings) = verb(&old_tree)?;
            if rules.tracked {
                managed_fields::track(request, storage, conversions, Some(&old_tree), &mut new, now)?;
            }
            (new, warnings)
        } else {
            let mut served = old_tree.clone();
            convert::from_storage(request.resource, storage, &mut served);
            let (mut new, warnings) = verb(&served)?;
            if rules.tracked {
                managed_fields::track(request, storage, conversions, Some(&served), &mut new, now)?;
            }
            (new, warnings)
        };
        old_tree.map_at(&["metadata"]).remove("resourceVersion");
        match self.check_preconditions(request, storage, (rules, phases), old, &old_tree, &mut new) {
            Ok(named) => Ok((new, old_tree, warnings, named)),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    /// The checks of identity and version of an update, and what the server owns of the metadata. Returns the version the new object
    /// names, which is checked later where policies or webhooks are asked first.
    fn check_preconditions(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        (rules, phases): (ChangeRules<'_>, Phases),
        old: &Obj,
        old_tree: &Value,
        new: &mut Value,
    ) -> Result<String, Status> {
        convert::to_storage(request.resource, storage, new)?;
        let metadata = new.map_at(&["metadata"]);
        let version = match metadata.remove("resourceVersion") {
            Some(Value::Str(text)) => text,
            _ => String::new(),
        };
        let uid = metadata.get("uid").and_then(Value::as_str).unwrap_or("");
        if rules.names_uid && !uid.is_empty() && uid != old.uid() {
            return Err(Status::conflict(
                request.about(),
                request.name,
                format!(
                    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                     Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    key_in_message(old.key(), request.options.dry_run),
                    old.uid()
                ),
            ));
        }
        if !phases.any() {
            self.check_version(request, storage, rules, old, &version)?;
            keep_owned(new, old_tree);
        }
        Ok(version)
    }

    /// Whether the version that a new object names is the current one, or none where none is needed.
    fn check_version(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        rules: ChangeRules<'_>,
        old: &Obj,
        version: &str,
    ) -> Result<(), Status> {
        if version.is_empty() || version == "0" {
            if rules.needs_version && !storage.unconditional_update {
                let broken =
                    FieldError::invalid("metadata.resourceVersion", "0", "must be specified for an update");
                // Upstream names the resource here where other refusals name the kind.
                let (group, plural) = (&request.resource.group, &request.resource.plural);
                return Err(Status::invalid(group, plural, request.name, vec![broken]));
            }
        } else if parse_unsigned(version).map_err(Status::unknown)? != old.revision().0 {
            return Err(Status::modified(request.about(), request.name));
        }
        Ok(())
    }

    /// Canonical form, validation, encoding. `tracked`: who wrote did not ask for its managers to be noted, and does without them
    /// where they make the object too large.
    pub(crate) fn complete(
        &self,
        resource: &Resource,
        storage: &Storage,
        tracked: bool,
        new: &mut Value,
        old: Option<&Value>,
        context: &Context<'_>,
    ) -> Result<Vec<u8>, Status> {
        let schema = storage.schema();
        let unfit = |e| Status::internal(format!("the object no longer fits its type: {e}"));
        let has_empty = normalise_decoded(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
        let kind = kinds::kind_of(storage);
        let errors = match old {
            None => kinds::validate_create(kind, storage, new, context),
            Some(old) => kinds::validate_update(kind, storage, new, old, context),
        };
        if !errors.is_empty() {
            let name = new.str_at(&["metadata", "name"]).unwrap_or("");
            let refusal = kinds::invalid(storage, name, errors);
            return Err(if kind.converts_last() { of_its_own_kind(refusal, storage, new) } else { refusal });
        }
        // Rules distinguish an empty list from an absent one; what is stored and answered does not. Upstream sets defaults
        // when it reads from storage: an empty value that prevented a default is gone by then.
        if has_empty || kind.depends_on_admission(new) {
            normalise(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
            let version = if kind.converts_last() { context.version } else { &storage.version };
            kinds::defaults::apply(kind, version, new);
            normalise(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
        }
        if kind.canonicalise(new) {
            normalise(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
        }
        // A write that changes nothing but the times of managers changes nothing. Only now, because who applies a part of what
        // is filled in, or what is reset, changes nothing either.
        if let Some(old) = old {
            keep_times_of_unchanged(old, new);
        }
        let encoded = convert::encode(resource, storage, new)?;
        if encoded.len() <= MAX_OBJECT_BYTES || !tracked {
            return check_size(encoded);
        }
        new.map_at(&["metadata"]).remove("managedFields");
        check_size(convert::encode(resource, storage, new)?)
    }

    /// The object as committed at `revision`: the table's, or, when others wrote since, made again.
    pub(crate) fn committed(
        &self,
        storage: &Storage,
        key: &Key,
        value: &[u8],
        revision: Revision,
        expires_at: Option<u64>,
    ) -> Result<Arc<Obj>, Status> {
        if let Some(obj) = self.table().get(storage.id, key)
            && obj.revision() == revision
        {
            return Ok(obj);
        }
        Obj::publish(storage, key, value, revision, expires_at).map(Arc::new).map_err(|_| not_encodable())
    }
}

/// Who writes, and through which version, for the kinds that care.
pub(crate) fn context<'a>(
    request: &RequestContext<'a>,
    storage: &'a Storage,
    now: i64,
    namespace: &'a InNamespace<'_>,
) -> Context<'a> {
    let user = request.user;
    Context {
        storage,
        subresource: request.subresource,
        now,
        group: &request.resource.group,
        version: &request.resource.version,
        requester: Requester {
            name: &user.name,
            uid: &user.uid,
            groups: &user.groups,
            extra: Some(&user.extra),
        },
        namespace,
        permissions: namespace,
        warnings: &(),
        meter: Some(namespace.meter),
    }
}

/// What a write can ask of the cluster around it: the labels of its namespace, and what its user may do.
pub(crate) struct InNamespace<'a> {
    pub table: &'a Table,
    pub request: &'a RequestContext<'a>,
    pub authorize: &'a Authorize,
    pub meter: &'a Meter,
    pub resolver: Option<&'a dyn ResourceResolver>,
    /// Whether a permission was: what is refused then is looked at again in the newest state.
    pub asked: Cell<bool>,
}

impl std::fmt::Debug for InNamespace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.request.namespace)
    }
}

impl Labels for InNamespace<'_> {
    fn label(&self, name: &str) -> Option<String> {
        let storage = self.request.catalog.find_storage("", "namespaces")?;
        let namespace = self.table.get(storage.id, &storage.key("", self.request.namespace))?;
        namespace.label(name).map(str::to_owned)
    }
}

impl Permissions for InNamespace<'_> {
    fn verb(&self) -> &str {
        self.request.verb.names().next().unwrap_or_default()
    }

    fn check(&self, wanted: &Permission<'_>) -> Result<(), String> {
        self.asked.set(true);
        let own = About { group: &self.request.resource.group, resource: &self.request.resource.plural };
        let about = wanted.resource.unwrap_or(own);
        let wanted = Attributes {
            verb: wanted.verb,
            group: about.group,
            resource: about.resource,
            subresource: wanted.subresource,
            namespace: wanted.namespace,
            name: wanted.name,
            ..Attributes::default()
        };
        let decision = (self.authorize)(self.request.user, &wanted);
        match decision.allowed {
            true => Ok(()),
            false => Err(auth::forbidden(self.request.user, &wanted, &decision.reason).message),
        }
    }

    fn plural(&self, group: &str, version: &str, kind: &str) -> Option<String> {
        let ours = || self.request.catalog.find_kind(group, version, kind);
        let others = self.resolver.and_then(|resolver| resolver.plural(group, version, kind));
        others.or_else(|| ours().map(|resource| resource.plural.to_string()))
    }

    fn find(&self, plural: &str, name: &str) -> Option<Value> {
        let storage = self.request.catalog.find_storage(&self.request.resource.group, plural)?;
        let found = self.table.get(storage.id, &storage.key("", name))?;
        Some(convert::tree(storage, &found))
    }
}

/// A custom resource is refused by the kind it says it is of.
fn of_its_own_kind(mut refusal: Status, storage: &Storage, new: &Value) -> Status {
    let said = new.str_at(&["kind"]).unwrap_or_default();
    if said != &*storage.kind {
        refusal.message = refusal.message.replacen(&*storage.kind, said, 1);
        if let Some(details) = &mut refusal.details {
            details.kind = said.to_owned();
        }
    }
    refusal
}

pub(crate) fn check_size(encoded: Vec<u8>) -> Result<Vec<u8>, Status> {
    if encoded.len() > MAX_OBJECT_BYTES {
        return Err(Status::too_large(format!(
            "Request entity too large: the object has {} bytes, limit is {MAX_OBJECT_BYTES}",
            encoded.len()
        )));
    }
    Ok(encoded)
}

pub(crate) fn not_encodable() -> Status {
    Status::internal("the object was encoded in a form the table does not accept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_names_keys_without_the_prefix_of_the_store() {
        assert_eq!(key_in_message("/registry/pods/a/b", true), "/pods/a/b");
        assert_eq!(key_in_message("/registry/pods/a/b", false), "/registry/pods/a/b");
    }
}
