//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

mod call;
mod hook;
mod metrics;
mod response;

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Authorize, Effects, Extension, Invocations, Memo, Phase};
use catalog::Resource;
use futures_util::future::join_all;
use object::{Status, Value};
use store::BoxFuture;
use webhook::WebhookClient;

use call::{Call, Failure};
use hook::Webhook;
pub use metrics::WebhookMetrics;

use crate::criteria::{Invocation, is_exempt};

const GROUP: &str = "admissionregistration.k8s.io";

/// What both have: who is configured, and how they are reached.
struct Webhooks {
    configured: Memo<Vec<Arc<Webhook>>>,
    client: Arc<WebhookClient>,
    metrics: Arc<WebhookMetrics>,
    authorize: Authorize,
    phase: Phase,
}

pub struct MutatingWebhooks(Webhooks);
pub struct ValidatingWebhooks(Webhooks);

impl MutatingWebhooks {
    pub fn new(
        client: Arc<WebhookClient>,
        metrics: Arc<WebhookMetrics>,
        authorize: &Authorize,
    ) -> MutatingWebhooks {
        let authorize = authorize.clone();
        let configured = Memo::of(GROUP, "mutatingwebhookconfigurations");
        MutatingWebhooks(Webhooks { configured, client, metrics, authorize, phase: Phase::Admit })
    }
}

impl ValidatingWebhooks {
    pub fn new(
        client: Arc<WebhookClient>,
        metrics: Arc<WebhookMetrics>,
        authorize: &Authorize,
    ) -> ValidatingWebhooks {
        let authorize = authorize.clone();
        let configured = Memo::of(GROUP, "validatingwebhookconfigurations");
        ValidatingWebhooks(Webhooks { configured, client, metrics, authorize, phase: Phase::Validate })
    }
}

impl Webhooks {
    /// All there are, in the order they are called.
    fn configured(&self, attempt: &Attempt<'_>) -> Result<Arc<Vec<Arc<Webhook>>>, Status> {
        Ok(self.configured.get(attempt, hook::read_all)?.unwrap_or_default())
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        if is_exempt(attempt) {
            return false;
        }
        match self.configured(attempt) {
            Ok(hooks) => hooks.iter().any(|hook| hook.criteria.find(attempt).is_some()),
            // Asked then, it says why they cannot be read.
            Err(_) => true,
        }
    }

    /// Calls one; what it said besides yes or no is in `effects`.
    async fn call(&self, call: &Call<'_>, effects: &mut Effects) -> Result<response::Verdict, Failure> {
        let begun = call.attempt.env.monotonic();
        let answer = call.send(&self.client).await;
        let took = call.attempt.env.monotonic() - begun;
        self.metrics.called(call.hook, self.phase, call.attempt.operation, took, &answer);
        let verdict = answer?;
        for (key, value) in &verdict.audit_annotations {
            tracing::debug!(webhook = call.hook.name, key, value, "audit annotation");
        }
        let annotations = verdict.audit_annotations.iter().cloned();
        effects.audit_annotations.extend(annotations);
        effects.warnings.extend(verdict.warnings.iter().cloned());
        Ok(verdict)
    }

    /// What becomes of a call that failed.
    fn failed(&self, attempt: &Attempt<'_>, hook: &Webhook, failure: Failure) -> Result<(), Status> {
        match failure {
            Failure::Rejected(status) | Failure::Internal(status) => Err(status),
            Failure::Calling { message, .. } if hook.ignores_failures => {
                tracing::warn!(webhook = hook.name, error = message, "failed calling webhook, failing open");
                self.metrics.failed_open(hook, self.phase);
                match attempt.env.monotonic() < attempt.deadline {
                    true => Ok(()),
                    false => Err(Status::timeout("request did not complete within requested timeout")),
                }
            }
            Failure::Calling { message, .. } => {
                tracing::warn!(
                    webhook = hook.name,
                    error = message,
                    "failed calling webhook, failing closed"
                );
                Err(Status::internal(message))
            }
        }
    }
}

/// The objects of a request in one version.
struct Versioned {
    resource: Arc<Resource>,
    object: Option<Value>,
    old: Option<Value>,
    /// A webhook changed `object` since it was converted.
    dirty: bool,
}

impl Versioned {
    async fn new(
        attempt: &Attempt<'_>,
        invocation: &Invocation,
        object: Option<&Value>,
    ) -> Result<Versioned, Status> {
        let resource = invocation.resource.clone();
        let convert = async |object: Option<&Value>| match object {
            Some(object) => attempt.versions.to_version(attempt, &resource, object).await.map(Some),
            None => Ok(None),
        };
        let (object, old) = (convert(object).await?, convert(attempt.old).await?);
        Ok(Versioned { resource, object, old, dirty: false })
    }
}

impl Extension for MutatingWebhooks {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn phase(&self) -> Phase {
        Phase::Admit
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        self.0.concerns(attempt)
    }

