//! Creates: generated names, addresses and defaults that may be taken meanwhile, and retries where they help.
//! The object is encoded once: a retry, which is rare, starts from the body again.

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Effects, Mark, Operation, Phase, Refusal};
use catalog::Storage;
use codec::json;
use env::Env;
use object::{Obj, Status, Value, time};
use store::{CommitError, Guard, Key, Op};
use tokio::sync::MutexGuard;

use crate::admit::Phases;
use crate::convert::memo::Conversions;
use crate::convert::webhook::{Asked, converted_storage};
use crate::write::{Extended, Written, context, not_encodable};
use crate::{
    BodyType, Registry, RequestContext, convert, decode, definition_guard, managed_fields, store_failed,
};

/// Tries with a fresh random name before a collision is reported.
const GENERATED_NAME_TRIES: usize = 8;
/// generateName keeps this much of its base, so that the suffix always fits a label.
const GENERATED_BASE: usize = 58;
/// How often, and how far apart, a create is retried for an object that is about to appear.
const SOON_TRIES: u32 = 40;
const SOON_PAUSE: Duration = Duration::from_millis(25);
/// What a POST cannot set, besides the uid and the time; an object that PUT or apply creates keeps it, as upstream.
const WIPED_ON_POST: [&str; 3] = ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"];

/// The body again, for a retry: as it came, before anything was filled in.
pub type Again<'a> = dyn Fn() -> Result<Value, Status> + Send + Sync + 'a;

/// Why a create cannot be committed.
enum CreateError {
    /// By admission, perhaps for an object that is about to appear.
    Refused(Refusal),
    Final(Status),
}

impl From<Refusal> for CreateError {
    fn from(refusal: Refusal) -> CreateError {
        CreateError::Refused(refusal)
    }
}

impl From<Status> for CreateError {
    fn from(status: Status) -> CreateError {
        CreateError::Final(status)
    }
}

/// What a create keeps between tries.
struct Creation {
    /// Unix seconds.
    now: i64,
    uid: String,
    /// The version the client named, which it should not.
    named_version: String,
    generate_name: String,
    /// The name is of the server's making.
    is_generated: bool,
    names_tried: usize,
    /// Its managers are noted here, not by the verb.
    tracked: bool,
    /// It was checked against the newest state: a refusal is not about something another server just created.
    fresh: bool,
    waited: u32,
}

/// An object that mutating extensions are done with, before it has a name.
struct Mutated {
    object: Value,
    warnings: Vec<String>,
    /// Where what was noted of them ends.
    mark: Mark,
}

/// One of the tries of a create.
struct Trial<'a, 'c> {
    creation: &'a Creation,
    phases: Phases,
    mutated: &'a mut Option<Mutated>,
    /// The lock of a side object others wrote.
    contended: &'a mut Option<MutexGuard<'c, ()>>,
}

impl Creation {
    fn new(env: &Env, new: &Value, tracked: bool) -> Creation {
        let text = |name| new.str_at(&["metadata", name]).unwrap_or("").to_owned();
        let generate_name = text("generateName");
        Creation {
            now: env.now_seconds() as i64,
            uid: env.uuid(),
            named_version: text("resourceVersion"),
            is_generated: text("name").is_empty() && !generate_name.is_empty(),
            generate_name,
            names_tried: 0,
            tracked,
            fresh: false,
            waited: 0,
        }
    }

    /// What the server owns of the metadata, as mutating admission sees it: not there yet.
    fn wipe_metadata(&self, new: &mut Value) {
        let metadata = new.map_at(&["metadata"]);
        for ours in ["resourceVersion", "uid", "creationTimestamp"] {
            metadata.remove(ours);
        }
    }

    /// What the server owns of the metadata, whatever an extension made of it.
    fn complete_metadata(&self, new: &mut Value) {
        let metadata = new.map_at(&["metadata"]);
        metadata.remove("resourceVersion");
        metadata.set("uid", self.uid.as_str());
        metadata.set("creationTimestamp", time::format_seconds(self.now));
    }

    /// The refusal of a name that is taken.
    fn taken(&self, request: &RequestContext<'_>, name: &str) -> Status {
        match self.generate_name.as_str() {
            "" => Status::already_exists(request.about(), name),
            _ => Status::no_unique_name(request.about(), name),
        }
    }

    /// As upstream, whose store refuses it: last of all, and never in a dry run. An unparsable version is ignored.
    fn check_version(&self, request: &RequestContext<'_>) -> Result<(), Status> {
        let digits = self.named_version.bytes().all(|b| b.is_ascii_digit());
        let named = digits && self.named_version.parse().is_ok_and(|version: u64| version > 0);
        match request.name.is_empty() && named {
            true => Err(Status::unknown("resourceVersion should not be set on objects to be created")),
            false => Ok(()),
        }
    }
}

