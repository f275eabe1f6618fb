//! Who may still say no once the object is complete, and the rule every cluster needs: namespaces must exist.

use auth::UserInfo;
use catalog::{Resource, Storage};
use object::{About, Cause, Status, Value};
use table::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// One write, complete and valid, about to be committed.
pub struct Attempt<'a> {
    pub user: &'a UserInfo,
    pub operation: Operation,
    pub resource: &'a Resource,
    pub storage: &'a Storage,
    pub subresource: Option<&'a str>,
    pub namespace: &'a str,
    pub name: &'a str,
    /// In the storage version; absent for deletions.
    pub new: Option<&'a Value>,
    /// In the storage version; absent for creations.
    pub old: Option<&'a Value>,
}

impl Attempt<'_> {
    pub fn about(&self) -> About<'_> {
        About { group: &self.resource.group, resource: &self.resource.plural }
    }
}

/// Something that may refuse a write.
pub trait Admission: Send + Sync {
    fn admit(&self, attempt: &Attempt<'_>) -> Result<(), Status>;
}

/// Creation needs a namespace that exists and is not going away. Returns the namespace's key and revision, so
/// that the commit can be guarded by it: a namespace that changes in between makes the write look again.
pub(crate) fn namespace_for_create(
    table: &Table,
    attempt: &Attempt<'_>,
) -> Result<Option<(store::Key, store::Revision)>, Status> {
    if !attempt.storage.namespaced {
        return Ok(None);
    }
    let about = About { group: "", resource: "namespaces" };
    let row = table.catalog().find("", "v1", "namespaces").and_then(|r| r.storage);
    let Some(row) = row else { return Ok(None) };
    let key = format!("{}{}", table.catalog().storage(row).prefix, attempt.namespace);
    let namespace = table.get(row, &key).ok_or_else(|| Status::not_found(about, attempt.namespace))?;
    if namespace.deleting() {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            attempt.namespace
        );
        let mut status = Status::forbidden(attempt.about(), attempt.name, why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating",
                message: format!("namespace {} is being terminated", attempt.namespace),
                field: "metadata.namespace".into(),
            });
        }
        return Err(status);
    }
    Ok(Some((namespace.key().clone(), namespace.revision())))
}

/// The system's own namespaces may not be deleted.
pub(crate) fn namespace_may_be_deleted(attempt: &Attempt<'_>) -> Result<(), Status> {
    let is_namespace = attempt.storage.group.is_empty() && attempt.storage.plural == "namespaces";
    if is_namespace && kinds::is_immortal_namespace(attempt.name) {
        return Err(Status::forbidden(attempt.about(), attempt.name, "this namespace may not be deleted"));
    }
    Ok(())
}
