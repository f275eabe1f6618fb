//! MutatingAdmissionPolicies: what their mutations make of an object.
//!
//! ```text
//! Object{spec: Object.spec{..}} ── tree ── validate ── no atomic parts ── merge into the object
//! [JSONPatch{op: .., path: ..}] ── operations ──────────────────────────── applied to the object
//! ```

mod apply_configuration;
mod json_patch;

use managed_fields::TypeRef;
use object::Value;

use crate::activation::{Activation, Expression, Variables};
use crate::expression::Use;
use crate::inputs::Inputs;
use crate::match_conditions::{MatchConditions, Matching};
use crate::validating::{compile_variables, scope_of};
use crate::{BUDGET, FailurePolicy};

/// A policy, compiled.
pub struct MutatingPolicy {
    failure_policy: FailurePolicy,
    reinvoked: bool,
    conditions: MatchConditions,
    variables: Variables,
    mutations: Vec<Mutation>,
}

struct Mutation {
    kind: PatchType,
    expression: Expression,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

/// Why a mutation did not come about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MutationError {
    /// The failure policy decides.
    Failed(String),
    /// What it left is no object: an internal error, whatever the failure policy.
    Internal(String),
}

impl MutatingPolicy {
    /// The `spec` of a policy, as stored. What does not compile fails when it is evaluated.
    pub fn compile(spec: &Value) -> MutatingPolicy {
        let list = |name: &str| spec.get(name).and_then(Value::as_list).unwrap_or_default();
        let mut scope = scope_of(spec);
        let variables = compile_variables(spec, &mut scope);
        let mutation = |mutation: &Value| {
            let (kind, of, field) = match mutation.str_at(&["patchType"])? {
                "JSONPatch" => (PatchType::JsonPatch, Use::JsonPatch, "jsonPatch"),
                "ApplyConfiguration" => {
                    (PatchType::ApplyConfiguration, Use::ApplyConfiguration, "applyConfiguration")
                }
                _ => return None,
            };
            let text = mutation.str_at(&[field, "expression"])?;
            let expression = Expression { text: text.into(), program: scope.compile(of, text, true) };
            Some(Mutation { kind, expression })
        };
        MutatingPolicy {
            failure_policy: FailurePolicy::of(spec.str_at(&["failurePolicy"])),
            reinvoked: spec.str_at(&["reinvocationPolicy"]) == Some("IfNeeded"),
            conditions: MatchConditions::compile_in(list("matchConditions"), &scope),
            mutations: list("mutations").iter().filter_map(mutation).collect(),
            variables,
        }
    }

    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }
    /// Whether it is asked again after others have changed the object.
    pub fn is_reinvoked(&self) -> bool {
        self.reinvoked
    }
    /// How many mutations it has.
    pub fn len(&self) -> usize {
        self.mutations.len()
    }
    pub fn is_empty(&self) -> bool {
        self.mutations.is_empty()
    }

    /// Whether its match conditions hold.
    pub fn matches(&self, inputs: &Inputs<'_>) -> Result<bool, String> {
        self.matches_noting(inputs, &mut Matching::default())
    }

    pub fn has_conditions(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// As [`matches`](MutatingPolicy::matches), and says how.
    pub fn matches_noting<'c>(&'c self, inputs: &Inputs<'_>, how: &mut Matching<'c>) -> Result<bool, String> {
        // Match conditions are evaluated before there is a namespace.
        let inputs = Inputs { namespace_object: None, ..*inputs };
        self.conditions.matches_with(&inputs, Some(&self.variables), self.failure_policy, how)
    }

    /// What a mutation makes of `inputs.object`, which is of that type; `None`: nothing. Nothing is defaulted.
    pub fn mutate(
        &self,
        mutation: usize,
        inputs: &Inputs<'_>,
        ty: TypeRef<'_>,
    ) -> Result<Option<Value>, MutationError> {
        self.mutate_counting(mutation, inputs, ty, &mut 0)
    }

    /// Whether a mutation is a JSON patch: upstream decodes what those leave strictly.
    pub fn is_json_patch(&self, mutation: usize) -> bool {
        self.mutations.get(mutation).is_some_and(|mutation| mutation.kind == PatchType::JsonPatch)
    }

    /// As [`mutate`](MutatingPolicy::mutate), what it cost added to `cost`.
    pub fn mutate_counting(
        &self,
        mutation: usize,
        inputs: &Inputs<'_>,
        ty: TypeRef<'_>,
        cost: &mut u64,
    ) -> Result<Option<Value>, MutationError> {
        let (Some(mutation), Some(object)) = (self.mutations.get(mutation), inputs.object) else {
            return Ok(None);
        };
        if let Err(failure) = &mutation.expression.program {
            return Err(MutationError::Failed(failure.to_string()));
        }
        let activation = Activation::new(inputs, true, Some(&self.variables));
        let mut budget = BUDGET;
        let evaluated = activation.evaluate(&mutation.expression, &mut budget);
        *cost += BUDGET - budget;
        let value = evaluated.map_err(MutationError::Failed)?.map_err(MutationError::Failed)?;
        match mutation.kind {
            PatchType::ApplyConfiguration => {
                apply_configuration::apply(&value, object, ty).map(Some).map_err(MutationError::Failed)
            }
            PatchType::JsonPatch => json_patch::apply(&value, object),
        }
    }
}
