//! The wire format: tags, varints and lengths.

use super::ProtobufError;

/// How the bytes after a tag are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    Fixed64,
    Length,
    Group,
    Fixed32,
}

impl Wire {
    pub(super) fn number(self) -> u8 {
        match self {
            Wire::Varint => 0,
            Wire::Fixed64 => 1,
            Wire::Length => 2,
            Wire::Group => 3,
            Wire::Fixed32 => 5,
        }
    }
}

/// Reads one message; every length is checked against the remaining bytes first.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next field's number and wire type; `None` at the end of the message.
    pub(super) fn tag(&mut self) -> Result<Option<(u32, Wire)>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // As Go's generated code: a 32-bit signed number, whatever the upper bits say.
        let number = (tag >> 3) as i32;
        let wire_type = (tag & 7) as u8;
        let wire = match wire_type {
            0 => Wire::Varint,
            1 => Wire::Fixed64,
            2 => Wire::Length,
            3 => Wire::Group,
            4 => return Err(ProtobufError::GroupEnd),
            5 => Wire::Fixed32,
            other => return Err(ProtobufError::WireType(other)),
        };
        match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(Some((number, wire))),
            _ => Err(ProtobufError::Tag { number, wire_type }),
        }
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            // Bits above the 64th fall off, as in Go.
            value |= u64::from(byte & 0x7f) << (7 * i as u32);
            if byte & 0x80 == 0 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 10 { ProtobufError::Truncated } else { ProtobufError::VarintTooLong })
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtobufError> {
        let (eight, rest) = self.rest.split_first_chunk::<8>().ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*eight))
    }

    /// A length and as many bytes.
    pub(super) fn bytes(&mut self) -> Result<&'b [u8], ProtobufError> {
        let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Truncated)?;
        self.take(length)
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips the value of an unknown field.
    pub(super) fn skip(&mut self, wire: Wire) -> Result<(), ProtobufError> {
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::Fixed64 => self.take(8).map(drop),
            Wire::Length => self.bytes().map(drop),
            Wire::Fixed32 => self.take(4).map(drop),
            Wire::Group => self.skip_group(),
        }
    }

    /// Groups nest, so their ends are counted instead of recursing.
    fn skip_group(&mut self) -> Result<(), ProtobufError> {
        let mut open = 1u64;
        while open > 0 {
            let tag = self.varint()?;
            match (tag & 7) as u8 {
                0 => self.varint().map(drop)?,
                1 => self.take(8).map(drop)?,
                2 => self.bytes().map(drop)?,
                3 => open += 1,
                4 => open -= 1,
                5 => self.take(4).map(drop)?,
                other => return Err(ProtobufError::WireType(other)),
            }
        }
        Ok(())
    }
}

pub(super) fn put_tag(out: &mut Vec<u8>, number: u32, wire: Wire) {
    put_varint(out, u64::from(number) << 3 | u64::from(wire.number()));
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_tag(out, number, Wire::Length);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Starts a message whose length is not known yet; [`close`] fills it in.
pub(super) fn open(out: &mut Vec<u8>, number: u32) -> usize {
    put_tag(out, number, Wire::Length);
    out.push(0);
    out.len()
}

/// Most messages are shorter than 128 bytes and their length fits the byte left for it; a longer one moves up.
pub(super) fn close(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
        return;
    }
    let more = varint_len(length as u64) - 1;
    out.resize(out.len() + more, 0);
    out.copy_within(start..start + length, start + more);
    let mut left = length;
    for byte in &mut out[start - 1..start + more] {
        *byte = left as u8 | 0x80;
        left >>= 7;
    }
    out[start + more - 1] &= 0x7f;
}

pub(super) fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}
