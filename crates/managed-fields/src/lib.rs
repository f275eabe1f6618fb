//! Server-side apply and field ownership, without a server.

pub mod path;
mod set;
mod values;

pub use path::{FieldName, PathElement, path_text};
pub use set::{Entry, FieldsError, Filter, Matcher, Set};
