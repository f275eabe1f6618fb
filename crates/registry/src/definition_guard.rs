//! Creates of resources that a CustomResourceDefinition defines: none is committed behind the definition's back.
//!
//! ```text
//! DELETE of the definition ── marked ── its objects are deleted ── it goes
//!                                └ a create that has not seen the mark, here or on another server, fails its guard
//! ```
//! So no object is left behind, to appear under the next definition of that name.

use catalog::Storage;
use object::Status;
use store::{Commit, Guard};

use crate::{Registry, RequestContext, redefined};

impl Registry {
    /// Guards a create by the definition as it is now.
    pub(crate) fn guard_by_definition(
        &self,
        request: &RequestContext<'_>,
        storage: &Storage,
        name: &str,
        commit: &mut Commit,
    ) -> Result<(), Status> {
        let Some((uid, _)) = kinds::kind_of(storage).defined_by() else { return Ok(()) };
        let definitions = request.catalog.find_storage("apiextensions.k8s.io", "customresourcedefinitions");
        let Some(definitions) = definitions else { return Ok(()) };
        let key = definitions.key("", &format!("{}.{}", storage.plural, storage.group));
        let definition = self.table().get(definitions.id, &key).filter(|now| now.uid() == uid);
        let Some(definition) = definition else { return Err(redefined(storage)) };
        if definition.deleting() {
            return Err(terminating(request, name));
        }
        commit.guards.push((key.into(), Guard::At(definition.revision())));
        Ok(())
    }
}

/// The refusal of a create under a definition that is being deleted.
pub(crate) fn terminating(request: &RequestContext<'_>, name: &str) -> Status {
    let why = "create not allowed while custom resource definition is terminating";
    Status::forbidden(request.about(), name, why)
}