impl Registry {
    /// Stores a new object. `again` returns the body for a retry.
    pub async fn create(
        &self,
        request: &RequestContext<'_>,
        body: Value,
        again: &Again<'_>,
    ) -> Result<Written, Status> {
        let storage = request.storage()?;
        let (new, warnings) = decode_new(request, body)?;
        let again = || decode_new(request, again()?).map(|(new, _)| new);
        let mut written = self.insert(request, storage, new, warnings, true, &again).await?;
        written.obj = self.convert_one(request.resource, &written.obj, Asked::Now).await?;
        Ok(written)
    }

    /// Stores a new object of the request's version. A retry, be it with another name, another address or another default,
    /// begins with the body `again` returns. `tracked`: its managers are noted here, not by the verb.
    pub(crate) async fn insert(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        mut new: Value,
        mut warnings: Vec<String>,
        tracked: bool,
        again: &Again<'_>,
    ) -> Result<Written, Status> {
        let mut creation = Creation::new(self.env(), &new, tracked);
        let now = creation.now;
        self.begin_create(request, storage, &mut new, tracked, now).await?;
        warnings.extend(kinds::kind_of(storage).warn_before_create(&new));
        let mut first = Some(new);
        let mut contended = None;
        // What mutating extensions made of the object, where its name is all that is tried again.
        let mut mutated: Option<Mutated> = None;
        let mark = request.mark();
        loop {
            request.begin_attempt(mutated.as_ref().map_or(mark, |mutated| mutated.mark));
            let mut effects = Effects::default();
            let mut new = match (first.take(), &mutated) {
                (Some(new), _) => new,
                (None, Some(mutated)) => {
                    self.check_deadline(request)?;
                    effects.warnings.clone_from(&mutated.warnings);
                    mutated.object.clone()
                }
                (None, None) => {
                    self.check_deadline(request)?;
                    let mut new = again()?;
                    self.begin_create(request, storage, &mut new, tracked, now).await?;
                    new
                }
            };
            if mutated.is_none() {
                creation.wipe_metadata(&mut new);
            }
            // Asked at each try: somebody may configure a webhook while we wait.
            let given = name_of(&new);
            let dry_run = request.options.dry_run;
            let phases = self.phases(&self.attempt(request, storage, Operation::Create, &given, dry_run));
            if phases.any() {
                if !creation.fresh {
                    // Policies and webhooks are asked once, so they are asked when nothing they rely on is old.
                    self.linearizable_read().await?;
                    creation.fresh = true;
                }
                // A webhook may take its time: nobody waits for us meanwhile.
                drop(contended.take());
            }
            let trial =
                Trial { creation: &creation, phases, mutated: &mut mutated, contended: &mut contended };
            let encoded = match self.admit_create(request, storage, &mut new, trial, &mut effects).await {
                Ok(Some(encoded)) => encoded,
                // What was reserved is somebody else's by now.
                Ok(None) => {
                    mutated = None;
                    continue;
                }
                Err(error) => match self.may_pass(&mut creation, error).await {
                    Ok(()) => {
                        mutated = None;
                        continue;
                    }
                    Err(status) => {
                        warnings.append(&mut effects.warnings);
                        return Err(status.after_warnings(warnings));
                    }
                },
            };
            if converted_storage(request.resource).is_some() {
                // A webhook may take its time: nobody waits for us meanwhile.
                drop(contended.take());
            }
            let encoded = self.encode_converted(request.resource, storage, &new, encoded).await?;
            // Some kinds name what came without a name.
            let name = name_of(&new);
            let key: Key = storage.key(request.namespace, &name).into();
            let mut warnings = warnings.clone();
            warnings.append(&mut effects.warnings);
            if request.options.dry_run {
                let shown = self.dry_run_create(request, storage, (&key, &name), encoded, &creation).await;
                return match shown {
                    Ok(obj) => Ok(Written { obj: Arc::new(obj), created: true, warnings }),
                    Err(status) => Err(status.after_warnings(warnings)),
                };
            }
            creation.check_version(request).map_err(|status| status.after_warnings(warnings.clone()))?;
            let expires_at = storage.ttl_seconds.map(|ttl| creation.now as u64 + u64::from(ttl));
            let value = bytes::Bytes::from(encoded);
            let put = Op::Put { value: value.clone(), expires_at };
            let mut commit = effects.join(&key, Guard::Absent, put);
            self.guard_by_fence(request, &mut commit)?;
            self.guard_by_definition(request, storage, &name, &mut commit)?;
            match self.engine().commit(commit).await {
                Ok(revision) => {
                    self.writers.note(revision, request.user);
                    let obj = self.committed(storage, &key, &value, revision, expires_at)?;
                    return Ok(Written { obj, created: true, warnings });
                }
                Err(CommitError::Conflict { key: lost }) if lost == key => {
                    creation.names_tried += 1;
                    if !creation.is_generated || creation.names_tried >= GENERATED_NAME_TRIES {
                        let taken = self.taken(storage, &key, creation.taken(request, &name)).await;
                        return Err(taken.after_warnings(warnings));
                    }
                }
                // Something the object depends on changed meanwhile: look at it again, after the others who wait for it.
                Err(CommitError::Conflict { key: lost }) => {
                    self.check_readable(&lost)?;
                    mutated = None;
                    drop(contended.take());
                    contended = Some(self.contended.lock(&lost).await);
                }
                Err(error) => return Err(store_failed(error)),
            }
        }
    }

