//! CustomResourceDefinitions: what a definition makes of a resource, without I/O.

pub mod api_approval;
pub mod columns;
mod conditions;
pub mod establishing;
pub mod finalizer;
pub mod jsonpath;
pub mod naming;
pub mod non_structural;

#[cfg(test)]
mod tests;
