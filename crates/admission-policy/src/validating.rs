//! ValidatingAdmissionPolicies: what their validations say of a request.

use cel::Val;
use object::Value;

use crate::activation::{Activation, Expression, Variables};
use crate::expression::{Scope, Use};
use crate::inputs::Inputs;
use crate::match_conditions::{MatchConditions, Matching};
use crate::{BUDGET, FailurePolicy};

/// The longest message an expression may make, in bytes.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// A policy, compiled.
pub struct ValidatingPolicy {
    failure_policy: FailurePolicy,
    conditions: MatchConditions,
    variables: Variables,
    validations: Vec<Validation>,
    /// There are message expressions.
    has_messages: bool,
    annotations: Vec<(Box<str>, Expression)>,
}

struct Validation {
    expression: Expression,
    message: Option<Expression>,
    /// What is said where the message expression says nothing.
    fallback: Box<str>,
    reason: Reason,
}

/// What a denial is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    #[default]
    Invalid,
    Forbidden,
    RequestEntityTooLarge,
    Unauthorized,
}

impl Reason {
    fn of(text: Option<&str>) -> Reason {
        match text {
            Some("Forbidden") => Reason::Forbidden,
            Some("RequestEntityTooLarge") => Reason::RequestEntityTooLarge,
            Some("Unauthorized") => Reason::Unauthorized,
            _ => Reason::Invalid,
        }
    }
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "Invalid",
            Reason::Forbidden => "Forbidden",
            Reason::RequestEntityTooLarge => "RequestEntityTooLarge",
            Reason::Unauthorized => "Unauthorized",
        }
    }
    pub fn code(self) -> u16 {
        match self {
            Reason::Invalid => 422,
            Reason::Forbidden => 403,
            Reason::RequestEntityTooLarge => 413,
            Reason::Unauthorized => 401,
        }
    }
}

/// What becomes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Admit,
    Deny,
}

/// How that came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evaluation {
    Error,
    Deny,
}

/// What one validation says. There is none of a validation that simply holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which of the policy's validations.
    pub index: usize,
    pub action: Action,
    pub evaluation: Evaluation,
    pub message: String,
    pub reason: Reason,
}

/// The value of an audit annotation. There is none of one that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnnotation {
    pub key: Box<str>,
    pub value: Annotated,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Annotated {
    Publish(String),
    Error(String),
}

/// What a policy says of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub decisions: Vec<Decision>,
    pub annotations: Vec<AuditAnnotation>,
    /// What its expressions cost, match conditions and messages apart.
    pub cost: u64,
}

