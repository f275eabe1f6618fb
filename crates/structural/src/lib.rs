//! Structural schemas: what a CustomResourceDefinition says about its objects, as functions over the tree.
//!
//! ```text
//! openAPIV3Schema (JSON) ── parse ──> Structural: nodes in one slice, equal sub-schemas once
//!                                        │
//! an object from a client ── coerce ─────┤ names sorted, unknown fields pruned (and listed), nulls dropped, embedded metadata
//!                         ── default ────┤ what is absent filled in; also for what the store holds
//!                         ── validate ───┘ values, embedded metadata, sets and maps; unchanged parts of an update may stay wrong
//! ```
//! Words, paths and oddities are those of apiextensions-apiserver and kube-openapi. Nothing is allocated for a valid object.
//!
//! The rules a schema itself must obey are in [`rules`]; they read the JSON, because they are also about what no node keeps.

mod access;
mod at;
mod check;
mod coerce;
mod default;
mod embedded;
mod explain;
mod format;
mod lists;
mod name;
mod node;
mod number;
pub mod openapi;
mod parse;
mod pattern;
mod prune;
mod ratchet;
mod read;
pub mod rules;
mod show;
mod valid;

#[cfg(test)]
mod tests;

pub use access::shown;
pub use coerce::{Coerce, sort};
pub use embedded::{CheckMetadata, MetadataError};
pub use explain::rules_blocked_by;
pub use format::StringFormat;
pub use node::{Additional, ListType, MapType, Node, Rule, Structural, Type};
pub use pattern::Pattern;
