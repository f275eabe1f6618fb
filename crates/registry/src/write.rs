//! create, update and patch: the one path every change of state takes.
//!
//! ```text
//! create   decode ─ place ─ to storage version ─ system fields ─┐
//! update   old ─ decoded body ─┐                                 ├─ mutate ─ reserve ─ disabled fields ─ strategy ─ canonical ─┐
//! patch    old ─ patched, decoded ─ place, version, uid ─────────┘                                                             │
//!            commit with the effects ─ same bytes? answer old.  dry run? stop. ─ encode ─ validating admission ─ warn ─ validate
//!              └ conflict: again
//! ```

use std::sync::Arc;
use std::time::Duration;

use admission::{Effects, Operation, Refusal};
use catalog::{Schema, Storage, TypeId};
use codec::json;
use kinds::{Context, Labels, Requester};
use object::normalise::{Strict, normalise, normalise_decoded, restore_error};
use object::patch::{self, json::JsonPatch};
use object::{FieldError, Status, Value, quote, time};
use store::{CommitError, Guard, Key, Op, Revision};
use table::Obj;

use crate::read::parse_unsigned;
use crate::{Registry, Request, convert, decode, not_readable, store_failed};

/// Tries with a fresh random name before a collision is reported.
const GENERATED_NAME_TRIES: usize = 8;
/// generateName keeps this much of its base, so that the suffix always fits a label.
const GENERATED_BASE: usize = 58;
/// How often, and how far apart, a create looks again for what is about to come.
const SOON_TRIES: u32 = 40;
const SOON_PAUSE: Duration = Duration::from_millis(25);
/// What a client cannot set on a new object.
const OURS_ON_CREATE: [&str; 5] =
    ["deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink", "managedFields"];
/// Upstream's etcd refuses requests above this; so do all our engines, so that data can move between them.
const MAX_OBJECT_BYTES: usize = 3 * 512 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
}

/// A patch as it came.
pub enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

/// What a patch is applied to.
#[derive(Clone, Copy)]
pub(crate) struct PatchedType<'a> {
    pub ty: TypeId,
    pub kind: &'a str,
    pub api_version: &'a str,
    /// What the URL calls the object.
    pub name: &'a str,
}

impl Patch {
    /// Of members with one name the last is kept; what strict clients hear of the others, and of what an operation has no use for.
    pub(crate) fn without_duplicates(&mut self) -> Vec<String> {
        let p = match self {
            Patch::Json(patch) => return patch.strict_errors().to_vec(),
            Patch::Merge(p) | Patch::Strategic(p) => p,
        };
        let found = patch::duplicate_fields(p);
        if !found.is_empty() {
            patch::keep_last_fields(p);
        }
        found
    }

    /// Changes an object of that type; after a refusal the object is half changed and of no use.
    pub(crate) fn apply(&self, schema: &Schema, ty: TypeId, object: &mut Value) -> Result<(), Status> {
        match self {
            Patch::Json(patch) => patch.apply(object),
            Patch::Merge(patch) => patch::merge::apply(object, patch.clone()),
            Patch::Strategic(patch) => patch::strategic::apply(schema, ty, object, patch.clone()),
        }
    }
}

/// What a write led to.
pub struct Written {
    pub obj: Arc<Obj>,
    pub created: bool,
    pub warnings: Vec<String>,
}

/// What a verb makes of the object that stands there, both in the request's version.
pub(crate) type Verb<'v> = dyn FnMut(&Value) -> Result<(Value, Vec<String>), Status> + Send + 'v;

/// How a change treats versions and absence.
#[derive(Clone, Copy)]
pub(crate) struct ChangeRules {
    /// The new object must name a version unless the kind allows unconditional updates. A patch takes it over from the
    /// object, or takes it away.
    pub needs_version: bool,
    /// A uid that the new object names must be the object's (PUT); else it is left to validation, which calls the
    /// field immutable.
    pub names_uid: bool,
    /// An absent object is created, where the kind allows it (PUT).
    pub may_create: bool,
}

/// An update that may be committed.
struct Step {
    new: Value,
    old_tree: Value,
    encoded: Vec<u8>,
    warnings: Vec<String>,
    effects: Effects,
}

