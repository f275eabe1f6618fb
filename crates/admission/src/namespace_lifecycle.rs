//! NamespaceLifecycle: nothing is created in a namespace that is absent or going away, and the system's own
//! namespaces stay.

use std::sync::Arc;

use object::{About, Cause, Obj, Status, Value};

use crate::{Attempt, Effects, Operation, Plugin, Refusal};

const NAMESPACES: About<'_> = About { group: "", resource: "namespaces" };

pub struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn mutate(&self, attempt: &Attempt<'_>, _: &mut Value, _: &mut Effects) -> Result<(), Refusal> {
        namespace_of_new(attempt).map(|_| ())
    }

    fn validate(&self, attempt: &Attempt<'_>, _: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let deleted = attempt.operation == Operation::Delete && attempt.is("", "namespaces");
        if deleted && kinds::is_immortal_namespace(attempt.name) {
            return Err(attempt.forbidden("this namespace may not be deleted").into());
        }
        Ok(())
    }

    /// One that changes in between makes the write look again.
    fn guard(&self, attempt: &Attempt<'_>, effects: &mut Effects) -> Result<(), Refusal> {
        if let Some(namespace) = namespace_of_new(attempt)? {
            effects.unchanged(&namespace);
        }
        Ok(())
    }
}

/// The namespace that takes in a new object; `None` where none has to.
fn namespace_of_new(attempt: &Attempt<'_>) -> Result<Option<Arc<Obj>>, Refusal> {
    if attempt.operation != Operation::Create || !attempt.storage.namespaced {
        return Ok(None);
    }
    match attempt.find("", "namespaces", "", attempt.namespace) {
        None => Err(Status::not_found(NAMESPACES, attempt.namespace).into()),
        Some(namespace) if namespace.deleting() => Err(terminating(attempt).into()),
        found => Ok(found),
    }
}

fn terminating(attempt: &Attempt<'_>) -> Status {
    let namespace = attempt.namespace;
    let mut status = attempt.forbidden(format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    ));
    if let Some(details) = &mut status.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating",
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        });
    }
    status
}
