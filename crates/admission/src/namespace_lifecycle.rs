//! NamespaceLifecycle: nothing is created in a namespace that is absent or going away, and the system's own
//! namespaces stay.

use object::{About, Cause, Status, Value};

use crate::{Attempt, Effects, Operation, Plugin, Refusal};

const NAMESPACES: About<'_> = About { group: "", resource: "namespaces" };

pub struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    /// The commit is guarded by the namespace: one that changes in between makes the write look again.
    fn mutate(&self, attempt: &Attempt<'_>, _new: &mut Value, effects: &mut Effects) -> Result<(), Refusal> {
        if attempt.operation != Operation::Create || !attempt.storage.namespaced {
            return Ok(());
        }
        let Some(namespace) = attempt.find("", "namespaces", "", attempt.namespace) else {
            return Err(Status::not_found(NAMESPACES, attempt.namespace).into());
        };
        if namespace.deleting() {
            return Err(terminating(attempt).into());
        }
        effects.unchanged(&namespace);
        Ok(())
    }

    fn validate(&self, attempt: &Attempt<'_>, _: Option<&Value>, _: &mut Effects) -> Result<(), Refusal> {
        let deleted = attempt.operation == Operation::Delete && attempt.is("", "namespaces");
        if deleted && kinds::is_immortal_namespace(attempt.name) {
            return Err(attempt.forbidden("this namespace may not be deleted").into());
        }
        Ok(())
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
