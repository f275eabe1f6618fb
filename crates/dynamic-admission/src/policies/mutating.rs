//! The dispatch of MutatingAdmissionPolicies.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use admission::{
    Attempt, Authorize, Body, Effects, Extension, Invocations, Operation, Phase, UnknownFields, changes,
};
use admission_policy::{ErrorType, Inputs, Matching, MutatingPolicy, MutationError, Source, config_error};
use catalog::Resource;
use managed_fields::TypeRef;
use object::{Cause, Obj, Status, Value};
use store::BoxFuture;

use super::configured::{Binding, Configured, Policy};
use super::metrics::PolicyMetrics;
use super::notes::{not_met, on_failure, who};
use super::params::tree;
use super::subject::{Lazy, Versioned, lazy_condition_request, lazy_namespace, lazy_request, namespace_of};
use crate::authorizer::RequestAuthorizer;
use crate::conditions::{MatchConditionMetrics, Whose};
use crate::criteria::{Invocation, Match};
use crate::turn::{Turn, is_over};

const NAME: &str = "MutatingAdmissionPolicy";

pub struct MutatingPolicies {
    configured: Configured<MutatingPolicy>,
    authorize: Authorize,
    metrics: Arc<PolicyMetrics>,
    conditions: Arc<MatchConditionMetrics>,
}

impl MutatingPolicies {
    pub fn new(
        authorize: Authorize,
        metrics: Arc<PolicyMetrics>,
        conditions: Arc<MatchConditionMetrics>,
    ) -> MutatingPolicies {
        let configured = Configured::new(
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            MutatingPolicy::compile,
        );
        MutatingPolicies { configured, authorize, metrics, conditions }
    }
}

impl Extension for MutatingPolicies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn phase(&self) -> Phase {
        Phase::Admit
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        // There is nothing to mutate.
        attempt.operation != Operation::Delete && self.configured.concerns(attempt)
    }

    fn unmatched(&self, attempt: &Attempt<'_>) -> Vec<String> {
        self.configured.unmatched(attempt)
    }

    fn mutate<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a mut Value>,
        invocations: &'a mut Invocations,
        _effects: &'a mut Effects,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            match new {
                Some(new) => self.mutate_all(attempt, new, invocations).await,
                None => Ok(()),
            }
        })
    }
}

/// A policy, one of its bindings and one parameter.
struct Due {
    policy: Arc<Policy<MutatingPolicy>>,
    binding: Arc<Binding>,
    invocation: Invocation,
    param: Option<(Arc<Resource>, Arc<Obj>)>,
}

impl Due {
    /// Who it is, for reinvocation.
    fn id(&self) -> String {
        let (namespace, name) =
            self.param.as_ref().map_or(("", ""), |(_, obj)| (obj.namespace(), obj.name()));
        format!("{}/{}/{namespace}/{name}", self.policy.name, self.binding.name)
    }
}

/// What was wrong, and does not count where failures are ignored.
#[derive(Default)]
struct Errors(Vec<(String, &'static str)>);

impl Errors {
    fn add(
        &mut self,
        attempt: &Attempt<'_>,
        policy: &Policy<MutatingPolicy>,
        binding: Option<&Binding>,
        error: &str,
        reason: &'static str,
    ) {
        note(attempt, policy, binding, || format!("{}: {error}", on_failure(policy.ignores_failures)), None);
        if policy.ignores_failures {
            return;
        }
        let message = match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {error}", policy.name, binding.name)
            }
            None => format!("policy {} denied request: {error}", object::quote(&policy.name)),
        };
        self.0.push((message, reason));
    }

    fn into_answer(self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let Some((message, reason)) = self.0.first().cloned() else { return Ok(()) };
        let mut status = attempt.forbidden("admission request denied by policy");
        status.message = message;
        if !reason.is_empty() {
            status.reason = reason;
        }
        let causes =
            self.0.into_iter().map(|(message, _)| Cause { reason: "", message, field: String::new() });
        status.details.get_or_insert_default().causes.extend(causes);
        Err(status)
    }
}

impl MutatingPolicies {
    async fn mutate_all(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        invocations: &mut Invocations,
    ) -> Result<(), Status> {
        let mut errors = Errors::default();
        let due = self.due(attempt, new, &mut errors)?;
        if !due.is_empty() {
            self.mutate_due(attempt, new, invocations, &due, &mut errors).await?;
        }
        errors.into_answer(attempt)
    }

