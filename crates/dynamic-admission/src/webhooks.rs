//! MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

mod call;
mod hook;
mod metrics;
mod response;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Authorize, Effects, Extension, Invocations, Memo, Phase, UnknownFields, changes};
use catalog::Resource;
use futures_util::future::join_all;
use object::{Status, Value};
use store::BoxFuture;
use tokio::time::Instant;
use webhook::{Kubeconfig, WebhookClient};

use call::{Call, Failure};
use hook::{Compiled, Webhook};
pub use metrics::WebhookMetrics;

use crate::conditions::MatchConditionMetrics;
use crate::criteria::{Invocation, Match, is_exempt};
use crate::index::Index;
use crate::turn::{Turn, timed_out};

const GROUP: &str = "admissionregistration.k8s.io";

/// MutatingAdmissionWebhook or ValidatingAdmissionWebhook, by its phase: who is configured, and how they are reached.
pub struct Webhooks {
    configured: Memo<Index<Webhook>>,
    compiled: Compiled,
    client: Arc<WebhookClient>,
    /// Who this server is to them.
    kubeconfig: Option<Arc<Kubeconfig>>,
    metrics: Arc<WebhookMetrics>,
    conditions: Arc<MatchConditionMetrics>,
    authorize: Authorize,
    phase: Phase,
}

impl Webhooks {
    pub fn new(
        phase: Phase,
        client: Arc<WebhookClient>,
        kubeconfig: Option<Arc<Kubeconfig>>,
        metrics: Arc<WebhookMetrics>,
        conditions: Arc<MatchConditionMetrics>,
        authorize: Authorize,
    ) -> Webhooks {
        let plural = match phase {
            Phase::Admit => "mutatingwebhookconfigurations",
            Phase::Validate => "validatingwebhookconfigurations",
        };
        let configured = Memo::of(GROUP, plural);
        let compiled = Compiled::default();
        Webhooks { configured, compiled, client, kubeconfig, metrics, conditions, authorize, phase }
    }

    /// All there are, in the order they are called.
    fn configured(&self, attempt: &Attempt<'_>) -> Result<Arc<Index<Webhook>>, Status> {
        let read = |configurations| Index::new(self.compiled.read_all(configurations));
        Ok(self.configured.get(attempt, read)?.unwrap_or_default())
    }

    /// The invocation, if a webhook is to be asked by its rules and selectors.
    fn find(
        &self,
        attempt: &Attempt<'_>,
        hook: &Webhook,
        object: Option<&Value>,
    ) -> Result<Option<Invocation>, Status> {
        match hook.criteria.matches(attempt, object) {
            Ok(Match::Yes(invocation)) => Ok(Some(invocation)),
            Ok(Match::No(mismatch)) => {
                self.pass_over(attempt, hook, || mismatch.why().to_owned());
                Ok(None)
            }
            Err(status) => {
                self.note(attempt, hook, || format!("refused: {}", status.message), None);
                Err(status)
            }
        }
    }

    /// Whether its match conditions hold.
    async fn conditions_hold(
        &self,
        attempt: &Attempt<'_>,
        hook: &Webhook,
        invocation: &Invocation,
        (object, old): (Option<&Value>, Option<&Value>),
        turn: &mut Turn<'_>,
    ) -> Result<bool, Status> {
        if !hook.has_conditions() {
            return Ok(true);
        }
        let matching = hook.conditions_hold(attempt, self, invocation, object, old);
        turn.end_evaluation().await?;
        if let Err(status) = &matching {
            self.note(attempt, hook, || format!("refused: {}", status.message), None);
        }
        matching
    }

    /// For who asks what became of a request.
    fn note(
        &self,
        attempt: &Attempt<'_>,
        hook: &Webhook,
        did: impl FnOnce() -> String,
        took: Option<Duration>,
    ) {
        if attempt.trace.is_some() {
            attempt.note(self.phase, self.name(), hook.who(), did(), took);
        }
    }

    /// The same of one that is not called.
    fn pass_over(&self, attempt: &Attempt<'_>, hook: &Webhook, why: impl FnOnce() -> String) {
        if attempt.trace.is_some() {
            let why = format!("not called: {}", why());
            attempt.note_passed_over(self.phase, self.name(), hook.who(), why);
        }
    }

