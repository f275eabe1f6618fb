//! CustomResourceDefinitions: what a definition makes of a resource, without I/O.
//!
//! ```text
//! CRD ─ Served::of ─ resource_def ─> ResourceDef { storage, served versions } ─ Registry::define
//!                        └ CustomResource: the strategy of its objects (prune, default, validate, convert, print)
//! ```

pub mod columns;
mod custom_resource;
mod definition;
pub mod jsonpath;

pub use custom_resource::CustomResource;
pub use definition::{DefinitionError, Fingerprint, Served, is_condition_true};
