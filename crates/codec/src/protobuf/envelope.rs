//! Around a message: the envelope with its kind, lists, and watch frames.

use super::ProtobufError;
use super::wire::{self, Reader, Wire, close, put_bytes};

/// The prefix of every body, which distinguishes it from JSON.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A parsed envelope, borrowed from the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealed<'b> {
    pub api_version: &'b str,
    pub kind: &'b str,
    pub message: &'b [u8],
}

/// Parses the envelope without decoding the message.
pub fn open(body: &[u8]) -> Result<Sealed<'_>, ProtobufError> {
    if body.is_empty() {
        return Err(ProtobufError::Empty);
    }
    let unknown = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    if unknown.is_empty() {
        return Err(ProtobufError::EmptyBody);
    }
    let mut sealed = Sealed::default();
    let mut reader = Reader::new(unknown);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, Wire::Length) => type_meta(reader.bytes()?, &mut sealed)?,
            (2, Wire::Length) => sealed.message = reader.bytes()?,
            (1..=4, Wire::Length) => drop(reader.bytes()?),
            (1..=4, wire) => return Err(wrong_wire(wire, "Unknown")),
            _ => reader.skip(wire)?,
        }
    }
    Ok(sealed)
}

/// Appends a body: the envelope around whatever `message` appends.
pub fn seal(api_version: &str, kind: &str, out: &mut Vec<u8>, message: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(MAGIC);
    let meta = wire::open(out, 1);
    put_bytes(out, 1, api_version.as_bytes());
    put_bytes(out, 2, kind.as_bytes());
    close(out, meta);
    let raw = wire::open(out, 2);
    message(out);
    close(out, raw);
    // contentEncoding and contentType: Go writes them although nobody sets them.
    put_bytes(out, 3, b"");
    put_bytes(out, 4, b"");
}

/// Appends the bytes before the first item of a list whose items are written later, one by one: the envelope
/// contains the total length, so the item lengths come first. All list kinds have the metadata at 1 and the items at 2.
pub fn list_head(
    api_version: &str,
    kind: &str,
    metadata: &[u8],
    item_lengths: impl IntoIterator<Item = usize>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(MAGIC);
    let meta = wire::open(out, 1);
    put_bytes(out, 1, api_version.as_bytes());
    put_bytes(out, 2, kind.as_bytes());
    close(out, meta);
    let member = |length: usize| 1 + wire::varint_len(length as u64) + length;
    let length: usize = member(metadata.len()) + item_lengths.into_iter().map(member).sum::<usize>();
    wire::put_tag(out, 2, Wire::Length);
    wire::put_varint(out, length as u64);
    put_bytes(out, 1, metadata);
}

/// Appends one item after [`list_head`]: a message without its envelope.
pub fn list_item(message: &[u8], out: &mut Vec<u8>) {
    put_bytes(out, 2, message);
}

/// The bytes after the last item: contentEncoding and contentType, empty.
pub const LIST_TAIL: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// Appends one watch frame; `object` is a complete body, envelope included, and may be shared by all watchers.
pub fn encode_event(event_type: &str, object: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put_bytes(out, 1, event_type.as_bytes());
    let extension = wire::open(out, 2);
    put_bytes(out, 1, object);
    close(out, extension);
    // Bodies are limited far below 4 GiB; a longer frame would be indistinguishable from a broken one.
    let length = u32::try_from(out.len() - start - 4).expect("an object is shorter than 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends the bytes before the object in a watch frame: with the object after it, the same as [`encode_event`].
pub fn event_head(event_type: &str, object_length: usize, out: &mut Vec<u8>) {
    let member = |length: usize| 1 + wire::varint_len(length as u64) + length;
    let length = member(event_type.len()) + member(member(object_length));
    let length = u32::try_from(length).expect("an object is shorter than 4 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    put_bytes(out, 1, event_type.as_bytes());
    wire::put_tag(out, 2, Wire::Length);
    wire::put_varint(out, member(object_length) as u64);
    wire::put_tag(out, 1, Wire::Length);
    wire::put_varint(out, object_length as u64);
}

pub(super) fn wrong_wire(wire: Wire, field: &str) -> ProtobufError {
    ProtobufError::WrongWireType { wire_type: wire.number(), field: field.to_owned() }
}

fn type_meta<'b>(bytes: &'b [u8], sealed: &mut Sealed<'b>) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, wire)) = reader.tag()? {
        match (number, wire) {
            (1, Wire::Length) => sealed.api_version = text(reader.bytes()?),
            (2, Wire::Length) => sealed.kind = text(reader.bytes()?),
            (1 | 2, wire) => return Err(wrong_wire(wire, "TypeMeta")),
            _ => reader.skip(wire)?,
        }
    }
    Ok(())
}

/// No version or kind of ours is other than ASCII; what is not even UTF-8 names nothing.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("\u{fffd}")
}
