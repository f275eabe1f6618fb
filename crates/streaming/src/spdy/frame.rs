//! SPDY/3.1 frames as bytes.
//!
//! ```text
//!   control  1|version 15|type 16|flags 8|length 24|payload       data  0|stream 31|flags 8|length 24|payload
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::headers::{Compressor, Decompressor, Headers};

const VERSION: u16 = 3;
/// Of the payload of a control frame, which is buffered whole; data is passed on as it comes.
pub const MAX_CONTROL: usize = 64 << 10;

const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const SETTINGS: u16 = 4;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const WINDOW_UPDATE: u16 = 9;

/// Why a stream is reset.
pub mod status {
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const REFUSED_STREAM: u32 = 3;
    pub const CANCEL: u32 = 5;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    SynStream {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    SynReply {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    RstStream {
        id: u32,
        status: u32,
    },
    /// Read for its bounds only: nothing in it matters without flow control.
    Settings,
    Ping(u32),
    GoAway {
        last_stream: u32,
        status: u32,
    },
    Headers {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    WindowUpdate {
        id: u32,
        delta: u32,
    },
    /// Decoded: a part of a data frame, the last one with its `fin`.
    Data {
        id: u32,
        fin: bool,
        data: Bytes,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("invalid control frame")]
    Control,
    #[error("control frame is too large")]
    TooLarge,
    #[error("stream id zero is disallowed")]
    ZeroStream,
    #[error("compressed payload size was incorrect")]
    Compression,
    #[error("frame contained invalid header")]
    Headers,
    #[error("headers are too large")]
    HeadersTooLarge,
}

/// What is left of a data frame whose beginning has been passed on.
struct DataRest {
    id: u32,
    fin: bool,
    left: usize,
}

pub struct Decoder {
    headers: Decompressor,
    data: Option<DataRest>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { headers: Decompressor::new(), data: None }
    }
}

impl Decoder {
    /// Takes the next frame out of `input`; none if it is not there yet. After an error the connection is unusable.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(rest) = &mut self.data {
                if input.is_empty() && rest.left > 0 {
                    return Ok(None);
                }
                let data = input.split_to(rest.left.min(input.len())).freeze();
                rest.left -= data.len();
                let (id, fin) = (rest.id, rest.fin && rest.left == 0);
                if rest.left == 0 {
                    self.data = None;
                }
                return Ok(Some(Frame::Data { id, fin, data }));
            }
            if input.len() < 8 {
                return Ok(None);
            }
            let word = u32::from_be_bytes([input[0], input[1], input[2], input[3]]);
            let flags = input[4];
            let length = u32::from_be_bytes([0, input[5], input[6], input[7]]) as usize;
            if word & 0x8000_0000 != 0 {
                return self.control(word, flags, length, input);
            }
            if word == 0 {
                return Err(FrameError::ZeroStream);
            }
            input.advance(8);
            self.data = Some(DataRest { id: word, fin: flags & FIN != 0, left: length });
        }
    }

    fn control(
        &mut self,
        word: u32,
        flags: u8,
        length: usize,
        input: &mut BytesMut,
    ) -> Result<Option<Frame>, FrameError> {
        if (word >> 16) as u16 & 0x7fff != VERSION {
            return Err(FrameError::Control);
        }
        if length > MAX_CONTROL {
            return Err(FrameError::TooLarge);
        }
        if input.len() < 8 + length {
            return Ok(None);
        }
        input.advance(8);
        let payload = input.split_to(length);
        let fin = flags & FIN != 0;
        let frame = match word as u16 {
            SYN_STREAM => {
                let (id, rest) = stream_id(&payload, 10)?;
                Frame::SynStream { id, fin, headers: self.headers.decompress(rest)? }
            }
            SYN_REPLY => {
                let (id, rest) = stream_id(&payload, 4)?;
                Frame::SynReply { id, fin, headers: self.headers.decompress(rest)? }
            }
            HEADERS => {
                let (id, rest) = stream_id(&payload, 4)?;
                Frame::Headers { id, fin, headers: self.headers.decompress(rest)? }
            }
            RST_STREAM => {
                let (id, status) = pair(&payload)?;
                if status == 0 || id == 0 {
                    return Err(FrameError::Control);
                }
                Frame::RstStream { id, status }
            }
            SETTINGS => {
                let count = payload.get(..4).map(|mut count| count.get_u32() as usize);
                if count.is_none_or(|count| count > (payload.len() - 4) / 8) {
                    return Err(FrameError::Control);
                }
                Frame::Settings
            }
            PING => {
                let id = <[u8; 4]>::try_from(&payload[..]).map_err(|_| FrameError::Control)?;
                match u32::from_be_bytes(id) {
                    0 => return Err(FrameError::ZeroStream),
                    _ if flags != 0 => return Err(FrameError::Control),
                    id => Frame::Ping(id),
                }
            }
            GOAWAY if flags == 0 => {
                let (last_stream, status) = pair(&payload)?;
                Frame::GoAway { last_stream, status }
            }
            WINDOW_UPDATE if flags == 0 => {
                let (id, delta) = pair(&payload)?;
                Frame::WindowUpdate { id, delta }
            }
            _ => return Err(FrameError::Control),
        };
        Ok(Some(frame))
    }
}

