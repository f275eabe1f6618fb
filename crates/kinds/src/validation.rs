//! All validation errors of an object, in the order upstream reports them.

#[cfg(test)]
mod tests;

use catalog::Storage;
use object::{FieldError, Status, Value};

use crate::check::Seen;
use crate::kind::{Context, Kind};
use crate::metadata;

/// The kind's rules; only if they all hold, those of every object (so that the more specific message wins).
pub fn validate_create(
    kind: &dyn Kind,
    storage: &Storage,
    new: &Value,
    ctx: &Context<'_>,
) -> Vec<FieldError> {
    let errors = kind.validate(storage, new, None, ctx);
    if errors.is_empty() { metadata::check_common(storage, new) } else { errors }
}

/// The rules of every object, then those of the kind: upstream reports both, and some errors twice.
pub fn validate_update(
    kind: &dyn Kind,
    storage: &Storage,
    new: &Value,
    old: &Value,
    ctx: &Context<'_>,
) -> Vec<FieldError> {
    let mut errors = metadata::check_common(storage, new);
    errors.extend(metadata::check_machinery_update(new, old));
    errors.extend(kind.validate(storage, new, Some(old), ctx));
    errors
}

/// The refusal. Its message names an error once, its causes as often as it was found, as upstream's do.
pub fn invalid(storage: &Storage, name: &str, errors: Vec<FieldError>) -> Status {
    let mut seen = Seen::default();
    let mut first =
        |e: &&FieldError| !seen.again((e.kind as u8, e.field.clone(), e.bad_value.clone(), e.detail.clone()));
    let distinct: Vec<FieldError> = errors.iter().filter(|error| first(error)).cloned().collect();
    let message = Status::invalid(&storage.group, &storage.kind, name, distinct).message;
    Status { message, ..Status::invalid(&storage.group, &storage.kind, name, errors) }
}
