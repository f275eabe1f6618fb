//! Conditions on a request, of policies and of webhooks.

use cel::Val;
use object::Value;

use crate::activation::{Activation, Expression, Variables};
use crate::expression::{Scope, Use};
use crate::inputs::Inputs;
use crate::{FailurePolicy, MATCH_CONDITIONS_BUDGET};

/// `matchConditions`, compiled.
pub struct MatchConditions {
    /// With their names.
    conditions: Vec<(Box<str>, Expression)>,
}

/// How an evaluation came to its answer, for metrics and for people who ask.
#[derive(Debug, Default)]
pub struct Matching<'c> {
    /// The first condition that does not hold.
    pub unmet: Option<&'c str>,
    /// Conditions that could not be evaluated.
    pub failures: usize,
}

impl MatchConditions {
    /// Those of a webhook, as stored. One that does not compile fails when it is evaluated.
    pub fn compile(list: &[Value]) -> MatchConditions {
        MatchConditions::compile_in(list, &Scope::default())
    }

    pub(crate) fn compile_in(list: &[Value], scope: &Scope) -> MatchConditions {
        let compiled = |condition: &Value| {
            let text = condition.str_at(&["expression"]).unwrap_or_default();
            let name = condition.str_at(&["name"]).unwrap_or_default();
            (
                name.into(),
                Expression { text: text.into(), program: scope.compile(Use::Condition, text, true) },
            )
        };
        MatchConditions { conditions: list.iter().map(compiled).collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether all hold. One that does not decides, whatever became of the others; otherwise a failure is an error, or ignored
    /// together with the policy or webhook.
    pub fn matches(&self, inputs: &Inputs<'_>, on_failure: FailurePolicy) -> Result<bool, String> {
        self.matches_noting(inputs, on_failure, &mut Matching::default())
    }

    /// As [`matches`](MatchConditions::matches), and says how.
    pub fn matches_noting<'c>(
        &'c self,
        inputs: &Inputs<'_>,
        on_failure: FailurePolicy,
        how: &mut Matching<'c>,
    ) -> Result<bool, String> {
        self.matches_with(inputs, None, on_failure, how)
    }

    pub(crate) fn matches_with<'c>(
        &'c self,
        inputs: &Inputs<'_>,
        variables: Option<&Variables>,
        on_failure: FailurePolicy,
        how: &mut Matching<'c>,
    ) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let activation = Activation::new(inputs, true, variables);
        let mut budget = MATCH_CONDITIONS_BUDGET;
        let mut failures: Vec<String> = Vec::new();
        let mut outcome = Ok(());
        // All are evaluated, because one after a refusal may still use up the budget.
        for (name, condition) in &self.conditions {
            match activation.evaluate(condition, &mut budget) {
                Ok(Ok(Val::Bool(false))) if how.unmet.is_none() => how.unmet = Some(&**name),
                Ok(Ok(_)) => {}
                Ok(Err(failure)) => {
                    // Those after one that does not hold decide nothing any more.
                    how.failures += usize::from(how.unmet.is_none());
                    failures.push(failure);
                }
                Err(fatal) => {
                    outcome = Err(fatal);
                    break;
                }
            }
        }
        match (outcome, on_failure) {
            (Err(fatal), FailurePolicy::Fail) => Err(fatal),
            (Err(_), FailurePolicy::Ignore) => Ok(false),
            _ if how.unmet.is_some() => Ok(false),
            _ if failures.is_empty() => Ok(true),
            (_, FailurePolicy::Fail) => Err(aggregate(failures)),
            (_, FailurePolicy::Ignore) => Ok(false),
        }
    }
}

/// Several errors as one: each once.
pub(crate) fn aggregate(mut messages: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    messages.retain(|message| seen.insert(message.clone()));
    match &messages[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