/// A new object's name, and what plugins that complete the object call it: a generated one comes after them.
#[derive(Clone, Copy)]
struct Named<'a> {
    name: &'a str,
    known_as: &'a str,
}

/// Why a create does not go on.
enum Halt {
    Refused(Refusal),
    Final(Status),
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Refused(refusal)
    }
}

impl From<Status> for Halt {
    fn from(status: Status) -> Halt {
        Halt::Final(status)
    }
}

impl Registry {
    pub async fn create(
        &self,
        request: &Request<'_>,
        body: Value,
        options: WriteOptions,
    ) -> Result<Written, Status> {
        let storage = self.storage_of(request.resource)?;
        let (mut new, mut warnings) =
            decode::object(self.catalog(), request.resource, body, options.field_validation)?;
        decode::check_place(request, &mut new).map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(kinds::dedup_owner_references(&mut new, false));
        self.insert(request, storage, new, warnings, options).await
    }

    pub async fn update(
        &self,
        request: &Request<'_>,
        body: Value,
        options: WriteOptions,
    ) -> Result<Written, Status> {
        let (mut new, mut warnings) =
            decode::object(self.catalog(), request.resource, body, options.field_validation)?;
        decode::check_place(request, &mut new).map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(kinds::dedup_owner_references(&mut new, false));
        let rules =
            ChangeRules { needs_version: true, names_uid: true, may_create: request.subresource.is_none() };
        let written =
            self.change(request, rules, options, &mut |_| Ok((new.clone(), warnings.clone()))).await;
        // Whatever it was refused for, this was said before.
        written.map_err(|status| status.after_warnings(warnings))
    }

    pub async fn patch(
        &self,
        request: &Request<'_>,
        mut patch: Patch,
        options: WriteOptions,
    ) -> Result<Written, Status> {
        let duplicates = patch.without_duplicates();
        let rules = ChangeRules { needs_version: true, names_uid: false, may_create: false };
        let resource = request.resource;
        let api_version = resource.api_version();
        let of = PatchedType {
            ty: resource.ty,
            kind: &resource.kind,
            api_version: &api_version,
            name: request.name,
        };
        self.change(request, rules, options, &mut |old| {
            let (mut new, mut messages) = self.patched(of, &patch, &duplicates, old, options)?;
            kinds::defaults::apply(resource, &mut new);
            decode::check_place(request, &mut new)
                .map_err(|status| status.after_warnings(messages.clone()))?;
            // Upstream says so as if an admission plugin had done it.
            messages.extend(kinds::dedup_owner_references(&mut new, true));
            Ok((new, messages))
        })
        .await
    }

