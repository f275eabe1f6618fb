//! The dispatch of ValidatingAdmissionPolicies.

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempt, Authorize, Effects, Extension, Phase};
use admission_policy::{
    Action, Annotated, Decision, ErrorType, Evaluation, Inputs, MAX_ANNOTATION_BYTES, Matching, Outcome,
    Reason, Source, ValidatingPolicy, config_error, denied, failure_annotation, warning,
};
use object::{Cause, Status, Value};
use store::BoxFuture;

use super::configured::{Binding, Configured, Policy};
use super::metrics::PolicyMetrics;
use super::notes::{not_met, on_failure, who};
use super::params::tree;
use super::subject::{Lazy, Versioned, lazy_condition_request, lazy_namespace, lazy_request, namespace_of};
use crate::authorizer::RequestAuthorizer;
use crate::conditions::{MatchConditionMetrics, Whose};
use crate::criteria::Match;
use crate::turn::{Turn, is_over};

const NAME: &str = "ValidatingAdmissionPolicy";
const FAILURE_ANNOTATION: &str = "validation.policy.admission.k8s.io/validation_failure";

pub struct ValidatingPolicies {
    configured: Configured<ValidatingPolicy>,
    authorize: Authorize,
    metrics: Arc<PolicyMetrics>,
    conditions: Arc<MatchConditionMetrics>,
}

impl ValidatingPolicies {
    pub fn new(
        authorize: Authorize,
        metrics: Arc<PolicyMetrics>,
        conditions: Arc<MatchConditionMetrics>,
    ) -> ValidatingPolicies {
        let configured = Configured::new(
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            ValidatingPolicy::compile,
        );
        ValidatingPolicies { configured, authorize, metrics, conditions }
    }
}

