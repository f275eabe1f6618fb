//! The encodings of the API: bytes to tree and back, without I/O.
//!
//! ```text
//! JSON, YAML, protobuf ── parse ──> object::Value ── object::normalise (schema) ──> canonical tree ── write ──> bytes
//! ```

pub mod json;
pub mod protobuf;
pub mod yaml;