    /// Applies a patch to an object of that type.
    pub(crate) fn patched(
        &self,
        of: PatchedType<'_>,
        patch: &Patch,
        duplicates: &[String],
        old: &Value,
        options: WriteOptions,
    ) -> Result<(Value, Vec<String>), Status> {
        let mut new = old.clone();
        patch.apply(self.catalog().schema(), of.ty, &mut new)?;
        if matches!(patch, Patch::Strategic(_)) {
            // It changes the object itself, whose type is no field of it. What is no text is refused below.
            for name in ["kind", "apiVersion"] {
                let kept = old
                    .get(name)
                    .filter(|_| new.get(name).is_none_or(|v| v.is_null() || v.as_str().is_some()));
                if let Some(kept) = kept {
                    new.make_map().set(name, kept.clone());
                }
            }
        }
        // A document is shown as it would have been decoded; a strategic patch is applied to the object itself.
        let refused = |why: String| {
            let mut shown = old.clone();
            patch.apply(self.catalog().schema(), of.ty, &mut shown)?;
            let text = String::from_utf8_lossy(&json::to_vec(&shown)).into_owned();
            Err(Status::invalid("", "", "", vec![FieldError::invalid("patch", quote(&text), why)]))
        };
        if let (Patch::Json(_), Some(bracket)) = (patch, patch::too_deep(&new)) {
            let why = "couldn't get version/kind; json parse error: invalid character";
            return refused(format!("{why} '{bracket}' exceeded max depth"));
        }
        if let Err(status) = decode::check_type(self.catalog(), of.kind, of.api_version, &new) {
            let why = status
                .message
                .split_once("cannot be handled as a ")
                .and_then(|(_, why)| why.split_once(": "));
            return match (patch, why) {
                (Patch::Json(_) | Patch::Merge(_), Some((_, why))) => refused(why.to_owned()),
                _ => Err(status),
            };
        }
        // A document without a version is decoded by upstream into a type whose fields have no names in JSON: none of its
        // members is known, and so the object has no name.
        if !matches!(patch, Patch::Strategic(_)) && new.str_at(&["apiVersion"]).unwrap_or("").is_empty() {
            let members = new.as_map().into_iter().flat_map(|m| m.iter().map(|(name, _)| &**name));
            let mut unknown: Vec<String> = members
                .filter(|name| !matches!(*name, "apiVersion" | "kind"))
                .map(|name| format!("unknown field {}", quote(name)))
                .collect();
            unknown.sort();
            if options.field_validation == FieldValidation::Strict {
                return refused(format!("strict decoding error: {}", unknown.join(", ")));
            }
            let name = of.name;
            let why = format!(
                "the name of the object ({name} based on URL) was undeterminable: name must be provided"
            );
            let told = if options.field_validation == FieldValidation::Ignore { Vec::new() } else { unknown };
            return Err(Status::bad_request(why).after_warnings(told));
        }
        let mut strict =
            if options.field_validation == FieldValidation::Ignore { Strict::off() } else { Strict::on() };
        if let Err(error) = normalise_decoded(self.catalog().schema(), of.ty, &mut new, &mut strict) {
            // The pass left half a tree; the refusal shows the whole patched object.
            return match patch {
                Patch::Json(_) | Patch::Merge(_) => refused(error.to_string()),
                Patch::Strategic(asked) => {
                    let mut tree = old.clone();
                    patch.apply(self.catalog().schema(), of.ty, &mut tree)?;
                    let why = restore_error(self.catalog().schema(), of.ty, &tree);
                    Err(strategic_refusal(asked, why.unwrap_or_else(|| error.to_string())))
                }
            };
        }
        let mut messages = strict.into_messages();
        if matches!(patch, Patch::Strategic(_)) {
            messages.sort();
        }
        if options.field_validation != FieldValidation::Ignore {
            messages.splice(0..0, duplicates.iter().cloned());
        }
        if options.field_validation == FieldValidation::Strict && !messages.is_empty() {
            let why = format!("strict decoding error: {}", messages.join(", "));
            return match patch {
                Patch::Json(_) | Patch::Merge(_) => refused(why),
                Patch::Strategic(asked) => Err(strategic_refusal(asked, why)),
            };
        }
        Ok((new, messages))
    }

