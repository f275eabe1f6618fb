//! Server-side apply and field ownership, without a server.

pub mod path;
pub mod schema;
mod set;
pub mod typed;
mod values;

pub use path::{FieldName, PathElement, path_text};
pub use schema::TypeRef;
pub use set::{Entry, FieldsError, Filter, Matcher, Set};