    /// A body before anything is filled in: its managers are noted, and it is converted to the storage version.
    async fn begin_create(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        new: &mut Value,
        tracked: bool,
        now: i64,
    ) -> Result<(), Status> {
        if tracked {
            let conversions = Conversions::default();
            while managed_fields::track(request, storage, &conversions, None, new, now).is_err() {
                self.answer(request, storage, &conversions).await?;
            }
        }
        convert::to_storage(request.resource, storage, new)
    }

    /// Ok if a retry may succeed now; the refusal if not.
    async fn may_pass(&self, creation: &mut Creation, error: CreateError) -> Result<(), Status> {
        match error {
            CreateError::Final(status) => Err(status),
            CreateError::Refused(refusal) if refusal.is_final => Err(refusal.status),
            // Another server may just have created what is missing.
            CreateError::Refused(_) if !creation.fresh => {
                self.linearizable_read().await?;
                creation.fresh = true;
                Ok(())
            }
            CreateError::Refused(refusal) if refusal.may_pass_soon && creation.waited < SOON_TRIES => {
                self.env().sleep(SOON_PAUSE).await;
                creation.waited += 1;
                Ok(())
            }
            CreateError::Refused(refusal) => Err(refusal.status),
        }
    }

    /// The answer of a dry run.
    async fn dry_run_create(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        (key, name): (&Key, &str),
        encoded: Vec<u8>,
        creation: &Creation,
    ) -> Result<Obj, Status> {
        self.linearizable_read().await?;
        if !matches!(self.table().read(storage.id, key), Ok(None)) {
            return Err(self.taken(storage, key, creation.taken(request, name)).await);
        }
        // An object that is not stored gets no version; one the client sent stays, whatever it is.
        let encoded = if creation.named_version.is_empty() {
            encoded
        } else {
            let form = Some((storage.schema(), storage.ty));
            let mut stored = json::parse(&encoded, form).map_err(|_| not_encodable())?;
            stored.map_at(&["metadata"]).set("resourceVersion", creation.named_version.as_str());
            json::to_vec(&stored)
        };
        Obj::unpublished(storage, key, &encoded).map_err(|_| not_encodable())
    }

    /// Everything between a new object and the bytes to commit; `None` if it must be tried again. Warnings given before a refusal are
    /// in `effects`.
    async fn admit_create(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        new: &mut Value,
        trial: Trial<'_, '_>,
        effects: &mut Effects,
    ) -> Result<Option<Vec<u8>>, CreateError> {
        let Trial { creation, mut phases, mutated, contended } = trial;
        let given = name_of(new);
        let mut attempt = self.attempt(request, storage, Operation::Create, &given, request.options.dry_run);
        attempt.generate_name = &creation.generate_name;
        if request.resource.terminating {
            return Err(CreateError::Final(definition_guard::terminating(request, &given)));
        }
        if mutated.is_none() {
            self.mutate(&attempt, Extended::Whole, phases, new, effects).await?;
            if phases.admit && creation.is_generated {
                let (object, warnings) = (new.clone(), effects.warnings.clone());
                *mutated = Some(Mutated { object, warnings, mark: request.mark() });
            }
        }
        decode::check_namespace(request, new)?;
        creation.complete_metadata(new);
        // Only now, so that everything above that decides by name sees that there is none yet.
        self.generate_name(storage, new, &creation.generate_name);
        let name = name_of(new);
        attempt.name = &name;
        if name != given {
            // A rule may name what was just named.
            let was_extended = phases.any();
            phases.validate = self.admission.is_extended(&attempt, Phase::Validate);
            if phases.validate && !was_extended {
                drop(contended.take());
                self.linearizable_read().await?;
            }
        }
        let encoded = self.complete_create(&attempt, creation, new, effects)?;
        self.admission.authorize_create(&attempt)?;
        let holds = self.validate(&attempt, Extended::Whole, phases, new, effects).await?;
        Ok(holds.then_some(encoded))
    }