    fn mutate<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a mut Value>,
        invocations: &'a mut Invocations,
        effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.0.mutate(attempt, new, invocations, effects))
    }
}

impl Webhooks {
    /// One after the other, each with what those before it made of the object.
    async fn mutate(
        &self,
        attempt: &Attempt<'_>,
        mut new: Option<&mut Value>,
        invocations: &mut Invocations,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let hooks = self.configured(attempt)?;
        let mut shown: Option<Versioned> = None;
        for hook in hooks.iter() {
            let current = match &shown {
                Some(shown) => shown.object.as_ref(),
                None => new.as_deref(),
            };
            let Some(invocation) = hook.criteria.matches(attempt, current)? else { continue };
            let versioned = match shown.take() {
                Some(kept) if kept.resource.id == invocation.resource.id => kept,
                kept => {
                    if let (Some(kept), Some(new)) = (kept, new.as_deref_mut()) {
                        restore(attempt, kept, new).await?;
                    }
                    Versioned::new(attempt, &invocation, new.as_deref()).await?
                }
            };
            let versioned = shown.insert(versioned);
            if !invocations.is_due(&hook.id) {
                continue;
            }
            if !hook.conditions_hold(
                attempt,
                &self.authorize,
                &invocation,
                versioned.object.as_ref(),
                versioned.old.as_ref(),
            )? {
                continue;
            }
            let call = Call {
                attempt,
                hook,
                invocation: &invocation,
                object: versioned.object.as_ref(),
                old: versioned.old.as_ref(),
                mutating: true,
            };
            let changed = match self.call(&call, effects).await {
                Ok(verdict) => match verdict.patched(hook, versioned.object.as_ref()) {
                    Ok(None) => Ok(None),
                    Ok(Some(patched)) => {
                        let decoded = attempt.versions.decode(attempt, &versioned.resource, patched).await;
                        decoded.map(Some).map_err(Failure::Internal)
                    }
                    Err(failure) => Err(failure),
                },
                Err(failure) => Err(failure),
            };
            match changed {
                Ok(None) => {}
                Ok(Some(object)) => {
                    if versioned.object.as_ref() != Some(&object) {
                        invocations.object_changed();
                    }
                    versioned.object = Some(object);
                    versioned.dirty = true;
                }
                Err(failure) => self.failed(attempt, hook, failure)?,
            }
            if hook.reinvocable {
                invocations.add_reinvocable(&hook.id);
            }
        }
        match (shown, new) {
            (Some(shown), Some(new)) => restore(attempt, shown, new).await,
            _ => Ok(()),
        }
    }
}

/// What webhooks changed, in the form admission goes on with.
async fn restore(attempt: &Attempt<'_>, shown: Versioned, new: &mut Value) -> Result<(), Status> {
    if let (true, Some(object)) = (shown.dirty, shown.object) {
        *new = attempt.versions.from_version(attempt, &shown.resource, object).await?;
    }
    Ok(())
}

impl Extension for ValidatingWebhooks {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn phase(&self) -> Phase {
        Phase::Validate
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        self.0.concerns(attempt)
    }

    fn validate<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a Value>,
        effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.0.validate(attempt, new, effects))
    }
}

impl Webhooks {
    /// All at once; the first refusal counts, once all have answered.
    async fn validate(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let hooks = self.configured(attempt)?;
        let mut shown: Vec<Versioned> = Vec::new();
        let mut due: Vec<(&Webhook, Invocation, usize)> = Vec::new();
        for hook in hooks.iter() {
            let Some(invocation) = hook.criteria.matches(attempt, new)? else { continue };
            let known = shown.iter().position(|shown| shown.resource.id == invocation.resource.id);
            let at = match known {
                Some(at) => at,
                None => {
                    shown.push(Versioned::new(attempt, &invocation, new).await?);
                    shown.len() - 1
                }
            };
            let Versioned { object, old, .. } = &shown[at];
            if hook.conditions_hold(attempt, &self.authorize, &invocation, object.as_ref(), old.as_ref())? {
                due.push((hook, invocation, at));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        if attempt.deadline.saturating_duration_since(attempt.env.monotonic()) == Duration::ZERO {
            return Err(Status::timeout("request did not complete within requested timeout"));
        }
        let calls = due.iter().map(|(hook, invocation, at)| {
            let Versioned { object, old, .. } = &shown[*at];
            let call = Call {
                attempt,
                hook,
                invocation,
                object: object.as_ref(),
                old: old.as_ref(),
                mutating: false,
            };
            async move {
                let mut said = Effects::default();
                let answer = self.call(&call, &mut said).await.and_then(|verdict| verdict.allowed(call.hook));
                (answer.map_or_else(|failure| self.failed(attempt, call.hook, failure), |()| Ok(())), said)
            }
        });
        let mut refused = Ok(());
        for (answer, mut said) in join_all(calls).await {
            effects.warnings.append(&mut said.warnings);
            effects.audit_annotations.append(&mut said.audit_annotations);
            refused = refused.and(answer);
        }
        refused
    }
}
