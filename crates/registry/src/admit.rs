//! Admission of one attempt: plugins, then whatever users extend it by. Extensions may wait, so what was reserved before they were
//! asked is looked at again afterwards.

use ::managed_fields::Managers;
use admission::{Attempt, Body, Effects, Operation, Phase, Refusal};
use catalog::{Resource, Storage, StorageId, StrategySlot, Verified};
use object::{Status, Value};

use crate::subresource::{API_VERSION, KIND, ScaleChange, scale_type};
use crate::write::{ChangeRules, Extended};
use crate::{Registry, RequestContext};

/// The phases in which policies or webhooks may be asked about a write.
#[derive(Clone, Copy, Default)]
pub(crate) struct Phases {
    pub admit: bool,
    pub validate: bool,
}

impl Phases {
    pub fn any(self) -> bool {
        self.admit || self.validate
    }
}

impl Registry {
    /// When policies or webhooks may be asked about a change.
    pub(crate) fn phases_of_change(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        rules: ChangeRules<'_>,
    ) -> Phases {
        let dry_run = request.options.dry_run;
        let attempt = self.attempt(request, storage, Operation::Update, request.name, dry_run);
        match rules.extended {
            Extended::Not => Phases::default(),
            Extended::Whole => self.phases(&attempt),
            Extended::Scale(_) => {
                let request = RequestContext { subresource: Some("scale"), ..*request };
                self.phases(&Attempt { request: &request, ..attempt })
            }
        }
    }

    pub(crate) fn phases(&self, attempt: &Attempt<'_>) -> Phases {
        let of = |phase| self.admission.is_extended(attempt, phase);
        Phases { admit: of(Phase::Admit), validate: of(Phase::Validate) }
    }

    /// Mutating admission.
    pub(crate) async fn mutate(
        &self,
        attempt: &Attempt<'_>,
        extended: Extended<'_>,
        phases: Phases,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        match extended {
            Extended::Whole if phases.admit => {
                return Box::pin(self.mutate_extended(attempt, new, effects)).await;
            }
            Extended::Scale(change) if phases.admit => {
                return Box::pin(self.mutate_scale(attempt, change, new, effects)).await;
            }
            shown => self.note_unmatched(attempt, shown, Phase::Admit)?,
        }
        self.admission.mutate_built_in(attempt, new, effects)
    }

