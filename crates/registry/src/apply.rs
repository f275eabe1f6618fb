//! Server-side apply: an object, perhaps a new one, with the fields its manager wants.

use object::{FieldValidation, Status, Value};

use crate::convert::memo::Conversions;
use crate::write::{ChangeRules, Creates, Extended, Written};
use crate::{Registry, RequestContext, decode, managed_fields};

impl Registry {
    /// `repeated` says which names the body had twice, as the YAML parser puts it.
    pub async fn apply(
        &self,
        request: &RequestContext<'_>,
        config: Value,
        repeated: Option<&str>,
    ) -> Result<Written, Status> {
        let storage = request.storage()?;
        let creates = if request.subresource.is_none() { Creates::Always } else { Creates::Never };
        let rules = ChangeRules {
            needs_version: true,
            names_uid: false,
            creates,
            tracked: false,
            extended: Extended::Whole,
        };
        let conversions = Conversions::default();
        self.change_with(request, rules, &conversions, &mut |old| {
            let old = old.get("metadata").is_some().then_some(old);
            let now = self.env().now_seconds() as i64;
            let mut new = managed_fields::apply(request, storage, &conversions, old, &config, now)?;
            let mut messages = check_repeated(repeated, request.options.field_validation)?;
            if old.is_none() {
                check_new(request, &new)?;
            }
            decode::check_place(request, &mut new)?;
            messages.extend(kinds::dedup_owner_references(&mut new, true));
            Ok((new, messages))
        })
        .await
    }
}

/// An error, a warning for each name, or nothing. Upstream looks at them after it has merged: conflicts come first.
pub(crate) fn check_repeated(
    repeated: Option<&str>,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    match (repeated, validation) {
        (Some(repeated), FieldValidation::Strict) => Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {repeated}"
        ))),
        // Without the line above them.
        (Some(repeated), FieldValidation::Warn) => {
            Ok(repeated.lines().skip(1).map(|line| line.trim().to_owned()).collect())
        }
        _ => Ok(Vec::new()),
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
