//! Authorization checks: `authorizer.group('apps').resource('deployments').check('update').allowed()`.
//!
//! ```text
//! Authorizer ──path──> PathCheck ────────────────────────────────────────┬─check(verb)─> Decision
//!     └──group──> GroupCheck ──resource──> ResourceCheck ────────────────┘
//!                                            ↺ subresource, namespace, name, fieldSelector, labelSelector
//! ```
//!
//! The embedding program binds `authorizer` to [`authorizer`] and `authorizer.requestResource` to [`request_resource`], over
//! its own [`Authorizer`].

#[cfg(test)]
mod tests;
mod value;

use object::validate_text::{dns1123_label, dns1123_subdomain};

use super::arguments::{opaque, text};
use super::costs::NOMINAL;
use crate::cost::{CREATE_LIST, CREATE_OBJECT, Cost, Range, STRING_TRAVERSAL};
use crate::error::Error;
use crate::function::{Function, Native, Overload};
use crate::library::Library;
use crate::types::Type;
use crate::value::Val;

pub use value::{
    Attributes, Authorizer, Decision, RequestResource, ResourceAttributes, Subject, Target, authorizer,
    request_resource,
};
use value::{AuthorizerValue, DecisionValue, GroupCheck, PathCheck, ResourceCheck};

/// Of the variable `authorizer`.
pub fn authorizer_type() -> Type {
    Type::object("kubernetes.authorization.Authorizer")
}
fn path_check_type() -> Type {
    Type::object("kubernetes.authorization.PathCheck")
}
fn group_check_type() -> Type {
    Type::object("kubernetes.authorization.GroupCheck")
}
/// Of `authorizer.requestResource`.
pub fn resource_check_type() -> Type {
    Type::object("kubernetes.authorization.ResourceCheck")
}
fn decision_type() -> Type {
    Type::object("kubernetes.authorization.Decision")
}

pub fn library() -> Library {
    let step = |name, id, from, to, call: Native| {
        Function::new(name, [Overload::member(id, [from, Type::String], to, call)]).cost(NOMINAL)
    };
    let narrow = |name, id, call: Native| step(name, id, resource_check_type(), resource_check_type(), call);
    let accessor = |name, id, result, call: Native| {
        Function::new(name, [Overload::member(id, [decision_type()], result, call)]).cost(NOMINAL)
    };
    let check = |id, from, call: Native| Overload::member(id, [from, Type::String], decision_type(), call);
    let service_account = Overload::member(
        "authorizer_serviceaccount",
        [authorizer_type(), Type::String, Type::String],
        authorizer_type(),
        service_account,
    );
    let functions = vec![
        step("path", "authorizer_path", authorizer_type(), path_check_type(), |args| {
            let authorizer: &AuthorizerValue = opaque(args, 0)?;
            let path = not_empty(args, "path")?;
            Ok(Val::opaque(PathCheck { authorizer: authorizer.clone(), path }))
        }),
        step("group", "authorizer_group", authorizer_type(), group_check_type(), |args| {
            let authorizer: &AuthorizerValue = opaque(args, 0)?;
            let group = text(args, 1)?.to_owned();
            Ok(Val::opaque(GroupCheck { authorizer: authorizer.clone(), group }))
        }),
        Function::new("serviceAccount", [service_account]).cost(NOMINAL),
        step("resource", "groupcheck_resource", group_check_type(), resource_check_type(), |args| {
            let group: &GroupCheck = opaque(args, 0)?;
            Ok(Val::opaque(ResourceCheck::new(group.clone(), not_empty(args, "resource")?)))
        }),
        narrow("subresource", "resourcecheck_subresource", |args| {
            let (check, subresource) = narrowed(args)?;
            Ok(Val::opaque(ResourceCheck { subresource, ..check }))
        }),
        narrow("namespace", "resourcecheck_namespace", |args| {
            let (check, namespace) = narrowed(args)?;
            Ok(Val::opaque(ResourceCheck { namespace, ..check }))
        }),
        narrow("name", "resourcecheck_name", |args| {
            let (check, name) = narrowed(args)?;
            Ok(Val::opaque(ResourceCheck { name, ..check }))
        }),
        Function::new(
            "check",
            [
                check("pathcheck_check", path_check_type(), |args| {
                    Ok(Val::opaque(opaque::<PathCheck>(args, 0)?.decide(text(args, 1)?)))
                }),
                check("resourcecheck_check", resource_check_type(), |args| {
                    Ok(Val::opaque(opaque::<ResourceCheck>(args, 0)?.decide(text(args, 1)?)))
                }),
            ],
        )
        .cost(CHECK),
        accessor("errored", "decision_errored", Type::Bool, |args| {
            Ok(decision(args)?.error.is_some().into())
        }),
        accessor("error", "decision_error", Type::String, |args| {
            Ok(Val::string(decision(args)?.error.as_deref().unwrap_or_default()))
        }),
        accessor("allowed", "decision_allowed", Type::Bool, |args| Ok(decision(args)?.allowed.into())),
        accessor("reason", "decision_reason", Type::String, |args| {
            Ok(Val::string(decision(args)?.reason.as_str()))
        }),
    ];
    Library { functions, ..Library::default() }
}

