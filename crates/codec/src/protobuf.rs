//! Kubernetes' protobuf to and from the tree, driven by the schema: no message has its own code.
//!
//! ```text
//! body     = "k8s\0" Unknown{ 1: TypeMeta{ 1: apiVersion, 2: kind }, 2: message, 3: contentEncoding, 4: contentType }
//! a watch  = frames of [length: 4 bytes, big-endian] WatchEvent{ 1: type, 2: RawExtension{ 1: body } }
//!
//! bytes ── decode ──> Value, as the JSON of the same object would parse ── object::normalise ──> canonical tree ── encode ──> bytes
//! ```
//! What Go's generated code does differently from JSON:
//! - scalars and structs held by value are always on the wire, zero or not; pointers, lists and maps only when there is something;
//! - fields come in the order of their numbers, map entries in the order of their keys, lists of numbers are not packed (but may be read so);
//! - `kind` and `apiVersion` are in the envelope only: list items have none.

mod decode;
mod encode;
mod envelope;
mod wire;

#[cfg(test)]
mod tests;

pub use decode::{decode, decode_message};
pub use encode::{encode, encode_message};
pub use envelope::{LIST_TAIL, MAGIC, Sealed, encode_event, event_head, list_head, list_item, open, seal};

/// Maximum nesting of messages, as for JSON.
pub const MAX_DEPTH: u32 = object::MAX_DEPTH as u32;

/// Why bytes are not an object, worded as in Go where it has a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    #[error("empty data")]
    Empty,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    #[error("empty body")]
    EmptyBody,
    #[error("Object 'Kind' is missing in the protobuf message; name it in its TypeMeta")]
    NoKind,
    #[error("no kind \"{kind}\" is registered for version \"{api_version}\"")]
    UnknownKind { api_version: String, kind: String },
    #[error("unexpected EOF")]
    Truncated,
    #[error("proto: integer overflow")]
    VarintTooLong,
    #[error("proto: unexpected end of group")]
    GroupEnd,
    #[error("proto: illegal wireType {0}")]
    WireType(u8),
    #[error("proto: illegal tag {number} (wire type {wire_type})")]
    Tag { number: i32, wire_type: u8 },
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    WrongWireType { wire_type: u8, field: String },
    #[error("exceeded max depth")]
    TooDeep,
    #[error("field {0} holds a number that JSON cannot write")]
    NotFinite(String),
    #[error("impossible IntOrString.Type {0}; 0 is a number, 1 a string")]
    IntOrString(i64),
    #[error("field {field} does not hold JSON: {source}")]
    Json { field: String, source: crate::json::ParseError },
}
