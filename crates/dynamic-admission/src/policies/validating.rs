//! The dispatch of ValidatingAdmissionPolicies.

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Authorize, Effects, Extension, Phase};
use admission_policy::{
    Action, Annotated, Decision, ErrorType, Evaluation, Inputs, MAX_ANNOTATION_BYTES, Outcome, Reason,
    Source, ValidatingPolicy, config_error, denied, failure_annotation, warning,
};
use object::{Cause, Status, Value};
use store::BoxFuture;

use super::configured::{Binding, Configured, Policy};
use super::metrics::PolicyMetrics;
use super::params::tree;
use super::subject::{Lazy, Versioned, lazy_condition_request, lazy_namespace, lazy_request, namespace_of};
use crate::authorizer::RequestAuthorizer;

const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

pub struct ValidatingPolicies {
    configured: Configured<ValidatingPolicy>,
    authorize: Authorize,
    metrics: Arc<PolicyMetrics>,
}

impl ValidatingPolicies {
    pub fn new(authorize: Authorize, metrics: Arc<PolicyMetrics>) -> ValidatingPolicies {
        let configured = Configured::new(
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            ValidatingPolicy::compile,
        );
        ValidatingPolicies { configured, authorize, metrics }
    }
}

impl Extension for ValidatingPolicies {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn phase(&self) -> Phase {
        Phase::Validate
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        self.configured.concerns(attempt)
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

/// The first denial is the answer.
#[derive(Default)]
struct Denial(Option<(String, Reason)>);

impl Denial {
    fn add(&mut self, message: impl FnOnce() -> String, reason: Reason) {
        if self.0.is_none() {
            self.0 = Some((message(), reason));
        }
    }

    /// What cannot be evaluated is denied, unless failures are ignored.
    fn add_config_error(
        &mut self,
        policy: &Policy<ValidatingPolicy>,
        binding: Option<&Binding>,
        error: &str,
    ) {
        if !policy.ignores_failures {
            let error = config_error(binding.is_some(), error);
            let binding = binding.map(|binding| binding.name.as_str());
            self.add(|| denied(&policy.name, binding, &error), Reason::Invalid);
        }
    }

    fn into_answer(self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let Some((message, reason)) = self.0 else { return Ok(()) };
        let mut status = attempt.forbidden(&message);
        status.reason = reason.as_str();
        status.code = reason.code();
        let details = status.details.get_or_insert_default();
        details.causes.push(Cause { reason: "", message, field: String::new() });
        Err(status)
    }
}

impl ValidatingPolicies {
    async fn validate_all<'a>(
        &'a self,
        attempt: &'a Attempt<'a>,
        new: Option<&'a Value>,
        effects: &mut Effects,
    ) -> Result<(), Status> {
        let (policies, bindings) = (self.configured.policies(attempt)?, self.configured.bindings(attempt)?);
        let mut denial = Denial::default();
        let mut shown: Vec<Versioned<'a>> = Vec::new();
        let authorizer = RequestAuthorizer { attempt, authorize: &self.authorize };
        // Looked up once, for the first policy that applies; read when an expression reads it.
        let mut namespace = None;
        for policy in policies.iter() {
            let Some(bindings) = bindings.get(&policy.name) else { continue };
            let invocation = match policy.criteria.matches(attempt, new) {
                Ok(Some(invocation)) => invocation,
                Ok(None) => continue,
                Err(status) => {
                    denial.add_config_error(policy, None, &status.message);
                    continue;
                }
            };
            let param_resource =
                match policy.param_kind.as_ref().map(|kind| kind.resource(attempt)).transpose() {
                    Ok(resource) => resource,
                    Err(error) => {
                        denial.add_config_error(policy, None, &error);
                        continue;
                    }
                };
            let (request, conditions) =
                (lazy_request(attempt, &invocation), lazy_condition_request(attempt, &invocation));
            let mut annotations: Vec<(Box<str>, Vec<String>)> = Vec::new();
            for binding in bindings {
                match binding.criteria.as_ref().map(|criteria| criteria.matches(attempt, new)).transpose() {
                    Ok(Some(None)) => continue,
                    Ok(_) => {}
                    Err(status) => {
                        denial.add_config_error(policy, Some(binding), &status.message);
                        continue;
                    }
                }
                let params = match (param_resource, &binding.param_ref) {
                    (Some(resource), Some(reference)) => match reference.find(attempt, resource) {
                        Ok(found) => found.into_iter().map(Some).collect(),
                        Err(error) => {
                            denial.add_config_error(policy, Some(binding), &error);
                            continue;
                        }
                    },
                    _ => vec![None],
                };
                if params.is_empty() {
                    continue;
                }
                if namespace.is_none() {
                    namespace = Some(namespace_of(attempt)?);
                }
                let known = shown.iter().position(|shown| shown.resource.id == invocation.resource.id);
                let at = match known {
                    Some(at) => at,
                    None => match Versioned::new(attempt, &invocation, new).await {
                        Ok(versioned) => {
                            shown.push(versioned);
                            shown.len() - 1
                        }
                        Err(status) => {
                            let error = format!("failed to convert object version: {}", status.message);
                            denial.add_config_error(policy, Some(binding), &error);
                            continue;
                        }
                    },
                };
                let namespace: Option<Lazy<'_>> = match &namespace {
                    Some(Some(namespace)) => Some(lazy_namespace(attempt, namespace)),
                    _ => None,
                };
                for param in params {
                    let param = match (param, param_resource) {
                        (Some(obj), Some(resource)) => match tree(attempt, resource, &obj).await {
                            Ok(tree) => Some(tree),
                            Err(error) => {
                                denial.add_config_error(policy, Some(binding), &error);
                                continue;
                            }
                        },
                        _ => None,
                    };
                    let Versioned { object, old, .. } = &shown[at];
                    let inputs = Inputs {
                        request: &request,
                        object: object.as_deref(),
                        old_object: old.as_deref(),
                        params: param.as_ref(),
                        namespace_object: namespace.as_ref().map(|namespace| namespace as &dyn Source),
                        authorizer: Some(&authorizer),
                    };
                    let begun = attempt.env.monotonic();
                    let outcome = evaluate(&policy.compiled, &inputs, &conditions);
                    let took = attempt.env.monotonic() - begun;
                    self.enforce(
                        attempt,
                        policy,
                        binding,
                        outcome,
                        took,
                        &mut denial,
                        &mut annotations,
                        effects,
                    );
                }
            }
            for (key, values) in annotations {
                annotate(effects, format!("{}/{key}", policy.name), values.join(", "));
            }
        }
        denial.into_answer(attempt)
    }