    /// Stores a new object of the request's version.
    pub(crate) async fn insert(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        mut new: Value,
        mut warnings: Vec<String>,
        options: WriteOptions,
    ) -> Result<Written, Status> {
        convert::to_storage(request.resource, storage, &mut new)?;
        warnings.extend(kinds::warnings::before_create(storage, &new));
        let now = self.env().now_seconds() as i64;
        let metadata = new.map_at(&["metadata"]);
        let named_version = metadata.get("resourceVersion").and_then(Value::as_str).unwrap_or("").to_owned();
        for ours in OURS_ON_CREATE {
            metadata.remove(ours);
        }
        metadata.set("uid", self.env().uuid());
        metadata.set("creationTimestamp", time::format_seconds(now));
        let named = metadata.get("name").and_then(Value::as_str).is_some_and(|n| !n.is_empty());
        let asked = metadata.get("generateName").and_then(Value::as_str).unwrap_or("").to_owned();
        let suffixed = kinds::kind_of(storage).rules().name.takes_a_suffix();
        let base = if suffixed { asked.chars().take(GENERATED_BASE).collect() } else { asked.clone() };
        let generated = !named && !base.is_empty();
        let taken = |name: &str| match asked.as_str() {
            "" => Status::already_exists(request.about(), name),
            _ => Status::no_unique_name(request.about(), name),
        };
        // Another try, be it with another name, another address or another default, begins where this one did.
        let start = new.clone();

        let (mut tried, mut names_tried, mut fresh, mut waited) = (false, 0, false, 0);
        let mut turn = None;
        loop {
            if tried {
                new = start.clone();
            }
            tried = true;
            if generated {
                let suffix = if suffixed { self.env().name_suffix() } else { String::new() };
                new.map_at(&["metadata"]).set("name", format!("{base}{suffix}"));
            }
            let name = new.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
            let named = Named { name: &name, known_as: if generated { &asked } else { &name } };
            let mut effects = Effects::default();
            let encoded = match self.fresh_step(request, storage, &mut new, named, options, now, &mut effects)
            {
                Ok(ready) => ready,
                Err(Halt::Final(status)) => {
                    warnings.append(&mut effects.warnings);
                    return Err(status.after_warnings(warnings));
                }
                // Another server may just have created what is missing.
                Err(Halt::Refused(_)) if !fresh => {
                    self.freshen().await?;
                    fresh = true;
                    continue;
                }
                Err(Halt::Refused(refusal)) if refusal.may_pass_soon && waited < SOON_TRIES => {
                    self.env().sleep(SOON_PAUSE).await;
                    waited += 1;
                    continue;
                }
                Err(Halt::Refused(refusal)) => {
                    warnings.append(&mut effects.warnings);
                    return Err(refusal.status.after_warnings(warnings));
                }
            };
            // Some kinds name what came without a name.
            let name = new.str_at(&["metadata", "name"]).unwrap_or("").to_owned();
            let key: Key = storage.key(request.namespace, &name).into();
            let mut warnings = warnings.clone();
            warnings.append(&mut effects.warnings);
            if options.dry_run {
                self.freshen().await?;
                if !matches!(self.table().read(storage.id, &key), Ok(None)) {
                    return Err(self.taken(storage, &key, taken(&name)).await.after_warnings(warnings));
                }
                // What is not stored gets no version; one the client sent stays, whatever it says.
                let encoded = if named_version.is_empty() {
                    encoded
                } else {
                    new.map_at(&["metadata"]).set("resourceVersion", named_version);
                    json::to_vec(&new)
                };
                let obj = Obj::unpublished(storage, &key, &encoded).map_err(|_| not_encodable())?;
                return Ok(Written { obj: Arc::new(obj), created: true, warnings });
            }
            // As upstream, whose store refuses it: last of all, and never in a dry run. It reads over what is no version.
            let digits = named_version.bytes().all(|b| b.is_ascii_digit());
            if request.name.is_empty()
                && digits
                && named_version.parse().is_ok_and(|version: u64| version > 0)
            {
                let status = Status::unknown("resourceVersion should not be set on objects to be created");
                return Err(status.after_warnings(warnings));
            }
            let expires_at = storage.ttl_seconds.map(|ttl| now as u64 + u64::from(ttl));
            let value = bytes::Bytes::from(encoded);
            let put = Op::Put { value: value.clone(), expires_at };
            let mut commit = effects.join(&key, Guard::Absent, put);
            self.guard_by_term(request, &mut commit)?;
            match self.engine().commit(commit).await {
                Ok(revision) => {
                    self.writers.note(revision, request.user);
                    let obj = self.committed(storage, &key, &value, revision, expires_at)?;
                    return Ok(Written { obj, created: true, warnings });
                }
                Err(CommitError::Conflict { key: lost }) if lost == key => {
                    names_tried += 1;
                    if !generated || names_tried >= GENERATED_NAME_TRIES {
                        return Err(self.taken(storage, &key, taken(&name)).await.after_warnings(warnings));
                    }
                }
                // Something the object depends on changed meanwhile: look at it again, in turn.
                Err(CommitError::Conflict { key: lost }) => {
                    self.lost_to(&lost)?;
                    drop(turn.take());
                    turn = Some(self.lanes.turn(&lost).await);
                }
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// Everything between a new object and the bytes to commit. What was said before a refusal stands in `effects`.
    #[allow(clippy::too_many_arguments)] // One step of one loop, split off for its length.
    fn fresh_step(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        new: &mut Value,
        named: Named<'_>,
        options: WriteOptions,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Vec<u8>, Halt> {
        let kind = kinds::kind_of(storage);
        let extra = extra_of(request);
        let namespace = InNamespace { registry: self, name: request.namespace };
        let context = context(request, storage, now, &extra, &namespace);
        let mut attempt = self.attempt(request, storage, Operation::Create, named.known_as, options.dry_run);
        self.admission.mutate(&attempt, new, effects)?;
        attempt.name = named.name;
        if let Some(allotter) = self.admission.allotter(storage) {
            allotter.reserve(&attempt, new, effects)?;
        }
        kinds::drop_disabled(storage, new, None);
        kinds::prepare_create(kind, new, &context);
        let encoded = self.complete(storage, new, None, &context)?;
        effects.warnings.extend(kinds::warnings::of(storage, new, None, &context));
        self.admission.validate(&attempt, Some(new), effects)?;
        Ok(encoded)
    }

    /// The refusal of a name that is taken; it may be free soon, and then it says so.
    async fn taken(&self, storage: &Storage, key: &str, status: Status) -> Status {
        // The store may know what took it before the table does.
        let _ = self.freshen().await;
        match self.table().get(storage.id, key) {
            Some(there) if there.deleting() => {
                Status { message: format!("object is being deleted: {}", status.message), ..status }
            }
            _ => status,
        }
    }

    /// Replaces the object the request names by what `verb` makes of it.
    pub(crate) async fn change(
        &self,
        request: &Request<'_>,
        rules: ChangeRules,
        options: WriteOptions,
        verb: &mut Verb<'_>,
    ) -> Result<Written, Status> {
        let storage = self.storage_of(request.resource)?;
        let key: Key = storage.key(request.namespace, request.name).into();
        let kind = kinds::kind_of(storage);
        // A refusal counts only when it was based on the newest state; the first look may be at an older one.
        let mut fresh = false;
        let mut turn = None;
        loop {
            let Some(old) = self.table().read(storage.id, &key).map_err(not_readable)? else {
                if !fresh {
                    self.freshen().await?;
                    fresh = true;
                    continue;
                }
                if rules.may_create && storage.create_on_update {
                    let (mut new, warnings) = verb(&Value::map())?;
                    new.map_at(&["metadata"]).remove("uid");
                    // It takes turns of its own.
                    drop(turn.take());
                    return self.insert(request, storage, new, warnings, options).await;
                }
                return Err(Status::not_found(request.about(), request.name));
            };
            let now = self.env().now_seconds() as i64;
            let step = match self.step(request, storage, rules, &old, verb, options, now) {
                Ok(step) => step,
                Err(_) if !fresh => {
                    self.freshen().await?;
                    fresh = true;
                    continue;
                }
                Err(status) => return Err(status),
            };
            let Step { new, old_tree, encoded, mut warnings, mut effects } = step;
            warnings.append(&mut effects.warnings);
            let remove = kinds::should_remove_after_update(kind, &new, &old_tree);
            if !remove && old.is_stored_as(&encoded) {
                if !fresh {
                    // "Nothing changed" is an answer about the newest state too.
                    self.freshen().await?;
                    fresh = true;
                    let now = self.table().read(storage.id, &key).map_err(not_readable)?;
                    if now.is_none_or(|now| now.revision() != old.revision()) {
                        continue;
                    }
                }
                return Ok(Written { obj: old, created: false, warnings });
            }
            if options.dry_run {
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
            if remove && let Some(allotter) = self.admission.allotter(storage) {
                let attempt = self.attempt(request, storage, Operation::Delete, request.name, false);
                effects = Effects::default();
                allotter.released(&attempt, &old_tree, &mut effects);
            }
            let mut commit = effects.join(&key, Guard::At(old.revision()), op);
            self.guard_by_term(request, &mut commit)?;
            match self.engine().commit(commit).await {
                Ok(revision) => {
                    self.writers.note(revision, request.user);
                    let obj = self.committed(storage, &key, &value, revision, expires_at)?;
                    return Ok(Written { obj, created: false, warnings });
                }
                // The state shows who won: look again. A version the client named will no longer fit.
                Err(CommitError::Conflict { key: lost }) => {
                    self.lost_to(&lost)?;
                    fresh = true;
                    if lost != key {
                        drop(turn.take());
                        turn = Some(self.lanes.turn(&lost).await);
                    }
                }
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// Everything between the object that stands there and the bytes to commit.
    #[allow(clippy::too_many_arguments)] // One step of one loop, split off for its length.
    fn step(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        rules: ChangeRules,
        old: &Obj,
        verb: &mut Verb<'_>,
        options: WriteOptions,
        now: i64,
    ) -> Result<Step, Status> {
        let (mut new, old_tree, mut warnings) = self.changed(request, storage, rules, old, verb)?;
        let mut effects = Effects::default();
        match self.judged(request, storage, &mut new, &old_tree, options, now, &mut effects) {
            Ok(encoded) => Ok(Step { new, old_tree, encoded, warnings, effects }),
            Err(status) => {
                warnings.append(&mut effects.warnings);
                Err(status.after_warnings(warnings))
            }
        }
    }

    /// Admission, strategy and validation of a changed object. What was said before a refusal stands in `effects`.
    #[allow(clippy::too_many_arguments)] // One step of one loop, split off for its length.
    fn judged(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        new: &mut Value,
        old: &Value,
        options: WriteOptions,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Vec<u8>, Status> {
        let mut attempt = self.attempt(request, storage, Operation::Update, request.name, options.dry_run);
        attempt.old = Some(old);
        self.admission.mutate(&attempt, new, effects).map_err(|refusal| refusal.status)?;
        if let Some(allotter) = self.admission.allotter(storage) {
            allotter.reserve(&attempt, new, effects).map_err(|refusal| refusal.status)?;
        }
        let extra = extra_of(request);
        let namespace = InNamespace { registry: self, name: request.namespace };
        let context = context(request, storage, now, &extra, &namespace);
        kinds::prepare_update(kinds::kind_of(storage), new, old, &context);
        let encoded = self.complete(storage, new, Some(old), &context)?;
        effects.warnings.extend(kinds::warnings::of(storage, new, Some(old), &context));
        self.admission.validate(&attempt, Some(new), effects).map_err(|refusal| refusal.status)?;
        Ok(encoded)
    }

    /// What `verb` makes of `old`, in the storage version; and the old tree.
    fn changed(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        rules: ChangeRules,
        old: &Obj,
        verb: &mut Verb<'_>,
    ) -> Result<(Value, Value, Vec<String>), Status> {
        let mut old_tree = convert::tree(self.catalog(), storage, old);
        let (mut new, warnings) = if convert::is_storage_version(request.resource, storage) {
            verb(&old_tree)?
        } else {
            let mut served = old_tree.clone();
            convert::from_storage(self.catalog(), request.resource, storage, &mut served);
            verb(&served)?
        };
        old_tree.map_at(&["metadata"]).remove("resourceVersion");
        match self.identified(request, storage, rules, old, &old_tree, &mut new) {
            Ok(()) => Ok((new, old_tree, warnings)),
            Err(status) => Err(status.after_warnings(warnings)),
        }
    }

    /// The checks of identity and version of an update, and what the server owns of the metadata.
    fn identified(
        &self,
        request: &Request<'_>,
        storage: &Storage,
        rules: ChangeRules,
        old: &Obj,
        old_tree: &Value,
        new: &mut Value,
    ) -> Result<(), Status> {
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
                    old.key(),
                    old.uid()
                ),
            ));
        }
        if version.is_empty() || version == "0" {
            if rules.needs_version && !storage.unconditional_update {
                let broken =
                    FieldError::invalid("metadata.resourceVersion", "0", "must be specified for an update");
                // Upstream names the resource here where other refusals name the kind.
                let (group, plural) = (&request.resource.group, &request.resource.plural);
                return Err(Status::invalid(group, plural, request.name, vec![broken]));
            }
        } else if parse_unsigned(&version).map_err(Status::unknown)? != old.revision().0 {
            return Err(Status::modified(request.about(), request.name));
        }
        // What the server owns stays as it was when the client leaves it out; managedFields are not kept yet.
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        for ours in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            let absent = metadata.get(ours).is_none_or(Value::is_null);
            if absent && let Some(value) = old_tree.at(&["metadata", ours]) {
                metadata.set(ours, value.clone());
            }
        }
        match old_tree.at(&["metadata", "generation"]) {
            Some(generation) => metadata.set("generation", generation.clone()),
            None => {
                metadata.remove("generation");
            }
        }
        Ok(())
    }

    /// Canonical form, validation, encoding.
    fn complete(
        &self,
        storage: &Storage,
        new: &mut Value,
        old: Option<&Value>,
        context: &Context<'_>,
    ) -> Result<Vec<u8>, Status> {
        let schema = self.catalog().schema();
        let unfit = |e| Status::internal(format!("the object no longer fits its type: {e}"));
        let has_empty = normalise_decoded(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
        let kind = kinds::kind_of(storage);
        let errors = match old {
            None => kinds::validate_create(kind, storage, new, context),
            Some(old) => kinds::validate_update(kind, storage, new, old, context),
        };
        if !errors.is_empty() {
            let name = new.str_at(&["metadata", "name"]).unwrap_or("");
            return Err(kinds::invalid(storage, name, errors));
        }
        // Rules tell an empty list from an absent one; what is stored and answered does not. Upstream fills in defaults
        // when it reads what it stored: an empty value that stood in the way of one is gone by then.
        if has_empty || kind.depends_on_admission(new) {
            normalise(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
            kinds::defaults::apply_kind(&storage.group, &storage.version, &storage.kind, new);
            normalise(schema, storage.ty, new, &mut Strict::off()).map_err(unfit)?;
        }
        kind.canonicalise(new);
        let encoded = json::to_vec(new);
        if encoded.len() > MAX_OBJECT_BYTES {
            return Err(Status::too_large(format!(
                "Request entity too large: the object has {} bytes, limit is {MAX_OBJECT_BYTES}",
                encoded.len()
            )));
        }
        Ok(encoded)
    }

    /// Mutating admission of a body that is carried out or answered and never stored (a binding, a token), as it came.
    pub fn mutate_answered(
        &self,
        request: &Request<'_>,
        new: &mut Value,
        dry_run: bool,
    ) -> Result<(), Status> {
        let storage = self.storage_of(request.resource)?;
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        // Nothing is committed, so nothing joins it.
        self.admission.mutate(&attempt, new, &mut Effects::default()).map_err(|refusal| refusal.status)
    }

    /// Validating admission of the same, once it is complete.
    pub fn validate_answered(&self, request: &Request<'_>, new: &Value, dry_run: bool) -> Result<(), Status> {
        let storage = self.storage_of(request.resource)?;
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        let mut effects = Effects::default();
        self.admission.validate(&attempt, Some(new), &mut effects).map_err(|refusal| refusal.status)
    }

    /// The object as committed at `revision`: the table's, or, when others wrote since, the same made again.
    fn committed(
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
fn context<'a>(
    request: &Request<'a>,
    storage: &'a Storage,
    now: i64,
    extra: &'a [(String, Vec<String>)],
    namespace: &'a InNamespace<'_>,
) -> Context<'a> {
    let user = request.user;
    Context {
        storage,
        subresource: request.subresource,
        now,
        group: &request.resource.group,
        version: &request.resource.version,
        requester: Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra },
        namespace,
    }
}

/// The namespace a write goes to, which is looked up when its labels are asked for.
struct InNamespace<'a> {
    registry: &'a Registry,
    name: &'a str,
}

impl std::fmt::Debug for InNamespace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Labels for InNamespace<'_> {
    fn label(&self, name: &str) -> Option<String> {
        let storage = self.registry.catalog().find("", "v1", "namespaces")?.storage?;
        let key = self.registry.catalog().storage(storage).key("", self.name);
        self.registry.table().get(storage, &key)?.label(name).map(str::to_owned)
    }
}

fn extra_of(request: &Request<'_>) -> Vec<(String, Vec<String>)> {
    request.user.extra.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn not_encodable() -> Status {
    Status::internal("the object was encoded in a form the table does not accept")
}

/// A strategic patch is shown itself, not the object it led to.
fn strategic_refusal(patch: &Value, why: String) -> Status {
    Status::invalid("", "", "", vec![FieldError::invalid("patch", quote(&patch::go_text(patch)), why)])
}