    /// Which policies, bindings and parameters the request is about. Match conditions come later.
    fn due(&self, attempt: &Attempt<'_>, new: &Value, errors: &mut Errors) -> Result<Vec<Due>, Status> {
        let (policies, bindings) = (self.configured.policies(attempt)?, self.configured.bindings(attempt)?);
        let mut due = Vec::new();
        for (_, policy) in policies.candidates(attempt) {
            let Some(bindings) = bindings.get(&policy.name) else { continue };
            let invocation = match policy.criteria.matches(attempt, Some(new)) {
                Ok(Match::Yes(invocation)) => invocation,
                Ok(Match::No(mismatch)) => {
                    pass_over(attempt, policy, None, || mismatch.why().to_owned());
                    continue;
                }
                Err(status) => {
                    errors.add(attempt, policy, None, &config_error(false, &status.message), "");
                    continue;
                }
            };
            let resource = match policy.param_kind.as_ref().map(|kind| kind.resource(attempt)).transpose() {
                Ok(resource) => resource,
                Err(error) => {
                    errors.add(attempt, policy, None, &config_error(false, &error), "");
                    continue;
                }
            };
            for binding in bindings {
                let matched = binding.criteria.as_ref().map(|criteria| criteria.matches(attempt, Some(new)));
                match matched.transpose() {
                    Ok(Some(Match::No(mismatch))) => {
                        pass_over(attempt, policy, Some(binding), || mismatch.why().to_owned());
                        continue;
                    }
                    Ok(_) => {}
                    Err(status) => {
                        errors.add(attempt, policy, Some(binding), &config_error(true, &status.message), "");
                        continue;
                    }
                }
                let params = match (resource, &binding.param_ref) {
                    (Some(resource), Some(reference)) => match reference.find(attempt, resource) {
                        Ok(found) => found.into_iter().map(|obj| Some((resource.clone(), obj))).collect(),
                        Err(error) => {
                            errors.add(attempt, policy, Some(binding), &config_error(true, &error), "");
                            continue;
                        }
                    },
                    _ => vec![None],
                };
                if params.is_empty() {
                    let why = || "there is no parameter, which parameterNotFoundAction allows".to_owned();
                    pass_over(attempt, policy, Some(binding), why);
                }
                due.extend(params.into_iter().map(|param| Due {
                    policy: policy.clone(),
                    binding: binding.clone(),
                    invocation: invocation.clone(),
                    param,
                }));
            }
        }
        Ok(due)
    }

