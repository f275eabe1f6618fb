//! Server-side apply and field ownership: who manages which fields of an object, and what a write changes about it.
//!
//! ```text
//! path      elements of paths: .spec.containers[name="a"].image
//! Set       a trie of them; FieldsV1
//! schema    types of built-in kinds and custom resources, as apply sees them
//! typed     values with types: validate, field set, compare, merge, remove, extract
//! managers  metadata.managedFields: names, operations, versions, times, sets
//! updater   updates and applies on all managers: conflicts, pruning, versions
//! FieldManager   the whole of it, for one write
//! ```
//! Words, orders and oddities are those of structured-merge-diff and apimachinery's managedfields. Nothing here knows a server:
//! versions come from a [`Converter`], the time from the caller.

mod conflict;
mod field_manager;
mod managers;
pub mod path;
pub mod schema;
mod set;
pub mod typed;
mod updater;
mod values;

pub use conflict::{Conflict, Conflicts};
pub use field_manager::{Applied, ApplyError, FieldManager, keep_times_of_unchanged, take_managed_fields};
pub use managers::{DecodeError, Manager, ManagerId, Managers, Operation, ReplicasPath, ScaleManagers};
pub use path::{FieldName, PathElement, path_text};
pub use schema::TypeRef;
pub use set::{Entry, FieldsError, Filter, Matcher, Set};
pub use updater::{Converter, ResetFields, UpdateError};
