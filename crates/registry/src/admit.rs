//! Admission of one attempt: plugins, then whatever users extend it by. Extensions may wait, so what was reserved before they were
//! asked is looked at again afterwards.

use ::managed_fields::Managers;
use admission::{Attempt, Body, Effects, Operation, Phase, Refusal};
use catalog::{Resource, Storage, StorageId, StrategySlot, Verified};
use object::{Status, Value};

use crate::subresource::{API_VERSION, KIND, scale_type};
use crate::write::{ChangeRules, Extended};
use crate::{Registry, RequestContext};

impl Registry {
    /// Whether policies or webhooks may be asked about a write.
    pub(crate) fn is_extended(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        rules: ChangeRules,
        operation: Operation,
    ) -> bool {
        let attempt = self.attempt(request, storage, operation, request.name, request.options.dry_run);
        match rules.extended {
            Extended::Not => false,
            Extended::Whole => self.is_attempt_extended(&attempt),
            Extended::Scale => {
                let request = RequestContext { subresource: Some("scale"), ..*request };
                self.is_attempt_extended(&Attempt { request: &request, ..attempt })
            }
        }
    }

    pub(crate) fn is_attempt_extended(&self, attempt: &Attempt<'_>) -> bool {
        [Phase::Admit, Phase::Validate].into_iter().any(|phase| self.admission.is_extended(attempt, phase))
    }

    /// Mutating admission.
    pub(crate) async fn mutate(
        &self,
        attempt: &Attempt<'_>,
        extended: Extended,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        match extended {
            Extended::Not => self.admission.mutate_built_in(attempt, new, effects),
            Extended::Whole if !self.admission.is_extended(attempt, Phase::Admit) => {
                self.admission.mutate_built_in(attempt, new, effects)
            }
            Extended::Whole => Box::pin(self.mutate_extended(attempt, new, effects)).await,
            Extended::Scale => {
                self.admission.mutate_built_in(attempt, new, effects)?;
                Box::pin(self.mutate_scale(attempt, new, effects)).await
            }
        }
    }