    /// Nobody is asked in a phase: says of a dry run who is configured all the same.
    fn note_unmatched(
        &self,
        attempt: &Attempt<'_>,
        extended: Extended<'_>,
        phase: Phase,
    ) -> Result<(), Status> {
        match extended {
            // They were asked before, about what led to this.
            Extended::Not => {}
            _ if !attempt.is_traced_in_full() => {}
            Extended::Whole => self.admission.note_unmatched(attempt, phase),
            Extended::Scale(_) => {
                let request = RequestContext { subresource: Some("scale"), ..*attempt.request };
                self.admission.note_unmatched(&self.scale_attempt(attempt, &request)?, phase);
            }
        }
        Ok(())
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
        extended: Extended<'_>,
        phases: Phases,
        new: &Value,
        effects: &mut Effects,
    ) -> Result<bool, Refusal> {
        match extended {
            // On the heap: the future of a write that nobody else is asked about stays small.
            Extended::Whole if phases.validate => {
                Box::pin(self.admission.validate(attempt, Some(new), effects)).await?;
                return self.reserve_again(attempt, new, effects);
            }
            Extended::Scale(change) if phases.validate => {
                Box::pin(self.validate_scale(attempt, change, new, effects)).await?;
                return Ok(true);
            }
            shown => self.note_unmatched(attempt, shown, Phase::Validate)?,
        }
        self.admission.validate_built_in(attempt, Some(new), effects)?;
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

    /// Extensions see the scale of an object, and change that. It is judged afterwards.
    async fn mutate_scale(
        &self,
        attempt: &Attempt<'_>,
        change: &ScaleChange<'_>,
        new: &mut Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let request = RequestContext { subresource: Some("scale"), ..*attempt.request };
        let (old, mut wanted) = change.take()?;
        let asked = Attempt { old: Some(&old), ..self.scale_attempt(attempt, &request)? };
        let answer = async {
            self.admission.mutate_extensions(&asked, &mut wanted, effects).await?;
            change.apply(attempt.storage, new, &mut wanted)?;
            self.admission.complete(attempt, new, effects)
        };
        self.admission.step(&asked, Phase::Admit, answer).await
    }

    /// As upstream, whose validating phase sees the scales of the objects, whatever the request said.
    async fn validate_scale(
        &self,
        attempt: &Attempt<'_>,
        change: &ScaleChange<'_>,
        new: &Value,
        effects: &mut Effects,
    ) -> Result<(), Refusal> {
        let request = RequestContext { subresource: Some("scale"), ..*attempt.request };
        let scale = |object: &Value| kinds::to_scale(change.paths, object);
        let old = attempt.old.map(scale).transpose()?.map(kinds::without_missing_replicas);
        let shown = scale(new)?;
        let asked = Attempt { old: old.as_ref(), ..self.scale_attempt(attempt, &request)? };
        self.admission.validate_as(attempt, Some(new), (&asked, Some(&shown)), effects).await
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

    /// Mutating admission of a body that is carried out or answered and never stored (a binding, a token), as it came.
    pub async fn mutate_answered(
        &self,
        request: &RequestContext<'_>,
        new: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let attempt = self.answered_attempt(request)?;
        let phases = self.phases(&attempt);
        // Nothing is committed, so nothing but warnings remains.
        let mut effects = Effects::default();
        let answer = self.mutate(&attempt, Extended::Whole, phases, new, &mut effects).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
    }

    /// Validating admission of the same, once it is complete.
    pub async fn validate_answered(
        &self,
        request: &RequestContext<'_>,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let attempt = self.answered_attempt(request)?;
        let phases = self.phases(&attempt);
        let mut effects = Effects::default();
        let answer = self.validate(&attempt, Extended::Whole, phases, new, &mut effects).await;
        warnings.append(&mut effects.warnings);
        answer.map(|_| ()).map_err(|refusal| refusal.status)
    }

    /// Mutating admission of a Binding of the old resource `bindings`: extensions see it as that, plugins as `pods/binding`.
    pub(crate) async fn mutate_binding(
        &self,
        request: &RequestContext<'_>,
        asked: &RequestContext<'_>,
        new: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let attempt = self.answered_attempt(request)?;
        let asked = Attempt { request: asked, body: whole_body_of(asked), ..attempt };
        let mut effects = Effects::default();
        let answer = self.admission.mutate_as(&attempt, &asked, new, &mut effects).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
    }

    /// Validating admission of the same.
    pub(crate) async fn validate_binding(
        &self,
        request: &RequestContext<'_>,
        asked: &RequestContext<'_>,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let attempt = self.answered_attempt(request)?;
        let asked = Attempt { request: asked, body: whole_body_of(asked), ..attempt };
        let (new, mut effects) = (Some(new), Effects::default());
        let answer = self.admission.validate_as(&attempt, new, (&asked, new), &mut effects).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
    }

    fn answered_attempt<'a>(&'a self, request: &'a RequestContext<'a>) -> Result<Attempt<'a>, Status> {
        let (storage, dry_run) = (request.storage()?, request.options.dry_run);
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        Ok(Attempt { body: body_of(request), ..attempt })
    }

    /// Mutating admission of a review: of a resource that is answered and never stored.
    pub async fn mutate_review(
        &self,
        request: &RequestContext<'_>,
        review: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let storage = unstored(request.resource);
        let attempt = self.review_attempt(request, &storage);
        let mut effects = Effects::default();
        let asked = self.admission.mutate_extensions(&attempt, review, &mut effects);
        let answer = self.admission.step(&attempt, Phase::Admit, asked).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
    }

    /// Validating admission of the same.
    pub async fn validate_review(
        &self,
        request: &RequestContext<'_>,
        review: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let storage = unstored(request.resource);
        let attempt = self.review_attempt(request, &storage);
        let mut effects = Effects::default();
        let asked = self.admission.validate_extensions(&attempt, Some(review), &mut effects);
        let answer = self.admission.step(&attempt, Phase::Validate, asked).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
    }

    fn review_attempt<'a>(&'a self, request: &'a RequestContext<'a>, storage: &'a Storage) -> Attempt<'a> {
        let dry_run = request.options.dry_run;
        let attempt = self.attempt(request, storage, Operation::Create, request.name, dry_run);
        Attempt { body: whole_body_of(request), ..attempt }
    }

    /// Admission of a request into a node, a pod or a Service. `options` is what it asks for, and may be changed.
    pub async fn admit_connect(
        &self,
        request: &RequestContext<'_>,
        options: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let storage = request.storage()?;
        let attempt = self.attempt(request, storage, Operation::Connect, request.name, false);
        let attempt = Attempt { body: body_of(request), ..attempt };
        let mut effects = Effects::default();
        let answer = self.admission.connect(&attempt, options, &mut effects).await;
        warnings.append(&mut effects.warnings);
        answer.map_err(|refusal| refusal.status)
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
        versions: Vec::new(),
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

/// What the body of a request is: often the resource's own type.
fn body_of<'a>(request: &RequestContext<'a>) -> Body<'a> {
    match request.subresource.and_then(|name| request.resource.subresource(name)) {
        Some(sub) if sub.kind != request.resource.kind => {
            Body::Other { group: &sub.group, version: &sub.version, kind: &sub.kind, ty: sub.ty }
        }
        _ => Body::Resource,
    }
}