    /// Calls one; what it said besides yes or no is in `effects`.
    async fn call(&self, call: &Call<'_>, effects: &mut Effects) -> Result<response::Verdict, Failure> {
        let mut verdict = call.send(&self.client, self.kubeconfig.as_deref()).await?;
        for (key, value) in std::mem::take(&mut verdict.audit_annotations) {
            call.attempt.annotate(format!("{}/{key}", call.hook.name), value);
        }
        effects.warnings.append(&mut verdict.warnings);
        Ok(verdict)
    }

    /// The same, and the object with its patch; `None` if it has none.
    async fn call_patching(&self, call: &Call<'_>, effects: &mut Effects) -> Result<Option<Value>, Failure> {
        let verdict = self.call(call, effects).await?;
        let Some(patched) = verdict.patched(call.hook, call.object)? else { return Ok(None) };
        let (attempt, resource) = (call.attempt, &call.invocation.resource);
        let decoded = attempt.versions.decode(attempt, resource, patched, UnknownFields::Dropped).await;
        decoded.map(Some).map_err(Failure::Internal)
    }

    /// What came of a call is counted once all of it is known. Returns how long it took.
    fn count(&self, call: &Call<'_>, begun: Instant, failure: Option<&Failure>) -> Duration {
        let took = call.attempt.env.monotonic() - begun;
        self.metrics.called(call.hook, self.phase, call.attempt.operation, took, failure);
        if let Some(trace) = call.attempt.request.trace {
            trace.waited_for_webhook(self.phase, took);
        }
        took
    }

    /// What becomes of a call that failed. `place`: upstream's key of the annotation.
    fn failed(
        &self,
        attempt: &Attempt<'_>,
        hook: &Webhook,
        failure: Failure,
        place: Place,
        took: Duration,
    ) -> Result<(), Status> {
        let answer = match failure {
            Failure::Rejected(status) | Failure::Internal(status) => Err(status),
            Failure::Calling { message, canceled, .. } if hook.ignores_failures => {
                // A call that is given up says nothing about the webhook.
                if canceled {
                    tracing::warn!(webhook = hook.name, "context canceled when calling webhook");
                } else {
                    tracing::warn!(
                        webhook = hook.name,
                        error = message,
                        "failed calling webhook, failing open"
                    );
                    self.metrics.failed_open(hook, self.phase);
                    if attempt.trace.is_some() {
                        let kind = if self.phase == Phase::Admit { "mutation" } else { "validating" };
                        attempt.annotate(format!("failed-open.{kind}.{place}"), hook.name.clone());
                    }
                }
                match attempt.env.monotonic() < attempt.deadline {
                    true => {
                        let did = || format!("failed, which failurePolicy ignores: {message}");
                        self.note(attempt, hook, did, Some(took));
                        return Ok(());
                    }
                    false => Err(timed_out()),
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
        };
        if let Err(status) = &answer {
            self.note(attempt, hook, || format!("refused: {}", status.message), Some(took));
        }
        answer
    }
}

/// A call, from its beginning. Dropped before its answer is counted it was given up, which is counted and noted as well.
struct CallUnderWay<'a> {
    webhooks: &'a Webhooks,
    call: &'a Call<'a>,
    place: Place,
    begun: Instant,
    answered: bool,
}

impl<'a> CallUnderWay<'a> {
    fn begin(webhooks: &'a Webhooks, call: &'a Call<'a>, place: Place) -> CallUnderWay<'a> {
        let begun = call.attempt.env.monotonic();
        CallUnderWay { webhooks, call, place, begun, answered: false }
    }

    /// Returns how long it took.
    fn answered<T>(mut self, answer: &Result<T, Failure>) -> Duration {
        self.answered = true;
        self.webhooks.count(self.call, self.begun, answer.as_ref().err())
    }
}

impl Drop for CallUnderWay<'_> {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        let CallUnderWay { webhooks, call: Call { attempt, hook, .. }, place, begun, .. } = *self;
        // The client is gone; or the request's time is over, which does say something about the webhook.
        let canceled = attempt.env.monotonic() < attempt.deadline;
        let did = if canceled { "given up by the client" } else { "given up: the request timed out" };
        let failure = Failure::Calling { message: did.to_owned(), code: 503, canceled };
        let took = webhooks.count(self.call, begun, Some(&failure));
        tracing::warn!(webhook = hook.name, error = did, "failed calling webhook");
        if hook.ignores_failures && !canceled {
            webhooks.metrics.failed_open(hook, webhooks.phase);
        }
        webhooks.note(attempt, hook, || did.to_owned(), Some(took));
        if webhooks.phase == Phase::Admit {
            annotate_mutation(attempt, hook, place, false);
        }
    }
}