    /// What extensions did is brought in order: managers that cannot be read are as they were, owners are named once.
    async fn mutate_extended(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        const MANAGERS: &str = "managedFields";
        let before = new.at(&["metadata", MANAGERS]).cloned();
        self.admission.mutate(attempt, new, effects).await?;
        if let Err(error) = Managers::decode(new.at(&["metadata", MANAGERS]).cloned()) {
            effects.warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating \
                 admission controller; please fix your requests: {error}"
            ));
            let metadata = new.map_at(&["metadata"]);
            metadata.remove(MANAGERS);
            if let Some(before) = before {
                metadata.set(MANAGERS, before);
            }
        }
        if attempt.body == Body::Resource {
            effects.warnings.extend(kinds::dedup_owner_references(new, true));
        }
        Ok(())
    }

    /// Validating admission of an update. False: something that was reserved is gone, so all of it is to be tried again.
    pub(crate) async fn validate(
        &self,
        attempt: &Attempt<'_>,
        extended: Extended,
        new: &Value,
        effects: &mut Effects,
    ) -> Result<bool, Refusal> {
        match extended {
            Extended::Not => self.admission.validate_built_in(attempt, Some(new), effects)?,
            Extended::Scale => {
                Box::pin(self.validate_scale(attempt, new, effects)).await?;
                self.admission.validate_built_in(attempt, Some(new), effects)?;
            }
            Extended::Whole => {
                let waits = self.admission.is_extended(attempt, Phase::Validate);
                self.admission.validate(attempt, Some(new), effects).await?;
                return if waits { self.reserve_again(attempt, new, effects) } else { Ok(true) };
            }
        }
        Ok(true)
    }

    /// Time has passed since the addresses and ports of the object were reserved.
    fn reserve_again(
        &self,
        attempt: &Attempt<'_>,
        new: &Value,
        effects: &mut Effects,
    ) -> Result<bool, Refusal> {
        let Some(allocator) = self.admission.allocator(attempt.storage) else { return Ok(true) };
        let (mut again, mut reserved) = (new.clone(), Effects::default());
        if allocator.reserve(attempt, &mut again, &mut reserved).is_err() || again != *new {
            return Ok(false);
        }
        // One reservation for each key, the later.
        effects.guards.retain(|(key, _)| !reserved.guards.iter().any(|(other, _)| other == key));
        effects.ops.retain(|(key, _)| !reserved.ops.iter().any(|(other, _)| other == key));
        effects.guards.append(&mut reserved.guards);
        effects.ops.append(&mut reserved.ops);
        Ok(true)
    }

    /// Extensions see the scale of an object, and change that.
    async fn mutate_scale(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let request = RequestContext { subresource: Some("scale"), ..*attempt.request };
        let scale = self.scale_attempt(attempt, &request)?;
        if !self.admission.is_extended(&scale, Phase::Admit) {
            return Ok(());
        }
        let Scales { paths, old, new: mut shown } = Scales::of(attempt, new)?;
        let scale = Attempt { old: old.as_ref(), ..scale };
        self.admission.mutate_extensions(&scale, &mut shown, effects).await?;
        kinds::apply_scale(paths, attempt.storage, new, &shown)?;
        Ok(())
    }

    async fn validate_scale(
        &self,
        attempt: &Attempt<'_>,
        new: &Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let request = RequestContext { subresource: Some("scale"), ..*attempt.request };
        let scale = self.scale_attempt(attempt, &request)?;
        if !self.admission.is_extended(&scale, Phase::Validate) {
            return Ok(());
        }
        let Scales { old, new: shown, .. } = Scales::of(attempt, new)?;
        let scale = Attempt { old: old.as_ref(), ..scale };
        self.admission.validate_extensions(&scale, Some(&shown), effects).await
    }

    fn scale_attempt<'a>(
        &self,
        attempt: &Attempt<'a>,
        request: &'a RequestContext<'a>,
    ) -> Result<Attempt<'a>, Status> {
        let (group, version) = API_VERSION.split_once('/').unwrap_or(("", API_VERSION));
        let body = Body::Other { group, version, kind: KIND, ty: Some(scale_type(request)?) };
        Ok(Attempt { request, body, ..*attempt })
    }

    /// Mutating admission of a body that is carried out or answered and never stored (a binding, a token), as it came. Returns
    /// warnings.
    pub async fn mutate_answered(
        &self,
        request: &RequestContext<'_>,
        new: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let attempt = self.answered_attempt(request)?;
        // Nothing is committed, so nothing joins it.
        let mut effects = Effects::default();
        self.mutate(&attempt, Extended::Whole, new, &mut effects).await.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }

    /// Validating admission of the same, once it is complete.
    pub async fn validate_answered(
        &self,
        request: &RequestContext<'_>,
        new: &Value,
    ) -> Result<Vec<String>, Status> {
        let attempt = self.answered_attempt(request)?;
        let mut effects = Effects::default();
        let judged = self.admission.validate(&attempt, Some(new), &mut effects).await;
        judged.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }

    /// Mutating admission of a Binding of the old resource `bindings`: extensions see it as that, plugins as `pods/binding`.
    pub(crate) async fn mutate_binding(
        &self,
        request: &RequestContext<'_>,
        asked: &RequestContext<'_>,
        new: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let attempt = self.answered_attempt(request)?;
        let mut effects = Effects::default();
        let answer = match self.admission.mutate_built_in(&attempt, new, &mut effects) {
            Ok(()) => {
                let asked = Attempt { request: asked, body: whole_body_of(asked), ..attempt };
                self.admission.mutate_extensions(&asked, new, &mut effects).await
            }
            refused => refused,
        };
        answer.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }

    /// Validating admission of the same.
    pub(crate) async fn validate_binding(
        &self,
        request: &RequestContext<'_>,
        asked: &RequestContext<'_>,
        new: &Value,
    ) -> Result<Vec<String>, Status> {
        let attempt = self.answered_attempt(request)?;
        let mut effects = Effects::default();
        let asked = Attempt { request: asked, body: whole_body_of(asked), ..attempt };
        let answer = match self.admission.validate_extensions(&asked, Some(new), &mut effects).await {
            Ok(()) => self.admission.validate_built_in(&attempt, Some(new), &mut effects),
            refused => refused,
        };
        answer.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }

    fn answered_attempt<'a>(&'a self, request: &'a RequestContext<'a>) -> Result<Attempt<'a>, Status> {
        let (storage, dry_run) = (request.storage()?, request.options.dry_run);
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        Ok(Attempt { body: body_of(request), ..attempt })
    }

    /// Mutating admission of a review: of a resource that is answered and never stored. Returns warnings.
    pub async fn mutate_review(
        &self,
        request: &RequestContext<'_>,
        review: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let storage = unstored(request.resource);
        let attempt = self.review_attempt(request, &storage);
        let mut effects = Effects::default();
        if self.admission.is_extended(&attempt, Phase::Admit) {
            let asked = self.admission.mutate_extensions(&attempt, review, &mut effects).await;
            asked.map_err(|refusal| refusal.status)?;
        }
        Ok(effects.warnings)
    }

    /// Validating admission of the same.
    pub async fn validate_review(
        &self,
        request: &RequestContext<'_>,
        review: &Value,
    ) -> Result<Vec<String>, Status> {
        let storage = unstored(request.resource);
        let attempt = self.review_attempt(request, &storage);
        let mut effects = Effects::default();
        let judged = self.admission.validate_extensions(&attempt, Some(review), &mut effects).await;
        judged.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }

    fn review_attempt<'a>(&'a self, request: &'a RequestContext<'a>, storage: &'a Storage) -> Attempt<'a> {
        let dry_run = request.options.dry_run;
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        Attempt { body: whole_body_of(request), ..attempt }
    }

    /// Admission of a request into a node, a pod or a Service. `options` is what it asks for, and may be changed. Returns warnings.
    pub async fn admit_connect(
        &self,
        request: &RequestContext<'_>,
        options: &mut Value,
    ) -> Result<Vec<String>, Status> {
        let storage = request.storage()?;
        let attempt = self.attempt(request, storage, Operation::Connect, request.name, false);
        let attempt = Attempt { body: body_of(request), ..attempt };
        let mut effects = Effects::default();
        self.admission.connect(&attempt, options, &mut effects).await.map_err(|refusal| refusal.status)?;
        Ok(effects.warnings)
    }
}