impl ValidatingPolicy {
    /// The `spec` of a policy, as stored. What does not compile fails when it is evaluated.
    pub fn compile(spec: &Value) -> ValidatingPolicy {
        let list = |name: &str| spec.get(name).and_then(Value::as_list).unwrap_or_default();
        let mut scope = scope_of(spec);
        let variables = compile_variables(spec, &mut scope);
        let expression =
            |of, text: &str| Expression { text: text.into(), program: scope.compile(of, text, true) };
        let validations: Vec<Validation> = list("validations")
            .iter()
            .map(|validation| {
                let text = |name: &str| validation.str_at(&[name]).unwrap_or_default();
                let (own, message) = (text("expression"), text("messageExpression"));
                let fallback = match text("message").trim() {
                    "" => format!("failed expression: {}", own.trim()),
                    message => message.to_owned(),
                };
                Validation {
                    expression: expression(Use::Condition, own),
                    message: (!message.is_empty()).then(|| expression(Use::Message, message)),
                    fallback: fallback.into(),
                    reason: Reason::of(validation.str_at(&["reason"])),
                }
            })
            .collect();
        let annotations = list("auditAnnotations").iter().map(|annotation| {
            let text = |name: &str| annotation.str_at(&[name]).unwrap_or_default();
            (Box::from(text("key")), expression(Use::Audit, text("valueExpression")))
        });
        ValidatingPolicy {
            failure_policy: FailurePolicy::of(spec.str_at(&["failurePolicy"])),
            conditions: MatchConditions::compile_in(list("matchConditions"), &scope),
            has_messages: validations.iter().any(|validation| validation.message.is_some()),
            annotations: annotations.collect(),
            validations,
            variables,
        }
    }

    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// Whether its match conditions hold; a failure is a decision.
    pub fn matches(&self, inputs: &Inputs<'_>) -> Result<bool, Decision> {
        self.matches_noting(inputs, &mut Matching::default())
    }

    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// As [`matches`](ValidatingPolicy::matches), and says how.
    pub fn matches_noting<'c>(
        &'c self,
        inputs: &Inputs<'_>,
        how: &mut Matching<'c>,
    ) -> Result<bool, Decision> {
        // Match conditions are evaluated before there is a namespace.
        let inputs = Inputs { namespace_object: None, ..*inputs };
        let matched = self.conditions.matches_with(&inputs, Some(&self.variables), self.failure_policy, how);
        matched.map_err(|message| self.failure(0, message))
    }

    /// What the validations and audit annotations say.
    pub fn validate(&self, inputs: &Inputs<'_>) -> Outcome {
        self.validate_within(inputs, BUDGET)
    }

    /// As [`validate`](ValidatingPolicy::validate), with another budget.
    pub fn validate_within(&self, inputs: &Inputs<'_>, budget: u64) -> Outcome {
        let (mut left, mut left_to_annotations) = (budget, budget);
        let decided = self.decide(inputs, &mut left);
        let annotated = match &decided {
            Ok(_) => self.annotate(inputs, &mut left_to_annotations),
            Err(_) => Ok(Vec::new()),
        };
        let cost = (budget - left) + (budget - left_to_annotations);
        match decided.and_then(|decisions| Ok((decisions, annotated?))) {
            Ok((decisions, annotations)) => Outcome { decisions, annotations, cost },
            Err(fatal) => Outcome { decisions: vec![self.failure(0, fatal)], annotations: Vec::new(), cost },
        }
    }

    fn decide(&self, inputs: &Inputs<'_>, budget: &mut u64) -> Result<Vec<Decision>, String> {
        let activation = Activation::new(inputs, true, Some(&self.variables));
        let mut decisions = Vec::new();
        for (index, validation) in self.validations.iter().enumerate() {
            match activation.evaluate(&validation.expression, budget)? {
                Ok(Val::Bool(true)) => {}
                Ok(_) => decisions.push(Decision {
                    index,
                    action: Action::Deny,
                    evaluation: Evaluation::Deny,
                    message: validation.fallback.to_string(),
                    reason: validation.reason,
                }),
                Err(error) => decisions.push(self.failure(index, error)),
            }
        }
        if self.has_messages && (!decisions.is_empty() || self.messages_may_cost_more_than(*budget)) {
            self.add_messages(inputs, *budget, &mut decisions);
        }
        Ok(decisions)
    }

    /// Where nothing was denied, messages need not be evaluated: unless all of them might use up the budget, which is a denial itself.
    fn messages_may_cost_more_than(&self, budget: u64) -> bool {
        let expressions = self.validations.len() + self.variables.len();
        cel::PER_CALL_LIMIT.saturating_mul(expressions as u64) > budget
    }

    /// Evaluates all message expressions, also of validations that hold: all together have the budget the validations left.
    fn add_messages(&self, inputs: &Inputs<'_>, mut budget: u64, decisions: &mut Vec<Decision>) {
        let activation = Activation::new(inputs, false, Some(&self.variables));
        let mut denied = decisions.iter_mut().peekable();
        let mut fatal = None;
        for (index, validation) in self.validations.iter().enumerate() {
            let decision = denied.next_if(|decision| decision.index == index);
            let Some(expression) = &validation.message else { continue };
            match activation.evaluate(expression, &mut budget) {
                Ok(Ok(value)) => {
                    let denied = decision.filter(|decision| decision.evaluation == Evaluation::Deny);
                    if let (Some(decision), Some(message)) = (denied, usable(&value)) {
                        decision.message = message.to_owned();
                    }
                }
                Ok(Err(_)) => {}
                Err(error) => {
                    fatal = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = fatal {
            let mut failed = std::mem::take(decisions).into_iter().peekable();
            *decisions = (0..self.validations.len())
                .map(|index| match failed.next_if(|decision| decision.index == index) {
                    Some(decision) if decision.evaluation == Evaluation::Error => decision,
                    _ => self.failure(index, format!("failed messageExpression: {error}")),
                })
                .collect();
        }
    }

    fn annotate(&self, inputs: &Inputs<'_>, budget: &mut u64) -> Result<Vec<AuditAnnotation>, String> {
        if self.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let activation = Activation::new(inputs, false, Some(&self.variables));
        let mut annotations = Vec::new();
        for (key, expression) in &self.annotations {
            let value = match activation.evaluate(expression, budget)? {
                Ok(Val::Str(text)) => match text.trim() {
                    "" => continue,
                    value => Annotated::Publish(value.to_owned()),
                },
                Ok(Val::Null) => continue,
                Ok(other) => Annotated::Error(format!(
                    "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or null.",
                    expression.text,
                    other.type_name()
                )),
                Err(_) if self.failure_policy == FailurePolicy::Ignore => continue,
                Err(error) => Annotated::Error(error),
            };
            annotations.push(AuditAnnotation { key: key.clone(), value });
        }
        Ok(annotations)
    }

    fn failure(&self, index: usize, message: String) -> Decision {
        let action = match self.failure_policy {
            FailurePolicy::Fail => Action::Deny,
            FailurePolicy::Ignore => Action::Admit,
        };
        Decision { index, action, evaluation: Evaluation::Error, message, reason: Reason::Invalid }
    }
}

/// A message that fits on a line and says something.
fn usable<'m>(value: &'m Val<'_>) -> Option<&'m str> {
    let message = value.as_str()?.trim();
    let fits = !message.is_empty() && message.len() <= MAX_MESSAGE_BYTES && !message.contains('\n');
    fits.then_some(message)
}

/// What the expressions of a policy may use, before its variables.
pub(crate) fn scope_of(spec: &Value) -> Scope {
    Scope::with_params(spec.get("paramKind").is_some_and(|kind| !kind.is_null())).composed()
}

pub(crate) fn compile_variables(spec: &Value, scope: &mut Scope) -> Variables {
    let variables = spec.get("variables").and_then(Value::as_list).unwrap_or_default();
    let text =
        |variable: &'_ Value, name: &str| variable.str_at(&[name]).map(str::to_owned).unwrap_or_default();
    let pairs: Vec<(String, String)> =
        variables.iter().map(|variable| (text(variable, "name"), text(variable, "expression"))).collect();
    Variables::compile(pairs.iter().map(|(name, text)| (name.as_str(), text.as_str())), scope)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn expressions_are_not_evaluated_when_nobody_waits_for_the_answer() {
        let spec = r#"{"failurePolicy":"Fail","validations":[{"expression":"true"},{"expression":"false"},{"expression":"true"}]}"#;
        let policy = ValidatingPolicy::compile(&codec::json::parse(spec.as_bytes(), None).unwrap());
        let asked = AtomicUsize::new(0);
        let interrupted = || asked.fetch_add(1, Ordering::Relaxed) == 1;
        let request = Value::map();
        let inputs = Inputs {
            request: &request,
            object: None,
            old_object: None,
            params: None,
            namespace_object: None,
            authorizer: None,
            interrupted: Some(&interrupted),
        };
        let outcome = policy.validate(&inputs);
        let messages: Vec<&str> = outcome.decisions.iter().map(|decision| &*decision.message).collect();
        assert_eq!((messages, asked.load(Ordering::Relaxed)), (vec!["operation interrupted"], 2));
    }
}
