//! CEL expressions of webhooks and policies, compiled when they are written.
//!
//! They are about a request: `object` and `oldObject` are of no type that is known, `request` and `namespaceObject` have one,
//! `params`, `variables` and `authorizer` are there where they can be.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use catalog::Name;
use cel::library::{authz, jsonpatch};
use cel::{Environment, EnvironmentSet, Type, TypeProvider};

use crate::check::{Errors, Path};

const REQUEST: &str = "kubernetes.AdmissionRequest";
const NAMESPACE: &str = "kubernetes.Namespace";
const VARIABLES: &str = "kubernetes.variables";
const JSON_PATCH: &str = "JSONPatch";
const OBJECT: &str = "Object";

/// What an expression is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
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

/// Variables by name. Shared with the environment an expression is compiled in, and with nobody when one is added.
type Variables = Arc<HashMap<Box<str>, Type>>;

/// What the expressions of one object may use.
#[derive(Default)]
pub(crate) struct Scope {
    has_params: bool,
    /// Variables that were compiled so far; `None` where there are none.
    variables: Option<Variables>,
}

impl Scope {
    pub(crate) fn with_params(has_params: bool) -> Scope {
        Scope { has_params, variables: None }
    }
    /// With `variables`, of which there are none yet.
    pub(crate) fn composed(self) -> Scope {
        Scope { variables: Some(Variables::default()), ..self }
    }

    /// Compiles an expression that is new, or `stored` already.
    pub(crate) fn check(&self, of: Use, text: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
        self.check_shown(of, text, text, stored, at, errors);
    }

    /// As [`check`](Scope::check); errors show the expression as it was written.
    pub(crate) fn check_shown(
        &self,
        of: Use,
        text: &str,
        shown: &str,
        stored: bool,
        at: &Path<'_>,
        errors: &mut Errors,
    ) {
        match self.compile(of, text, stored) {
            Ok(_) => {}
            Err(Failure::Invalid(detail)) => errors.invalid(at, shown, detail),
            Err(Failure::Internal(detail)) => errors.internal(at, detail),
        }
    }

    /// Compiles the expression of a variable, which those after it may use, whatever came of it.
    pub(crate) fn add(&mut self, name: &str, text: &str, stored: bool, at: &Path<'_>, errors: &mut Errors) {
        let ty = match self.compile(Use::Variable, text, stored) {
            Ok(ty) => declared(&ty),
            Err(Failure::Invalid(detail)) => {
                errors.invalid(at, text, detail);
                Type::Dyn
            }
            Err(Failure::Internal(detail)) => {
                errors.internal(at, detail);
                Type::Dyn
            }
        };
        Arc::make_mut(self.variables.get_or_insert_default()).insert(name.into(), ty);
    }

    fn compile(&self, of: Use, text: &str, stored: bool) -> Result<Type, Failure> {
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
        env.program(&checked)
            .map_err(|error| Failure::Internal(format!("program instantiation failed: {error}")))?;
        Ok(ty.clone())
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
        let types = Types { variables: own, has_patches: of.is_patch() };
        base.extend(variables, Some(Arc::new(types)))
    }
}

