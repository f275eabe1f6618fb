//! (module document to be written)
mod deep;
mod index;
pub mod normalise;
pub mod patch;
pub mod quantity;
pub mod selector;
mod status;
pub mod time;
pub mod validate_text;
mod value;
pub use deep::{LEVELS_AT_ONCE, MAX_DEPTH, deep};
pub use index::Index;
pub use status::*;
pub use value::{Map, Value, discard};
