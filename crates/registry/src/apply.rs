//! Server-side apply: an object, perhaps a new one, with the fields its manager wants.

use object::normalise::{Strict, normalise_decoded};
use object::{FieldValidation, Status, Value, patch};

use crate::convert::memo::Conversions;
use crate::write::{ChangeRules, Creates, Written};
use crate::{Registry, RequestContext, decode, managed_fields};

impl Registry {
    pub(crate) async fn apply(
        &self,
        request: &RequestContext<'_>,
        mut config: Value,
    ) -> Result<Written, Status> {
        let storage = request.storage()?;
        let (resource, kind) = (request.resource, kinds::kind_of(storage));
        let warnings = duplicates(&mut config, request.options.field_validation)?;
        let creates = if request.subresource.is_none() { Creates::Always } else { Creates::Never };
        let rules = ChangeRules { needs_version: true, names_uid: false, creates, tracked: false };
        let conversions = Conversions::default();
        let mut written = self
            .change_with(request, rules, &conversions, &mut |old| {
                let old = old.get("metadata").is_some().then_some(old);
                let now = self.env().now_seconds() as i64;
                let mut new = managed_fields::apply(request, storage, &conversions, old, &config, now)?;
                if old.is_none() {
                    check_new(request, &new)?;
                }
                normalise_decoded(resource.schema(), resource.ty, &mut new, &mut Strict::off())
                    .map_err(|error| Status::unknown(error.to_string()))?;
                kinds::defaults::apply(kind, &resource.version, &mut new);
                decode::check_place(request, &mut new)?;
                let messages = kinds::dedup_owner_references(&mut new, true);
                Ok((new, messages.into_iter().collect()))
            })
            .await
            .map_err(|status| status.after_warnings(warnings.clone()))?;
        written.warnings.splice(0..0, warnings);
        Ok(written)
    }
}

/// Names that a map has twice: an error, a warning, or nothing; the last one counts.
pub(crate) fn duplicates(config: &mut Value, validation: FieldValidation) -> Result<Vec<String>, Status> {
    let found = patch::duplicate_fields(config);
    if found.is_empty() {
        return Ok(found);
    }
    patch::keep_last_fields(config);
    match validation {
        FieldValidation::Strict => {
            Err(Status::bad_request(format!("error strict decoding YAML: {}", found.join(", "))))
        }
        FieldValidation::Warn => Ok(found),
        FieldValidation::Ignore => Ok(Vec::new()),
    }
}

/// Who names a uid means an object that exists.
fn check_new(request: &RequestContext<'_>, new: &Value) -> Result<(), Status> {
    match new.str_at(&["metadata", "uid"]).filter(|uid| !uid.is_empty()) {
        None => Ok(()),
        Some(uid) => Err(Status::conflict(
            request.about(),
            request.name,
            format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            ),
        )),
    }
}
