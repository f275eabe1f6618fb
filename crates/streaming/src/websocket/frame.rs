//! WebSocket frames as bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::Role;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Of a control frame's payload.
const MAX_CONTROL: usize = 125;

/// The normal end of a connection.
pub(super) const NORMAL_CLOSURE: u16 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A piece of a message; `last` completes it.
    Data {
        text: bool,
        last: bool,
        data: Bytes,
    },
    Ping(Bytes),
    Pong,
    /// The code, if one was given.
    Close(Option<u16>),
}

/// What is left of a data frame whose beginning has been passed on.
struct DataRest {
    left: u64,
    fin: bool,
    mask: Option<[u8; 4]>,
    /// How far into the mask the next byte is.
    offset: usize,
}

pub(super) struct Parser {
    /// A server insists on masks, a client on their absence.
    masked: bool,
    data: Option<DataRest>,
    /// The kind of the message begun and not complete.
    message: Option<u8>,
}

impl Parser {
    pub fn new(role: &Role) -> Parser {
        Parser { masked: matches!(role, Role::Server), data: None, message: None }
    }

    /// The next event in `input`; none if it is not there yet. After an error the connection is unusable.
    pub fn parse(&mut self, input: &mut BytesMut) -> Result<Option<Event>, &'static str> {
        if self.data.is_some() {
            return Ok(self.piece(input));
        }
        let Some(header) = Header::peek(input)? else { return Ok(None) };
        if header.mask.is_some() != self.masked {
            return Err(if self.masked { "frame is not masked" } else { "frame is masked" });
        }
        match (header.opcode, self.message) {
            (CONTINUATION, Some(_)) => {}
            (TEXT | BINARY, None) => self.message = Some(header.opcode),
            (CONTINUATION | TEXT | BINARY, _) => return Err("fragments out of order"),
            _ => return control(header, input),
        }
        input.advance(header.size);
        self.data = Some(DataRest { left: header.length, fin: header.fin, mask: header.mask, offset: 0 });
        Ok(self.piece(input))
    }

    fn piece(&mut self, input: &mut BytesMut) -> Option<Event> {
        let rest = self.data.as_mut()?;
        if input.is_empty() && rest.left > 0 {
            return None;
        }
        let size = usize::try_from(rest.left).unwrap_or(usize::MAX).min(input.len());
        let mut data = input.split_to(size);
        if let Some(mask) = rest.mask {
            apply_mask(mask, rest.offset, &mut data);
            rest.offset = (rest.offset + size) % 4;
        }
        rest.left -= size as u64;
        let (complete, fin) = (rest.left == 0, rest.fin);
        let text = self.message == Some(TEXT);
        if complete {
            self.data = None;
            if fin {
                self.message = None;
            }
        }
        Some(Event::Data { text, last: complete && fin, data: data.freeze() })
    }
}

fn control(header: Header, input: &mut BytesMut) -> Result<Option<Event>, &'static str> {
    let length = header.length as usize;
    if !header.fin || header.length > MAX_CONTROL as u64 {
        return Err("control frame is fragmented or too large");
    }
    if input.len() < header.size + length {
        return Ok(None);
    }
    input.advance(header.size);
    let mut payload = input.split_to(length);
    if let Some(mask) = header.mask {
        apply_mask(mask, 0, &mut payload);
    }
    match header.opcode {
        CLOSE if length == 1 => Err("close frame without a whole code"),
        CLOSE => Ok(Some(Event::Close((length > 1).then(|| payload.get_u16())))),
        PING => Ok(Some(Event::Ping(payload.freeze()))),
        PONG => Ok(Some(Event::Pong)),
        _ => Err("unknown opcode"),
    }
}

struct Header {
    fin: bool,
    opcode: u8,
    length: u64,
    mask: Option<[u8; 4]>,
    /// Of the header itself.
    size: usize,
}

impl Header {
    fn peek(input: &[u8]) -> Result<Option<Header>, &'static str> {
        let [first, second, rest @ ..] = input else { return Ok(None) };
        if first & 0x70 != 0 {
            return Err("reserved bits are set");
        }
        let mut rest = rest;
        let extra = match second & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let masked = second & 0x80 != 0;
        let size = 2 + extra + if masked { 4 } else { 0 };
        if input.len() < size {
            return Ok(None);
        }
        let length = match extra {
            2 => u64::from(rest.get_u16()),
            8 => rest.get_u64(),
            _ => u64::from(second & 0x7f),
        };
        if length > i64::MAX as u64 {
            return Err("frame is too large");
        }
        let mask = masked.then(|| [rest[0], rest[1], rest[2], rest[3]]);
        Ok(Some(Header { fin: first & 0x80 != 0, opcode: first & 0x0f, length, mask, size }))
    }
}

fn apply_mask(mask: [u8; 4], offset: usize, data: &mut [u8]) {
    let mask = [0, 1, 2, 3].map(|at: usize| mask[(at + offset) % 4]);
    let word = u32::from_ne_bytes(mask);
    let mut words = data.chunks_exact_mut(4);
    for bytes in &mut words {
        let masked = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) ^ word;
        bytes.copy_from_slice(&masked.to_ne_bytes());
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

pub(super) struct Composer(pub Role);

impl Composer {
    /// A whole message, of which `prefix` is the first part.
    pub fn message(&self, text: bool, prefix: &[u8], data: &[u8], output: &mut BytesMut) {
        self.frame(if text { TEXT } else { BINARY }, prefix, data, output);
    }

    pub fn ping(&self, output: &mut BytesMut) {
        self.frame(PING, &[], &[], output);
    }

    pub fn pong(&self, data: &[u8], output: &mut BytesMut) {
        self.frame(PONG, &[], data, output);
    }

    pub fn close(&self, output: &mut BytesMut) {
        self.frame(CLOSE, &[], &NORMAL_CLOSURE.to_be_bytes(), output);
    }

    fn frame(&self, opcode: u8, prefix: &[u8], data: &[u8], output: &mut BytesMut) {
        let length = prefix.len() + data.len();
        let masked = if matches!(self.0, Role::Client(_)) { 0x80 } else { 0 };
        output.reserve(length + 14);
        output.put_u8(0x80 | opcode);
        match length {
            0..=125 => output.put_u8(masked | length as u8),
            126..=0xffff => {
                output.put_u8(masked | 126);
                output.put_u16(length as u16);
            }
            _ => {
                output.put_u8(masked | 127);
                output.put_u64(length as u64);
            }
        }
        let mask = match &self.0 {
            Role::Server => None,
            Role::Client(env) => Some((env.random() as u32).to_ne_bytes()),
        };
        if let Some(mask) = mask {
            output.put_slice(&mask);
        }
        let start = output.len();
        output.put_slice(prefix);
        output.put_slice(data);
        if let Some(mask) = mask {
            apply_mask(mask, 0, &mut output[start..]);
        }
    }
}

#[cfg(test)]
mod tests;