/// The stream of a frame with headers, and the headers, which follow `fixed` bytes.
fn stream_id(payload: &[u8], fixed: usize) -> Result<(u32, &[u8]), FrameError> {
    let rest = payload.get(fixed..).ok_or(FrameError::Control)?;
    let id = (&payload[..4]).get_u32() & 0x7fff_ffff;
    if id == 0 { Err(FrameError::ZeroStream) } else { Ok((id, rest)) }
}

fn pair(payload: &[u8]) -> Result<(u32, u32), FrameError> {
    if payload.len() != 8 {
        return Err(FrameError::Control);
    }
    let mut payload = payload;
    Ok((payload.get_u32() & 0x7fff_ffff, payload.get_u32()))
}

pub struct Encoder {
    headers: Compressor,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { headers: Compressor::new() }
    }
}

impl Encoder {
    /// Appends a frame. Header blocks are compressed in the order of these calls, which must be that of the wire.
    pub fn encode(&mut self, frame: &Frame, output: &mut BytesMut) {
        match frame {
            Frame::SynStream { id, fin, headers } => {
                let mut payload = BytesMut::new();
                payload.put_u32(*id);
                // No associated stream; the highest priority; no credential slot.
                payload.put_slice(&[0; 6]);
                self.headers.compress(headers, &mut payload);
                control(SYN_STREAM, *fin, &payload, output);
            }
            Frame::SynReply { id, fin, headers } => self.with_headers(SYN_REPLY, *id, *fin, headers, output),
            Frame::Headers { id, fin, headers } => self.with_headers(HEADERS, *id, *fin, headers, output),
            Frame::RstStream { id, status } => numbers(RST_STREAM, &[*id, *status], output),
            Frame::Settings => numbers(SETTINGS, &[0], output),
            Frame::Ping(id) => numbers(PING, &[*id], output),
            Frame::GoAway { last_stream, status } => numbers(GOAWAY, &[*last_stream, *status], output),
            Frame::WindowUpdate { id, delta } => numbers(WINDOW_UPDATE, &[*id, *delta], output),
            Frame::Data { id, fin, data } => {
                output.put_u32(*id);
                output.put_u32((u32::from(*fin) << 24) | data.len() as u32);
                output.put_slice(data);
            }
        }
    }

    fn with_headers(&mut self, kind: u16, id: u32, fin: bool, headers: &Headers, output: &mut BytesMut) {
        let mut payload = BytesMut::new();
        payload.put_u32(id);
        self.headers.compress(headers, &mut payload);
        control(kind, fin, &payload, output);
    }
}

fn control(kind: u16, fin: bool, payload: &[u8], output: &mut BytesMut) {
    output.put_u16(0x8000 | VERSION);
    output.put_u16(kind);
    output.put_u32((u32::from(fin) << 24) | payload.len() as u32);
    output.put_slice(payload);
}

fn numbers(kind: u16, numbers: &[u32], output: &mut BytesMut) {
    let payload: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    control(kind, false, &payload, output);
}

#[cfg(test)]
mod tests;
