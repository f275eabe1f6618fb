//! The size of a terminal: JSON objects one after the other on a stream.

use std::io;

use serde_json::{Deserializer, Value};

use crate::Stream;

/// Of an object not complete yet.
const MAX_OBJECT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

/// The sizes a client sends.
pub struct Resizes {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Resizes {
    pub(super) fn new(stream: Stream) -> Resizes {
        Resizes { stream, buffer: Vec::new() }
    }

    /// The next size; none after the last, or after one that cannot be read.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            let mut objects = Deserializer::from_slice(&self.buffer).into_iter::<Value>();
            match objects.next() {
                Some(Ok(object)) => {
                    let read = objects.byte_offset();
                    self.buffer.drain(..read);
                    return size(&object);
                }
                Some(Err(error)) if !error.is_eof() || self.buffer.len() > MAX_OBJECT => return None,
                _ => {}
            }
            let piece = self.stream.chunk().await.ok()?;
            if piece.is_empty() {
                return None;
            }
            self.buffer.extend_from_slice(&piece);
        }
    }

    pub(crate) fn into_stream(self) -> Stream {
        self.stream
    }
}

/// Names count in any case, and one that is missing is 0, as Go's decoder has it.
fn size(object: &Value) -> Option<TerminalSize> {
    let mut size = TerminalSize { width: 0, height: 0 };
    for (name, value) in object.as_object()? {
        let field = match () {
            () if name.eq_ignore_ascii_case("width") => &mut size.width,
            () if name.eq_ignore_ascii_case("height") => &mut size.height,
            () => continue,
        };
        *field = u16::try_from(value.as_u64()?).ok()?;
    }
    Some(size)
}

/// Sends sizes to a server.
pub struct ResizeSender(Stream);

impl ResizeSender {
    pub(super) fn new(stream: Stream) -> ResizeSender {
        ResizeSender(stream)
    }

    pub async fn send(&self, size: TerminalSize) -> io::Result<()> {
        let TerminalSize { width, height } = size;
        self.0.send(format!("{{\"Width\":{width},\"Height\":{height}}}\n").as_bytes()).await
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0
    }
}
