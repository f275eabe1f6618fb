//! API objects, without I/O: as a tree ([`Value`]), as bytes with a header ([`Obj`]), and operations on them (selectors, patches,
//! quantities, times, [`Status`]).

pub mod base64;
mod deep;
mod index;
pub mod normalise;
mod obj;
mod options;
pub mod patch;
pub mod quantity;
pub mod scan;
pub mod selector;
mod status;
pub mod time;
pub mod validate_text;
mod value;

pub use deep::{LEVELS_AT_ONCE, MAX_DEPTH, deep};
pub use index::Index;
pub use obj::{NotAnObject, Obj};
pub use options::{DeleteOptions, FieldValidation, ListOptions, Preconditions, Propagation, WriteOptions};
pub use patch::{Patch, PatchType};
pub use revision::Revision;
pub use status::*;
pub use value::{Map, Value, discard};