impl Extension for ValidatingPolicies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn phase(&self) -> Phase {
        Phase::Validate
    }

    fn concerns(&self, attempt: &Attempt<'_>) -> bool {
        self.configured.concerns(attempt)
    }

    fn unmatched(&self, attempt: &Attempt<'_>) -> Vec<String> {
        self.configured.unmatched(attempt)
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
        attempt: &Attempt<'_>,
        policy: &Policy<ValidatingPolicy>,
        binding: Option<&Binding>,
        error: &str,
    ) {
        note(attempt, policy, binding, || format!("{}: {error}", on_failure(policy.ignores_failures)), None);
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
        let mut turn = Turn::begin(attempt);
        let interrupted = || is_over(attempt);
        for (_, policy) in policies.candidates(attempt) {
            let Some(bindings) = bindings.get(&policy.name) else { continue };
            let invocation = match policy.criteria.matches(attempt, new) {
                Ok(Match::Yes(invocation)) => invocation,
                Ok(Match::No(mismatch)) => {
                    pass_over(attempt, policy, None, || mismatch.why().to_owned());
                    continue;
                }
                Err(status) => {
                    denial.add_config_error(attempt, policy, None, &status.message);
                    continue;
                }
            };
            let param_resource =
                match policy.param_kind.as_ref().map(|kind| kind.resource(attempt)).transpose() {
                    Ok(resource) => resource,
                    Err(error) => {
                        denial.add_config_error(attempt, policy, None, &error);
                        continue;
                    }
                };
            let (request, conditions) =
                (lazy_request(attempt, &invocation), lazy_condition_request(attempt, &invocation));
            let mut annotations: Vec<(Box<str>, Vec<String>)> = Vec::new();
            for binding in bindings {
                match binding.criteria.as_ref().map(|criteria| criteria.matches(attempt, new)).transpose() {
                    Ok(Some(Match::No(mismatch))) => {
                        pass_over(attempt, policy, Some(binding), || mismatch.why().to_owned());
                        continue;
                    }
                    Ok(_) => {}
                    Err(status) => {
                        denial.add_config_error(attempt, policy, Some(binding), &status.message);
                        continue;
                    }
                }
                let params = match (param_resource, &binding.param_ref) {
                    (Some(resource), Some(reference)) => match reference.find(attempt, resource) {
                        Ok(found) => found.into_iter().map(Some).collect(),
                        Err(error) => {
                            denial.add_config_error(attempt, policy, Some(binding), &error);
                            continue;
                        }
                    },
                    _ => vec![None],
                };
                if params.is_empty() {
                    let why = || "there is no parameter, which parameterNotFoundAction allows".to_owned();
                    pass_over(attempt, policy, Some(binding), why);
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
                            denial.add_config_error(attempt, policy, Some(binding), &error);
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
                                denial.add_config_error(attempt, policy, Some(binding), &error);
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
                        interrupted: Some(&interrupted),
                    };
                    let begun = attempt.env.monotonic();
                    let outcome = self.evaluate(attempt, policy, binding, &inputs, &conditions);
                    let took = attempt.env.monotonic() - begun;
                    turn.end_evaluation().await?;
                    let Some(outcome) = outcome else { continue };
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
                attempt.annotate(format!("{}/{key}", policy.name), values.join(", "));
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
        note(attempt, policy, Some(binding), || said(&outcome, &binding.actions), Some(took));
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
                        attempt.annotate(FAILURE_ANNOTATION.to_owned(), text);
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
    }

    /// The match conditions, then the validations; `None`: the conditions do not hold.
    fn evaluate(
        &self,
        attempt: &Attempt<'_>,
        policy: &Policy<ValidatingPolicy>,
        binding: &Binding,
        inputs: &Inputs<'_>,
        conditions: &dyn Source,
    ) -> Option<Outcome> {
        let compiled = &policy.compiled;
        if !compiled.has_conditions() {
            return Some(compiled.validate(inputs));
        }
        let (begun, mut how) = (attempt.env.monotonic(), Matching::default());
        let matched = compiled.matches_noting(&Inputs { request: conditions, ..*inputs }, &mut how);
        let took = attempt.env.monotonic() - begun;
        let whose = Whose { kind: "policy", phase: "validate", name: &policy.name };
        self.conditions.evaluated(whose, attempt.operation, took, how.failures, false);
        match matched {
            Ok(true) => Some(compiled.validate(inputs)),
            Ok(false) => {
                pass_over(attempt, policy, Some(binding), || not_met(how.unmet));
                None
            }
            Err(decision) => {
                debug_assert_eq!(decision.evaluation, Evaluation::Error);
                let decisions: Vec<Decision> = vec![decision];
                Some(Outcome { decisions, ..Outcome::default() })
            }
        }
    }
}

/// What the validations came to, in words.
fn said(outcome: &Outcome, actions: &[String]) -> String {
    let cost = outcome.cost;
    let failed = outcome.decisions.iter().filter(|decision| decision.action == Action::Deny);
    let failed: Vec<&str> = failed.map(|decision| decision.message.as_str()).collect();
    match failed.is_empty() {
        true => format!("allowed, CEL cost {cost}"),
        false => {
            let actions = actions.join(", ");
            format!("did not hold (action {actions}), CEL cost {cost}: {}", failed.join("; "))
        }
    }
}

/// For who asks what became of a request.
fn note(
    attempt: &Attempt<'_>,
    policy: &Policy<ValidatingPolicy>,
    binding: Option<&Binding>,
    did: impl FnOnce() -> String,
    took: Option<Duration>,
) {
    if attempt.trace.is_some() {
        attempt.note(Phase::Validate, NAME, who(&policy.name, binding), did(), took);
    }
}

/// The same of one that is not asked.
fn pass_over(
    attempt: &Attempt<'_>,
    policy: &Policy<ValidatingPolicy>,
    binding: Option<&Binding>,
    why: impl FnOnce() -> String,
) {
    if attempt.trace.is_some() {
        let why = format!("not asked: {}", why());
        attempt.note_passed_over(Phase::Validate, NAME, who(&policy.name, binding), why);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use admission::Operation;

    use super::*;
    use crate::testing::{World, everybody_may, value};

    /// A policy that is evaluated once for each parameter, which takes a millisecond or more.
    async fn costly(world: &World, params: usize) -> ValidatingPolicies {
        let digits = "[0,1,2,3,4,5,6,7,8,9]";
        let all = ["a", "b", "c", "d"]
            .iter()
            .fold("true".to_owned(), |inner, name| format!("{digits}.all({name}, {inner})"));
        let policy = format!(
            r#""spec":{{"paramKind":{{"apiVersion":"v1","kind":"ConfigMap"}},"validations":[{{"expression":"{all}"}}],"matchConstraints":{{"resourceRules":[{{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["secrets"]}}]}}}}"#
        );
        let group = super::super::GROUP;
        world.put(group, "validatingadmissionpolicies", ("", "p"), &policy).await;
        let binding = r#""spec":{"policyName":"p","validationActions":["Deny"],"paramRef":{"selector":{},"parameterNotFoundAction":"Deny"}}"#;
        world.put(group, "validatingadmissionpolicybindings", ("", "b"), binding).await;
        world.put("", "namespaces", ("", "n"), r#""spec":{}"#).await;
        for n in 0..params {
            world.put("", "configmaps", ("n", &format!("p{n}")), r#""data":{}"#).await;
        }
        ValidatingPolicies::new(everybody_may(), Arc::default(), Arc::default())
    }

    #[tokio::test]
    async fn others_run_while_many_parameters_are_evaluated() {
        let world = World::new();
        let policies = costly(&world, 100).await;
        let object = value(r#"{"metadata":{"name":"a"}}"#);
        world.with(Operation::Create, ("", "secrets", None), Duration::from_secs(600), |attempt| {
            assert!(policies.concerns(attempt));
            let mut effects = Effects::default();
            let mut work = pin!(policies.validate(attempt, Some(&object), &mut effects));
            let mut polls = 1;
            let answer = loop {
                match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(answer) => break answer,
                    Poll::Pending => polls += 1,
                }
            };
            assert!(answer.is_ok() && polls > 1, "{polls}");
        });
    }

    #[tokio::test]
    async fn evaluation_ends_with_the_time_of_the_request() {
        let world = World::new();
        let policies = costly(&world, 5_000).await;
        let object = value(r#"{"metadata":{"name":"a"}}"#);
        world.with(Operation::Create, ("", "secrets", None), Duration::from_millis(50), |attempt| {
            let mut effects = Effects::default();
            let mut work = pin!(policies.validate(attempt, Some(&object), &mut effects));
            let answer = loop {
                if let Poll::Ready(answer) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    break answer;
                }
            };
            let status = answer.expect_err("there is no time for all of them");
            assert_eq!((status.code, status.reason), (504, "Timeout"));
        });
    }
}
