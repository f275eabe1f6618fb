//! From the text of an expression to a program.
//!
//! Expressions are about a request: `object` and `oldObject` are of no type that is known, `request` and `namespaceObject` have one,
//! `params`, `variables` and `authorizer` are there where they can be. When a policy is written and when it is served the same
//! [`Scope`] compiles them.

use std::fmt;
use std::sync::{Arc, LazyLock};

use catalog::Name;
use cel::library::{authz, jsonpatch};
use cel::{Environment, EnvironmentSet, Program, Type};

use crate::types::{JSON_PATCH, NAMESPACE, OBJECT, REQUEST, Types, VARIABLES, VariableTypes};

/// What an expression is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Of a match condition, a validation.
    Condition,
    /// What a validation that fails says.
    Message,
    /// The value of an audit annotation.
    Audit,
    Variable,
    ApplyConfiguration,
    JsonPatch,
}

impl Use {
    /// What it may evaluate to; nothing: anything.
    fn results(self) -> Vec<Type> {
        match self {
            Use::Condition => vec![Type::Bool],
            Use::Message => vec![Type::String],
            Use::Audit => vec![Type::String, Type::Null],
            Use::Variable => Vec::new(),
            Use::ApplyConfiguration => vec![Type::object(OBJECT)],
            Use::JsonPatch => vec![Type::list(Type::object(JSON_PATCH))],
        }
    }
    fn is_patch(self) -> bool {
        matches!(self, Use::ApplyConfiguration | Use::JsonPatch)
    }
}

/// Why an expression does not compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It is wrong.
    Invalid(String),
    /// It could not be made ready to run.
    Internal(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Invalid(detail) | Failure::Internal(detail)) = self;
        f.write_str(detail)
    }
}

/// What the expressions of one object may use.
#[derive(Default)]
pub struct Scope {
    has_params: bool,
    /// Variables that were compiled so far; `None` where there are none.
    variables: Option<VariableTypes>,
}

impl Scope {
    pub fn with_params(has_params: bool) -> Scope {
        Scope { has_params, variables: None }
    }
    /// With `variables`, of which there are none yet.
    #[must_use]
    pub fn composed(self) -> Scope {
        Scope { variables: Some(VariableTypes::default()), ..self }
    }

    /// Compiles an expression that is new, or `stored` already.
    pub fn compile(&self, of: Use, text: &str, stored: bool) -> Result<Program, Failure> {
        self.typed(of, text, stored).map(|(program, _)| program)
    }

    /// Compiles the expression of a variable, which those after it may use, whatever came of it.
    pub fn add(&mut self, name: &str, text: &str, stored: bool) -> Result<Program, Failure> {
        let compiled = self.typed(Use::Variable, text, stored);
        let ty = compiled.as_ref().map_or(Type::Dyn, |(_, ty)| declared(ty));
        Arc::make_mut(self.variables.get_or_insert_default()).insert(name.into(), ty);
        compiled.map(|(program, _)| program)
    }

    fn typed(&self, of: Use, text: &str, stored: bool) -> Result<(Program, Type), Failure> {
        let env = self.environment(of, stored);
        let checked =
            env.compile(text).map_err(|issues| Failure::Invalid(format!("compilation failed: {issues}")))?;
        let (ty, wanted) = (checked.output_type(), of.results());
        // A wrapper counts as what it wraps.
        let own = if let Type::Wrapper(inner) = ty { inner } else { ty };
        if !wanted.is_empty() && !wanted.contains(own) {
            let names: Vec<String> = wanted.iter().map(ToString::to_string).collect();
            return Err(Failure::Invalid(match &names[..] {
                [one] => format!("must evaluate to {one} but got {ty}"),
                several => format!("must evaluate to one of [{}] but got {ty}", several.join(" ")),
            }));
        }
        let program = env
            .program(&checked)
            .map_err(|error| Failure::Internal(format!("program instantiation failed: {error}")))?;
        Ok((program, ty.clone()))
    }

    fn environment(&self, of: Use, stored: bool) -> Environment {
        let set: &EnvironmentSet = if of.is_patch() { &PATCHES } else { cel_schema::environments() };
        let base = if stored { &set.stored_expressions } else { &set.new_expressions };
        let mut variables: Vec<(Name, Type)> = vec![
            (Name::from("object"), Type::Dyn),
            (Name::from("oldObject"), Type::Dyn),
            (Name::from("namespaceObject"), Type::object(NAMESPACE)),
            (Name::from("request"), Type::object(REQUEST)),
        ];
        if self.has_params {
            variables.push((Name::from("params"), Type::Dyn));
        }
        if of != Use::Message {
            variables.push((Name::from("authorizer"), authz::authorizer_type()));
            variables.push((Name::from("authorizer.requestResource"), authz::resource_check_type()));
        }
        if self.variables.is_some() {
            variables.push((Name::from("variables"), Type::object(VARIABLES)));
        }
        let own = self.variables.clone().unwrap_or_default();
        let types = Types { variables: own, has_patches: of.is_patch(), others: None };
        base.extend(variables, Some(Arc::new(types)))
    }
}

/// With what patches are made of.
static PATCHES: LazyLock<EnvironmentSet> = LazyLock::new(|| {
    let set = cel_schema::environments();
    EnvironmentSet {
        new_expressions: set.new_expressions.with_library(jsonpatch::library()),
        stored_expressions: set.stored_expressions.with_library(jsonpatch::library()),
    }
});

/// The type of a variable as others see it: objects are dynamic.
pub(crate) fn declared(ty: &Type) -> Type {
    match ty {
        Type::Any
        | Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(element) => Type::list(declared(element)),
        Type::Map(entry) => Type::map(declared(&entry[0]), declared(&entry[1])),
        _ => Type::Dyn,
    }
}
