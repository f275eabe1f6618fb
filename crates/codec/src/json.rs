//! JSON to and from the tree, with Go's rules: what `encoding/json` would accept, write and report as errors.
//!
//! ```text
//! bytes ── read::parse(hint: schema type) ──> Value ── write::write ──> compact bytes (a client's `?pretty`: write_pretty)
//!              │ names of catalogue fields are borrowed from the catalogue, duplicates stay, in order
//! ```
//! Pruning, types and zero values are handled by `object::normalise` afterwards.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{MAX_DEPTH, ParseError, expanded, parse, parse_stored};
pub use write::{to_vec, write, write_pretty, write_string};