/// Where a call stands among the others, as upstream's audit annotations say it.
#[derive(Clone, Copy)]
struct Place {
    round: usize,
    index: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "webhook.admission.k8s.io/round_{}_index_{}", self.round, self.index)
    }
}

impl Extension for Webhooks {
    fn name(&self) -> &'static str {
        match self.phase {
            Phase::Admit => "MutatingAdmissionWebhook",
            Phase::Validate => "ValidatingAdmissionWebhook",
        }
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        if is_exempt(attempt) {
            return false;
        }
        match self.configured(attempt) {
            Ok(hooks) => hooks.candidates(attempt).any(|(_, hook)| hook.criteria.find(attempt).is_some()),
            // Asked then, it says why they cannot be read.
            Err(_) => true,
        }
    }

    fn unmatched(&self, attempt: &Attempt<'_>) -> Vec<String> {
        self.configured(attempt).map(|hooks| hooks.unmatched(attempt)).unwrap_or_default()
    }

    fn mutate<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a mut Value>,
        invocations: &'a mut Invocations,
        effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.mutate_all(attempt, new, invocations, effects))
    }

    fn validate<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a Value>,
        effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.validate_all(attempt, new, effects))
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

impl Webhooks {
    /// One after the other, each with what those before it made of the object.
    async fn mutate_all(
        &self,
        attempt: &Attempt<'_>,
        mut new: Option<&mut Value>,
        invocations: &mut Invocations,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let hooks = self.configured(attempt)?;
        let mut shown: Option<Versioned> = None;
        let mut turn = Turn::begin(attempt);
        for (index, hook) in hooks.candidates(attempt) {
            let current = match &shown {
                Some(shown) => shown.object.as_ref(),
                None => new.as_deref(),
            };
            let Some(invocation) = self.find(attempt, hook, current)? else { continue };
            let is_due = invocations.is_due(&hook.id);
            if !is_due && !hook.has_conditions() {
                continue;
            }
            let place = Place { round: usize::from(invocations.is_reinvocation), index };
            let versioned = match shown.take() {
                Some(kept) if kept.resource.id == invocation.resource.id => kept,
                kept => {
                    if let (Some(kept), Some(new)) = (kept, new.as_deref_mut()) {
                        restore(attempt, kept, new).await.map_err(twice_internal)?;
                    }
                    let versioned = Versioned::new(attempt, &invocation, new.as_deref()).await;
                    versioned.map_err(twice_internal)?
                }
            };
            let versioned = shown.insert(versioned);
            let objects = (versioned.object.as_ref(), versioned.old.as_ref());
            // As upstream: conditions are evaluated, and may refuse, also for a webhook that is not asked again.
            if !self.conditions_hold(attempt, hook, &invocation, objects, &mut turn).await? || !is_due {
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
            let under_way = CallUnderWay::begin(self, &call, place);
            let changed = self.call_patching(&call, effects).await;
            let took = under_way.answered(&changed);
            let mut mutated = false;
            match changed {
                Ok(None) => self.note(attempt, hook, || "allowed".to_owned(), Some(took)),
                Ok(Some(object)) => {
                    mutated = versioned.object.as_ref() != Some(&object);
                    let before = versioned.object.replace(object);
                    versioned.dirty = true;
                    if mutated {
                        invocations.object_changed();
                    }
                    let did = || {
                        let changed = before.zip(versioned.object.as_ref());
                        let changed = changed.and_then(|(before, after)| changes(&before, after));
                        match changed {
                            Some(changed) => format!("allowed, changed: {changed}"),
                            None => "allowed, its patch changes nothing".to_owned(),
                        }
                    };
                    self.note(attempt, hook, did, Some(took));
                }
                Err(failure) => {
                    let failed = self.failed(attempt, hook, failure, place, took);
                    annotate_mutation(attempt, hook, place, false);
                    failed?;
                }
            }
            annotate_mutation(attempt, hook, place, mutated);
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

/// Upstream's annotation of a call. The one with the patch itself is of a level above metadata, so there is none here.
fn annotate_mutation(attempt: &Attempt<'_>, hook: &Webhook, place: Place, mutated: bool) {
    if attempt.trace.is_none() {
        return;
    }
    let mut value = Value::map();
    let map = value.make_map();
    map.set("configuration", hook.configuration.as_str());
    map.set("webhook", hook.name.as_str());
    map.set("mutated", mutated);
    let text = String::from_utf8(codec::json::to_vec(&value)).unwrap_or_default();
    attempt.annotate(format!("mutation.{place}"), text);
}

/// An object that cannot be converted for a mutating webhook; upstream says twice that the error is internal. The failure policy has
/// no say.
fn twice_internal(status: Status) -> Status {
    Status::internal(Status::internal(status.message).message)
}

/// What webhooks changed, in the form admission goes on with.
async fn restore(attempt: &Attempt<'_>, shown: Versioned, new: &mut Value) -> Result<(), Status> {
    if let (true, Some(object)) = (shown.dirty, shown.object) {
        *new = attempt.versions.from_version(attempt, &shown.resource, object).await?;
    }
    Ok(())
}

impl Webhooks {
    /// All at once; the first refusal counts, once all have answered.
    async fn validate_all(
        &self,
        attempt: &Attempt<'_>,
        new: Option<&Value>,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let hooks = self.configured(attempt)?;
        let mut shown: Vec<Versioned> = Vec::new();
        let mut due: Vec<(&Webhook, Invocation, usize)> = Vec::new();
        let mut turn = Turn::begin(attempt);
        for (_, hook) in hooks.candidates(attempt) {
            let Some(invocation) = self.find(attempt, hook, new)? else { continue };
            let known = shown.iter().position(|shown| shown.resource.id == invocation.resource.id);
            let at = match known {
                Some(at) => at,
                None => {
                    let versioned = Versioned::new(attempt, &invocation, new).await;
                    shown.push(versioned.map_err(|status| Status::internal(status.message))?);
                    shown.len() - 1
                }
            };
            let objects = (shown[at].object.as_ref(), shown[at].old.as_ref());
            if self.conditions_hold(attempt, hook, &invocation, objects, &mut turn).await? {
                due.push((hook, invocation, at));
            }
        }
        if due.is_empty() {
            return Ok(());
        }
        if attempt.deadline.saturating_duration_since(attempt.env.monotonic()) == Duration::ZERO {
            return Err(timed_out());
        }
        let calls = due.iter().enumerate().map(|(index, (hook, invocation, at))| {
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
                let (mut said, place) = (Effects::default(), Place { round: 0, index });
                let under_way = CallUnderWay::begin(self, &call, place);
                let answer = self.call(&call, &mut said).await;
                let answer = answer.and_then(|verdict| verdict.allowed(call.hook));
                let took = under_way.answered(&answer);
                let answer = match answer {
                    Ok(()) => {
                        self.note(attempt, call.hook, || "allowed".to_owned(), Some(took));
                        Ok(())
                    }
                    Err(failure) => self.failed(attempt, call.hook, failure, place, took),
                };
                (answer, said)
            }
        });
        let mut refused = Ok(());
        for (answer, mut said) in join_all(calls).await {
            effects.warnings.append(&mut said.warnings);
            refused = refused.and(answer);
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use admission::Operation;
    use env::Env;
    use webhook::{HostPort, ResolveError, ServiceResolver};

    use super::*;
    use crate::testing::{World, everybody_may, value};

    struct Nobody;

    impl ServiceResolver for Nobody {
        fn resolve(&self, _: &str, name: &str, _: u16) -> Result<Arc<[HostPort]>, ResolveError> {
            Err(ResolveError::NoEndpoints(name.to_owned()))
        }
    }

    fn webhooks() -> Webhooks {
        let client = Arc::new(WebhookClient::new(Env::machine(), Arc::new(Nobody)));
        Webhooks::new(Phase::Admit, client, None, Arc::default(), Arc::default(), everybody_may())
    }

    async fn configure(world: &World, more: &str) {
        let hook = format!(
            r#""webhooks":[{{"name":"w.example.io"{more},"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{{"url":"https://127.0.0.1:1/"}},"rules":[{{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}}]}}]"#
        );
        world.put(GROUP, "mutatingwebhookconfigurations", ("", "c"), &hook).await;
        world.put("", "namespaces", ("", "n"), r#""spec":{}"#).await;
    }

    /// As upstream: a conversion may be a call to a webhook itself, and may fail.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_converted_for_a_webhook_that_is_not_asked_again() {
        for (conditions, conversions) in
            [("", 0), (r#","matchConditions":[{"name":"c","expression":"true"}]"#, 1)]
        {
            let mut world = World::new();
            // However slow this machine is, it is nobody else's turn: only who is asked takes time.
            world.env = Env::simulated(1);
            configure(&world, conditions).await;
            let (webhooks, mut object) = (webhooks(), value(r#"{"metadata":{"name":"a"}}"#));
            let mut invocations = Invocations::default();
            invocations.is_reinvocation = true;
            world.with(Operation::Create, ("", "configmaps", None), Duration::from_secs(60), |attempt| {
                let mut effects = Effects::default();
                let asked = webhooks.mutate(attempt, Some(&mut object), &mut invocations, &mut effects);
                let answer = futures_util::FutureExt::now_or_never(asked).expect("nobody is asked");
                answer.expect("nobody refuses");
            });
            assert_eq!(world.versions.0.load(Ordering::Relaxed), conversions, "{conditions}");
        }
    }

    /// Only objects of old clusters have such webhooks: validation takes no new ones.
    #[tokio::test]
    async fn a_webhook_with_side_effects_refuses_a_dry_run() {
        for (side_effects, refused) in [("Some", true), ("Unknown", true), ("NoneOnDryRun", false)] {
            let world = World::new();
            let hook = r#""webhooks":[{"name":"w.example.io","sideEffects":"$","failurePolicy":"Ignore","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}]"#;
            let hook = hook.replace('$', side_effects);
            world.put(GROUP, "mutatingwebhookconfigurations", ("", "c"), &hook).await;
            world.put("", "namespaces", ("", "n"), r#""spec":{}"#).await;
            let (webhooks, mut object) = (webhooks(), value(r#"{"metadata":{"name":"a"}}"#));
            world.with(Operation::Create, ("", "configmaps", None), Duration::from_secs(60), |attempt| {
                let attempt = Attempt { dry_run: true, ..*attempt };
                let (mut invocations, mut effects) = (Invocations::default(), Effects::default());
                let asked = webhooks.mutate(&attempt, Some(&mut object), &mut invocations, &mut effects);
                // One that may be asked is called, which takes time.
                let answer = futures_util::FutureExt::now_or_never(asked);
                let message = answer.map(|answer| answer.expect_err("it is refused").message);
                let why = "admission webhook \"w.example.io\" does not support dry run";
                assert_eq!(message.as_deref(), refused.then_some(why), "{side_effects}");
            });
        }
    }

    #[tokio::test]
    async fn a_request_that_no_webhook_concerns_allocates_nothing() {
        let world = World::new();
        configure(&world, "").await;
        let webhooks = webhooks();
        for (plural, concerns) in [("configmaps", true), ("secrets", false)] {
            world.with(Operation::Create, ("", plural, None), Duration::from_secs(60), |attempt| {
                assert_eq!(webhooks.concerns(attempt), concerns);
                let (again, used) = fuzz::measure(|| webhooks.concerns(attempt));
                assert_eq!((again, concerns || used.allocated == 0), (concerns, true), "{used:?}");
            });
        }
    }
}