/// What came later: checks of lists and watches that select.
pub fn selectors() -> Library {
    let selector = |name, id, call: Native| {
        let parameters = [resource_check_type(), Type::String];
        Function::new(name, [Overload::member(id, parameters, resource_check_type(), call)]).cost(SELECTOR)
    };
    let functions = vec![
        selector("fieldSelector", "authorizer_fieldselector", |args| {
            let (check, field_selector) = narrowed(args)?;
            Ok(Val::opaque(ResourceCheck { field_selector, ..check }))
        }),
        selector("labelSelector", "authorizer_labelselector", |args| {
            let (check, label_selector) = narrowed(args)?;
            Ok(Val::opaque(ResourceCheck { label_selector, ..check }))
        }),
    ];
    Library { functions, ..Library::default() }
}

/// Allows for two checks an expression.
const CHECK: Cost = {
    const EACH: u64 = 350_000;
    Cost { actual: |_| Some(EACH), estimate: |_| Some(Range::fixed(EACH).into()) }
};

const SELECTOR: Cost = Cost {
    actual: |call| Some(selector_cost(Range::fixed(call.args.get(1)?.cost_size())).max),
    estimate: |call| {
        let [selector] = call.args else { return None };
        Some(selector_cost(call.size(selector)).into())
    },
};

/// A list of requirements, each an object with a list of values. The shortest requirement has two characters.
fn selector_cost(length: Range) -> Range {
    let requirements = length.scale(0.5).scale((CREATE_LIST + CREATE_OBJECT) as f64);
    Range::fixed(CREATE_LIST) + length.scale(STRING_TRAVERSAL) + requirements
}

fn service_account<'a>(args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let authorizer: &AuthorizerValue = opaque(args, 0)?;
    let (namespace, name) = (text(args, 1)?, text(args, 2)?);
    if !dns1123_subdomain(name).is_empty() {
        return Err(Error::new("Invalid service account name"));
    }
    if !dns1123_label(namespace).is_empty() {
        return Err(Error::new("Invalid service account namespace"));
    }
    Ok(Val::opaque(authorizer.of_service_account(namespace, name)))
}

fn not_empty(args: &[Val<'_>], what: &str) -> Result<String, Error> {
    let text = text(args, 1)?;
    if text.trim().is_empty() {
        return Err(Error::new(format!("{what} must not be empty")));
    }
    Ok(text.to_owned())
}

/// The receiver to be narrowed, and to what.
fn narrowed(args: &[Val<'_>]) -> Result<(ResourceCheck, String), Error> {
    let check: &ResourceCheck = opaque(args, 0)?;
    Ok((check.clone(), text(args, 1)?.to_owned()))
}

fn decision<'v>(args: &'v [Val<'_>]) -> Result<&'v Decision, Error> {
    opaque::<DecisionValue>(args, 0).map(|value| &value.0)
}
