//! Creates: a name that may be generated, addresses and defaults that may be taken meanwhile, and another try where that helps.

use std::sync::Arc;
use std::time::Duration;

use admission::{Effects, Operation, Refusal};
use catalog::Storage;
use codec::json;
use object::{Obj, Status, Value, time};
use store::{CommitError, Guard, Key, Op};

use crate::write::{InNamespace, Written, context, extra_of, not_encodable};
use crate::{BodyType, Registry, RequestContext, convert, decode, store_failed};

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
    pub async fn create(&self, request: &RequestContext<'_>, body: Value) -> Result<Written, Status> {
        let storage = request.storage()?;
        let (mut new, mut warnings) = decode::object(
            request.catalog,
            BodyType::of(request.resource),
            body,
            request.options.field_validation,
        )?;
        decode::check_place(request, &mut new).map_err(|status| status.after_warnings(warnings.clone()))?;
        warnings.extend(kinds::dedup_owner_references(&mut new, false));
        self.insert(request, storage, new, warnings).await
    }

    /// Stores a new object of the request's version.
    pub(crate) async fn insert(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        mut new: Value,
        mut warnings: Vec<String>,
    ) -> Result<Written, Status> {
        convert::to_storage(request.resource, storage, &mut new)?;
        warnings.extend(kinds::kind_of(storage).warn_before_create(&new));
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
        let generated = !named && !asked.is_empty();
        let taken = |name: &str| match asked.as_str() {
            "" => Status::already_exists(request.about(), name),
            _ => Status::no_unique_name(request.about(), name),
        };
        // Another try, be it with another name, another address or another default, begins where this one did. Few are needed,
        // and to write the tree down costs half of what a second one does.
        let start = json::to_vec(&new);

        let (mut tried, mut names_tried, mut fresh, mut waited) = (false, 0, false, 0);
        let mut turn = None;
        loop {
            if tried {
                self.check_deadline(request)?;
                new = json::parse(&start, Some((storage.schema(), storage.ty)))
                    .map_err(|error| Status::internal(format!("what was written cannot be read: {error}")))?;
            }
            tried = true;
            let mut effects = Effects::default();
            let encoded = match self.fresh_step(request, storage, &mut new, &asked, now, &mut effects) {
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
            let name = name_of(&new);
            let key: Key = storage.key(request.namespace, &name).into();
            let mut warnings = warnings.clone();
            warnings.append(&mut effects.warnings);
            if request.options.dry_run {
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
            self.guard_by_fence(request, &mut commit)?;
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
        request: &RequestContext<'_>,
        storage: &Storage,
        new: &mut Value,
        generate_name: &str,
        now: i64,
        effects: &mut Effects,
    ) -> Result<Vec<u8>, Halt> {
        let kind = kinds::kind_of(storage);
        let extra = extra_of(request);
        let namespace = InNamespace { registry: self, name: request.namespace };
        let context = context(request, storage, now, &extra, &namespace);
        let given = name_of(new);
        let mut attempt = self.attempt(request, storage, Operation::Create, &given, request.options.dry_run);
        attempt.generate_name = generate_name;
        self.admission.mutate(&attempt, new, effects)?;
        // Only now, so that what decides by name above sees that there is none yet.
        self.generate_name(storage, new, generate_name);
        let name = name_of(new);
        attempt.name = &name;
        if let Some(allotter) = self.admission.allotter(storage) {
            allotter.reserve(&attempt, new, effects)?;
        }
        kinds::drop_disabled(kind, new, None);
        kinds::prepare_create(kind, new, &context);
        let encoded = self.complete(storage, new, None, &context)?;
        effects.warnings.extend(kinds::warnings::of(kind, new, None, &context));
        self.admission.authorize_create(&attempt)?;
        self.admission.validate(&attempt, Some(new), effects)?;
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
}

fn name_of(object: &Value) -> String {
    object.str_at(&["metadata", "name"]).unwrap_or("").to_owned()
}
