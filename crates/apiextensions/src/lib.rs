//! CustomResourceDefinitions: what a definition makes of a resource, without I/O.

pub mod columns;
pub mod jsonpath;