    /// What becomes of the decisions of a policy for one binding and parameter.
    #[allow(clippy::too_many_arguments, reason = "one step of the loop above, which has all of it at hand")]
    fn enforce(
        &self,
        attempt: &Attempt<'_>,
        policy: &Policy<ValidatingPolicy>,
        binding: &Binding,
        outcome: Outcome,
        took: Duration,
        denial: &mut Denial,
        annotations: &mut Vec<(Box<str>, Vec<String>)>,
        effects: &mut Effects,
    ) {
        let names = (policy.name.as_str(), binding.name.as_str());
        for decision in &outcome.decisions {
            let error = ErrorType::of(decision);
            if decision.action == Action::Admit {
                self.metrics.validated(names, error, "allow", took);
                continue;
            }
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => {
                        let message = || denied(names.0, Some(names.1), &decision.message);
                        denial.add(message, decision.reason);
                        self.metrics.validated(names, error, "deny", took);
                    }
                    "Audit" => {
                        let actions: Vec<&str> = binding.actions.iter().map(String::as_str).collect();
                        let failure = failure_annotation(names.0, names.1, &actions, decision);
                        let text = String::from_utf8(codec::json::to_vec(&failure)).unwrap_or_default();
                        annotate(effects, FAILURE_ANNOTATION.to_owned(), text);
                        self.metrics.validated(names, error, "audit", took);
                    }
                    "Warn" => {
                        effects.warnings.push(warning(names.0, names.1, &decision.message));
                        self.metrics.validated(names, error, "warn", took);
                    }
                    _ => {}
                }
            }
        }
        for annotation in outcome.annotations {
            match annotation.value {
                Annotated::Publish(mut value) => {
                    let fits = value.floor_char_boundary(MAX_ANNOTATION_BYTES);
                    value.truncate(fits);
                    match annotations.iter_mut().find(|(key, _)| *key == annotation.key) {
                        Some((_, values)) if values.contains(&value) => {}
                        Some((_, values)) => values.push(value),
                        None => annotations.push((annotation.key, vec![value])),
                    }
                }
                Annotated::Error(error) => {
                    denial.add(|| denied(names.0, Some(names.1), &error), Reason::Invalid);
                    self.metrics.validated(names, ErrorType::of_message(&error), "deny", took);
                }
            }
        }
        tracing::trace!(
            policy = names.0,
            binding = names.1,
            name = attempt.name,
            "admission policy evaluated"
        );
    }
}

/// The match conditions, then the validations.
fn evaluate(policy: &ValidatingPolicy, inputs: &Inputs<'_>, conditions: &dyn Source) -> Outcome {
    match policy.matches(&Inputs { request: conditions, ..*inputs }) {
        Ok(true) => policy.validate(inputs),
        Ok(false) => Outcome::default(),
        Err(decision) => {
            debug_assert_eq!(decision.evaluation, Evaluation::Error);
            let decisions: Vec<Decision> = vec![decision];
            Outcome { decisions, ..Outcome::default() }
        }
    }
}

/// Of two annotations with one key the first stays.
fn annotate(effects: &mut Effects, key: String, value: String) {
    if !effects.audit_annotations.iter().any(|(own, _)| *own == key) {
        tracing::debug!(key, value, "audit annotation");
        effects.audit_annotations.push((key, value));
    }
}