enum Failure {
    Invalid(String),
    Internal(String),
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
fn declared(ty: &Type) -> Type {
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

/// The types with fields.
struct Types {
    variables: Variables,
    has_patches: bool,
}

/// Type, field, type of the field.
#[rustfmt::skip]
static FIELDS: LazyLock<Vec<(&str, &str, Type)>> = LazyLock::new(|| {
    let object = |name: &'static str| Type::object(name);
    let texts = || Type::list(Type::String);
    let labels = || Type::map(Type::String, Type::String);
    let gvk = || object("kubernetes.GroupVersionKind");
    let gvr = || object("kubernetes.GroupVersionResource");
    vec![
        ("kubernetes.GroupVersionKind", "group", Type::String),
        ("kubernetes.GroupVersionKind", "version", Type::String),
        ("kubernetes.GroupVersionKind", "kind", Type::String),
        ("kubernetes.GroupVersionResource", "group", Type::String),
        ("kubernetes.GroupVersionResource", "version", Type::String),
        ("kubernetes.GroupVersionResource", "resource", Type::String),
        ("kubernetes.UserInfo", "username", Type::String),
        ("kubernetes.UserInfo", "uid", Type::String),
        ("kubernetes.UserInfo", "groups", texts()),
        ("kubernetes.UserInfo", "extra", Type::map(Type::String, texts())),
        (REQUEST, "kind", gvk()),
        (REQUEST, "resource", gvr()),
        (REQUEST, "subResource", Type::String),
        (REQUEST, "requestKind", gvk()),
        (REQUEST, "requestResource", gvr()),
        (REQUEST, "requestSubResource", Type::String),
        (REQUEST, "name", Type::String),
        (REQUEST, "namespace", Type::String),
        (REQUEST, "operation", Type::String),
        (REQUEST, "userInfo", object("kubernetes.UserInfo")),
        (REQUEST, "dryRun", Type::Bool),
        (REQUEST, "options", Type::Dyn),
        ("kubernetes.NamespaceSpec", "finalizers", texts()),
        ("kubernetes.NamespaceCondition", "status", Type::String),
        ("kubernetes.NamespaceCondition", "type", Type::String),
        ("kubernetes.NamespaceCondition", "lastTransitionTime", Type::Timestamp),
        ("kubernetes.NamespaceCondition", "message", Type::String),
        ("kubernetes.NamespaceCondition", "reason", Type::String),
        ("kubernetes.NamespaceStatus", "conditions", Type::list(object("kubernetes.NamespaceCondition"))),
        ("kubernetes.NamespaceStatus", "phase", Type::String),
        ("kubernetes.NamespaceMetadata", "name", Type::String),
        ("kubernetes.NamespaceMetadata", "generateName", Type::String),
        ("kubernetes.NamespaceMetadata", "namespace", Type::String),
        ("kubernetes.NamespaceMetadata", "labels", labels()),
        ("kubernetes.NamespaceMetadata", "annotations", labels()),
        ("kubernetes.NamespaceMetadata", "UID", Type::String),
        ("kubernetes.NamespaceMetadata", "creationTimestamp", Type::Timestamp),
        ("kubernetes.NamespaceMetadata", "deletionGracePeriodSeconds", Type::Int),
        ("kubernetes.NamespaceMetadata", "deletionTimestamp", Type::Timestamp),
        ("kubernetes.NamespaceMetadata", "generation", Type::Int),
        ("kubernetes.NamespaceMetadata", "resourceVersion", Type::String),
        ("kubernetes.NamespaceMetadata", "finalizers", texts()),
        (NAMESPACE, "metadata", object("kubernetes.NamespaceMetadata")),
        (NAMESPACE, "spec", object("kubernetes.NamespaceSpec")),
        (NAMESPACE, "status", object("kubernetes.NamespaceStatus")),
    ]
});

/// `Object`, `Object.spec`: what an apply configuration is made of.
fn is_configuration(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl TypeProvider for Types {
    fn is_object(&self, name: &str) -> bool {
        name == VARIABLES
            || (self.has_patches && (name == JSON_PATCH || is_configuration(name)))
            || FIELDS.iter().any(|(object, ..)| *object == name)
    }
    fn field(&self, object: &str, field: &str) -> Option<Type> {
        match object {
            VARIABLES => self.variables.get(field).cloned(),
            JSON_PATCH if self.has_patches => match field {
                "op" | "path" | "from" => Some(Type::String),
                "value" => Some(Type::Dyn),
                // Upstream has all fields, those it does not know without a type.
                _ => Some(Type::opaque("", [])),
            },
            // Nobody knows what it is applied to.
            _ if self.has_patches && is_configuration(object) => Some(Type::Dyn),
            _ => {
                let known = FIELDS.iter().find(|(own, name, _)| *own == object && *name == field);
                known.map(|(_, _, ty)| ty.clone())
            }
        }
    }
}
