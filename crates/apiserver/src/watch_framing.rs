//! How the events of a watch are delimited: lines of JSON, or length-delimited protobuf.

use catalog::Catalog;
use codec::protobuf;
use object::Status;

use crate::negotiate::Encoding;
use crate::views;

/// How events are delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One line of JSON each.
    Lines,
    /// One length-delimited protobuf message each; objects are protobuf too.
    Protobuf,
}

impl Framing {
    pub fn content_type(self) -> &'static str {
        match self {
            Framing::Lines => "application/json",
            Framing::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }

    /// Appends what precedes an object of that length.
    pub fn head(self, kind: &str, object_length: usize, out: &mut Vec<u8>) {
        match self {
            Framing::Lines => {
                out.extend_from_slice(b"{\"type\":\"");
                out.extend_from_slice(kind.as_bytes());
                out.extend_from_slice(b"\",\"object\":");
            }
            Framing::Protobuf => protobuf::event_head(kind, object_length, out),
        }
    }

    /// What follows it.
    pub fn tail(self) -> &'static [u8] {
        match self {
            Framing::Lines => b"}\n",
            Framing::Protobuf => b"",
        }
    }

    /// Appends one event around what `write` appends.
    pub fn event(self, kind: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Framing::Lines => {
                self.head(kind, 0, out);
                write(out);
                out.extend_from_slice(self.tail());
            }
            Framing::Protobuf => {
                let mut object = Vec::new();
                write(&mut object);
                protobuf::encode_event(kind, &object, out);
            }
        }
    }
}

/// An ERROR event: how a running watch is told that it failed.
pub fn error_event(catalog: &Catalog, framing: Framing, status: &Status, out: &mut Vec<u8>) {
    let encoding = match framing {
        Framing::Lines => Encoding::Json,
        Framing::Protobuf => Encoding::Protobuf,
    };
    let object = views::encode_value(catalog, &status.to_value(), encoding);
    framing.event("ERROR", out, |out| out.extend_from_slice(&object));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_of_json() {
        let mut out = Vec::new();
        Framing::Lines.event("ADDED", &mut out, |out| out.extend_from_slice(b"{}"));
        assert_eq!(out, b"{\"type\":\"ADDED\",\"object\":{}}\n");
    }

    #[test]
    fn head_and_tail_around_an_object_are_an_event() {
        for framing in [Framing::Lines, Framing::Protobuf] {
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            framing.event("MODIFIED", &mut whole, |out| out.extend_from_slice(b"object"));
            framing.head("MODIFIED", 6, &mut parts);
            parts.extend_from_slice(b"object");
            parts.extend_from_slice(framing.tail());
            assert_eq!(whole, parts, "{framing:?}");
        }
    }
}