/// What stands for the storage of a resource that has none: nothing is ever read or written there.
fn unstored(resource: &Resource) -> Storage {
    Storage {
        id: StorageId(u32::MAX),
        prefix: "".into(),
        group: resource.group.clone(),
        version: resource.version.clone(),
        earlier_versions: Vec::new(),
        verified: Verified::default(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
        namespaced: resource.namespaced,
        ty: resource.ty,
        types: resource.types.clone(),
        unconditional_update: false,
        create_on_update: false,
        returns_deleted: false,
        selectable: Vec::new(),
        indexed: None,
        orphan_by_default: false,
        no_gc: true,
        ttl_seconds: None,
        strategy: StrategySlot::default(),
    }
}

/// An object of a resource that is answered and never stored: it has one version.
fn whole_body_of<'a>(request: &RequestContext<'a>) -> Body<'a> {
    let resource = request.resource;
    Body::Other {
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        ty: Some(resource.ty),
    }
}

/// The scale of an object, before and after.
struct Scales<'a> {
    paths: &'a kinds::ScalePaths,
    old: Option<Value>,
    new: Value,
}

impl<'a> Scales<'a> {
    fn of(attempt: &Attempt<'a>, new: &Value) -> Result<Scales<'a>, Status> {
        let paths = kinds::kind_of(attempt.storage).scale_paths(&attempt.request.resource.version);
        let paths = paths.ok_or_else(Status::no_such_resource)?;
        let old = attempt.old.map(|old| kinds::to_scale(paths, old)).transpose()?;
        let old = old.map(kinds::without_missing_replicas);
        Ok(Scales { paths, old, new: kinds::to_scale(paths, new)? })
    }
}

/// What the body of a request is: often the resource's own type.
fn body_of<'a>(request: &RequestContext<'a>) -> Body<'a> {
    match request.subresource.and_then(|name| request.resource.subresource(name)) {
        Some(sub) if sub.kind != request.resource.kind => {
            Body::Other { group: &sub.group, version: &sub.version, kind: &sub.kind, ty: sub.ty }
        }
        _ => Body::Resource,
    }
}
