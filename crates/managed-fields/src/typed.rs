//! Operations on values with types. Values have unique names in their maps; nothing else is expected of them.

mod compare;
mod error;
mod field_set;
mod items;
mod merge;
mod named;
mod reconcile;
mod remove;
mod validate;

pub use compare::{Comparison, compare};
pub use error::{ValidationError, ValidationErrors};
pub use field_set::field_set;
pub use merge::merge;
pub use named::with_named_fields;
pub use reconcile::reconcile;
pub use remove::{extract_items, extract_items_and_keys, remove_items};
pub(crate) use validate::validate_object;
pub use validate::{Duplicates, validate};