    /// What needs nobody else: reservations, strategy, validation.
    fn complete_create(
        &self,
        attempt: &Attempt<'_>,
        creation: &Creation,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<Vec<u8>, CreateError> {
        let (request, storage) = (attempt.request, attempt.storage);
        let kind = kinds::kind_of(storage);
        let namespace = self.in_namespace(request);
        let context = context(request, storage, creation.now, &namespace);
        if let Some(allocator) = self.admission.allocator(storage) {
            allocator.reserve(attempt, new, effects)?;
        }
        kinds::drop_disabled(kind, new, None);
        kinds::prepare_create(kind, new, &context);
        let encoded = self.complete(request.resource, storage, creation.tracked, new, None, &context);
        let encoded = encoded.map_err(|status| match namespace.asked.get() {
            true => CreateError::Refused(status.into()),
            false => CreateError::Final(status),
        })?;
        effects.warnings.extend(kinds::warnings::of(kind, new, None, &context));
        Ok(encoded)
    }

    /// Names what came without a name.
    fn generate_name(&self, storage: &Storage, new: &mut Value, generate_name: &str) {
        if generate_name.is_empty() || !name_of(new).is_empty() {
            return;
        }
        let suffixed = kinds::kind_of(storage).rules().name.takes_a_suffix();
        let name = if suffixed {
            let base: String = generate_name.chars().take(GENERATED_BASE).collect();
            base + &self.env().name_suffix()
        } else {
            generate_name.to_owned()
        };
        new.map_at(&["metadata"]).set("name", name);
    }

    /// The refusal of a name that is taken; it says so if the object is being deleted.
    async fn taken(&self, storage: &Storage, key: &str, status: Status) -> Status {
        // The store may know what took it before the table does.
        let _ = self.linearizable_read().await;
        match self.table().get(storage.id, key) {
            Some(there) if there.deleting() => {
                Status { message: format!("object is being deleted: {}", status.message), ..status }
            }
            _ => status,
        }
    }
}

/// The body of a create as an object of the request's version, and the warnings about it.
fn decode_new(request: &RequestContext<'_>, body: Value) -> Result<(Value, Vec<String>), Status> {
    let (of, validation) = (BodyType::of(request.resource), request.options.field_validation);
    let (mut new, mut warnings) = decode::object(request.catalog, of, body, validation)?;
    decode::check_place(request, &mut new).map_err(|status| status.after_warnings(warnings.clone()))?;
    wipe(&mut new);
    warnings.extend(kinds::dedup_owner_references(&mut new, false));
    Ok((new, warnings))
}

fn wipe(new: &mut Value) {
    let metadata = new.map_at(&["metadata"]);
    WIPED_ON_POST.iter().for_each(|wiped| _ = metadata.remove(wiped));
}

fn name_of(object: &Value) -> String {
    object.str_at(&["metadata", "name"]).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation(metadata: &str) -> (Creation, Value) {
        let new = json::parse(format!("{{\"metadata\":{metadata}}}").as_bytes(), None).unwrap();
        (Creation::new(&Env::simulated(1), &new, true), new)
    }

    #[test]
    fn a_name_is_generated_only_where_none_is_given() {
        assert!(creation(r#"{"generateName":"a-"}"#).0.is_generated);
        assert!(!creation(r#"{"name":"a","generateName":"a-"}"#).0.is_generated);
        assert!(!creation("{}").0.is_generated);
    }

    #[test]
    fn system_fields_are_replaced_and_the_same_at_every_try() {
        let (creation, mut new) =
            creation(r#"{"name":"a","uid":"mine","deletionTimestamp":"x","selfLink":"y"}"#);
        wipe(&mut new);
        creation.complete_metadata(&mut new);
        let first = new.clone();
        assert_ne!(new.str_at(&["metadata", "uid"]), Some("mine"));
        assert!(new.at(&["metadata", "deletionTimestamp"]).is_none());
        assert!(new.at(&["metadata", "selfLink"]).is_none());
        creation.complete_metadata(&mut new);
        assert_eq!(json::to_vec(&first), json::to_vec(&new));
    }
}
