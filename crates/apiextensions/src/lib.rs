//! CustomResourceDefinitions: what a definition makes of a resource, without I/O.
//!
//! ```text
//! CRD ─ Served::of ─ resource_def ─> ResourceDef { storage, served versions } ─ Registry::define
//!                        └ CustomResource: the strategy of its objects (prune, default, validate, convert, print)
//! ```

pub mod api_approval;
pub mod columns;
mod conditions;
mod custom_resource;
mod definition;
pub mod establishing;
pub mod finalizer;
pub mod naming;
pub mod non_structural;
mod scale;

#[cfg(test)]
mod tests;

pub use custom_resource::CustomResource;
pub use definition::{DefinitionError, Fingerprint, Served};