    /// One after the other, each with what those before it made of the object.
    async fn mutate_due(
        &self,
        attempt: &Attempt<'_>,
        new: &mut Value,
        invocations: &mut Invocations,
        due: &[Due],
        errors: &mut Errors,
    ) -> Result<(), Status> {
        let namespace = namespace_of(attempt)?;
        let namespace: Option<Lazy<'_>> =
            namespace.as_deref().map(|namespace| lazy_namespace(attempt, namespace));
        let authorizer = RequestAuthorizer { attempt, authorize: &self.authorize };
        // The versions in which objects came of mutations, and that of the last policy that had some.
        let (mut dirty, mut last) = (HashSet::new(), None);
        // Policies and bindings that the object could not be converted for, whatever the parameter.
        let mut unconverted = HashSet::new();
        let mut turn = Turn::begin(attempt);
        let interrupted = || is_over(attempt);
        for one in due {
            turn.end_evaluation().await?;
            let (policy, compiled) = (&one.policy, &one.policy.compiled);
            if unconverted.contains(&(&policy.name, &one.binding.name)) {
                continue;
            }
            let before = new.clone();
            let versioned = match Versioned::new(attempt, &one.invocation, Some(&before)).await {
                Ok(versioned) => versioned,
                Err(status) => {
                    unconverted.insert((&policy.name, &one.binding.name));
                    errors.add(attempt, policy, None, &config_error(false, &status.message), "");
                    continue;
                }
            };
            let old = versioned.old;
            let Some(mut object) = versioned.object else { continue };
            let param = match &one.param {
                Some((resource, obj)) => match tree(attempt, resource, obj).await {
                    Ok(tree) => Some(tree),
                    Err(error) => {
                        errors.add(attempt, policy, Some(&one.binding), &config_error(true, &error), "");
                        continue;
                    }
                },
                None => None,
            };
            let (request, conditions) =
                (lazy_request(attempt, &one.invocation), lazy_condition_request(attempt, &one.invocation));
            let base = Inputs {
                request: &request,
                object: None,
                old_object: old.as_deref(),
                params: param.as_ref(),
                namespace_object: namespace.as_ref().map(|namespace| namespace as &dyn Source),
                authorizer: Some(&authorizer),
                interrupted: Some(&interrupted),
            };
            let (begun, mut how) = (attempt.env.monotonic(), Matching::default());
            let subject = Inputs { request: &conditions, object: Some(&object), ..base };
            let matched = compiled.matches_noting(&subject, &mut how);
            if compiled.has_conditions() {
                let took = attempt.env.monotonic() - begun;
                // Upstream's type of both kinds of policies.
                let whose = Whose { kind: "policy", phase: "validate", name: &policy.name };
                self.conditions.evaluated(whose, attempt.operation, took, how.failures, false);
            }
            match matched {
                Ok(true) => {}
                Ok(false) => {
                    pass_over(attempt, policy, Some(&one.binding), || not_met(how.unmet));
                    continue;
                }
                Err(error) => {
                    errors.add(attempt, policy, Some(&one.binding), &error, "Invalid");
                    continue;
                }
            }
            let id = one.id();
            if !invocations.is_due(&id) {
                continue;
            }
            if !compiled.is_empty() {
                last = Some(one.invocation.resource.id);
            }
            let mut changed = false;
            let (mut cost, mut spent) = (0, Duration::ZERO);
            let shown = attempt.trace.map(|_| object.clone());
            for mutation in 0..compiled.len() {
                let names = (policy.name.as_str(), one.binding.name.as_str());
                let begun = attempt.env.monotonic();
                let ty = type_of(attempt, &one.invocation.resource);
                let mutated = compiled.mutate_counting(
                    mutation,
                    &Inputs { object: Some(&object), ..base },
                    ty,
                    &mut cost,
                );
                let resource = &one.invocation.resource;
                let decoded = match mutated {
                    Ok(Some(mutated)) => {
                        let unknown = match compiled.is_json_patch(mutation) {
                            true => UnknownFields::Refused,
                            false => UnknownFields::Dropped,
                        };
                        Ok(attempt.versions.decode(attempt, resource, mutated, unknown).await.map(Some))
                    }
                    Ok(None) => Ok(Ok(None)),
                    Err(MutationError::Internal(error)) => Ok(Err(Status::internal(error))),
                    Err(MutationError::Failed(error)) => Err(error),
                };
                let took = attempt.env.monotonic() - begun;
                spent += took;
                turn.end_evaluation().await?;
                match decoded {
                    Ok(Ok(decoded)) => {
                        self.metrics.mutated(names, ErrorType::None, took);
                        dirty.insert(resource.id);
                        let Some(decoded) = decoded else { continue };
                        changed |= decoded != *object;
                        object = Cow::Owned(decoded);
                    }
                    // Whatever the failure policy.
                    Ok(Err(status)) => {
                        self.metrics.mutated(names, ErrorType::of_message(&status.message), took);
                        return Err(status);
                    }
                    Err(error) => {
                        self.metrics.mutated(names, ErrorType::of_message(&error), took);
                        errors.add(attempt, policy, Some(&one.binding), &error, "Invalid");
                    }
                }
            }
            if let Some(before) = shown {
                let did = || match changes(&before, &object) {
                    Some(changed) => format!("CEL cost {cost}, changed: {changed}"),
                    None => format!("CEL cost {cost}, changed nothing"),
                };
                note(attempt, policy, Some(&one.binding), did, Some(spent));
            }
            if changed {
                let object = object.into_owned();
                *new = attempt.versions.from_version(attempt, &one.invocation.resource, object).await?;
                invocations.object_changed();
            }
            if compiled.is_reinvoked() {
                invocations.add_reinvocable(&id);
            }
        }
        turn.end_evaluation().await?;
        // As upstream: whoever may be called again is, if only because the last one called was evaluated.
        if last.is_some_and(|last| dirty.contains(&last)) {
            invocations.object_changed();
        }
        Ok(())
    }
}

/// For who asks what became of a request.
fn note(
    attempt: &Attempt<'_>,
    policy: &Policy<MutatingPolicy>,
    binding: Option<&Binding>,
    did: impl FnOnce() -> String,
    took: Option<Duration>,
) {
    if attempt.trace.is_some() {
        attempt.note(Phase::Admit, NAME, who(&policy.name, binding), did(), took);
    }
}

/// The same of one that is not asked.
fn pass_over(
    attempt: &Attempt<'_>,
    policy: &Policy<MutatingPolicy>,
    binding: Option<&Binding>,
    why: impl FnOnce() -> String,
) {
    if attempt.trace.is_some() {
        let why = format!("not asked: {}", why());
        attempt.note_passed_over(Phase::Admit, NAME, who(&policy.name, binding), why);
    }
}

/// What apply configurations are merged by.
fn type_of<'a>(attempt: &Attempt<'a>, resource: &'a Resource) -> TypeRef<'a> {
    match attempt.body {
        Body::Other { ty: Some(ty), .. } => TypeRef::built_in(attempt.request.catalog.schema(), ty),
        Body::Other { ty: None, .. } => TypeRef::deduced(),
        Body::Resource => match kinds::kind_of(attempt.storage).structural(&resource.version) {
            Some(schema) => TypeRef::custom(schema, resource.schema()),
            None => TypeRef::built_in(resource.schema(), resource.ty),
        },
    }
}
