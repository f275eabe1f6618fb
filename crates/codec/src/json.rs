//! JSON in and out of the tree, with Go's rules: what `encoding/json` would read, write and complain about.
//!
//! ```text
//! bytes ── read::parse(hint: schema type) ──> Value ── write::write ──> compact bytes (a client's `?pretty`: write_pretty)
//!              │ names of catalogue fields are borrowed from the catalogue, duplicates stay, in order
//! ```
//! Meaning (pruning, types, zero values) is `object::normalise`'s, which runs after it.

mod read;
mod write;

#[cfg(test)]
mod tests;

pub use read::{MAX_DEPTH, ParseError, parse};
pub use write::{to_vec, write, write_pretty, write_string};
