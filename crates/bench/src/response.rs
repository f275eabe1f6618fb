//! Frames HTTP/1.1 responses: reads the status line and the length of the body, and nothing else.

use memchr::{memchr, memmem};

/// A head larger than this is not an API server's.
const MAX_HEAD: usize = 64 * 1024;
/// 15 hexadecimal digits, so that a chunk's size cannot overflow.
const MAX_CHUNK_SIZE: u64 = 1 << 60;

/// One response after another on one connection. Feed it what arrives, in any pieces.
pub struct Response {
    state: State,
    /// The part of a head that arrived without its end; empty when a head comes whole, which is the usual case.
    partial_head: Vec<u8>,
    status: u16,
    closes: bool,
    /// Of a 429.
    retry_after_seconds: Option<u64>,
    /// Only if requested: a measurement does not need them.
    headers: Option<Vec<(String, String)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// This many bytes of a body with a content-length are still to come.
    Length(u64),
    /// Inside the line with a chunk's size; `digits` are done once a `;` or blank is seen.
    ChunkSize {
        size: u64,
        digits: bool,
    },
    Chunk(u64),
    /// The line end after a chunk's bytes.
    ChunkEnd,
    /// Trailer lines after the last chunk; `blank` while the current line has no characters yet.
    Trailer {
        blank: bool,
    },
    UntilClose,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an HTTP/1.1 response: {0}")]
pub struct BadResponse(&'static str);

impl Response {
    pub fn new() -> Self {
        Response {
            state: State::Head,
            partial_head: Vec::new(),
            status: 0,
            closes: false,
            retry_after_seconds: None,
            headers: None,
        }
    }

    /// Keeps the headers of the responses that follow.
    pub fn keep_headers(&mut self) {
        self.headers = Some(Vec::new());
    }

    /// The headers of the response just read, if they were to be kept.
    pub fn take_headers(&mut self) -> Vec<(String, String)> {
        self.headers.take().unwrap_or_default()
    }

    /// Gets ready for the next response on the same connection.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial_head.clear();
        self.status = 0;
        self.retry_after_seconds = None;
    }

    /// The status code; 0 until the head is complete.
    pub fn status(&self) -> u16 {
        self.status
    }

    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the server will close the connection after this response.
    pub fn closes(&self) -> bool {
        self.closes
    }

    /// How long a 429 asks to wait; `None` when it does not say, and for every other answer.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after_seconds
    }

    /// The connection ended. True when that is a proper end of the response.
    pub fn end_of_stream(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// Takes bytes up to the end of the response, hands pieces of the body with the status to `body`, and returns how many
    /// bytes belonged to this response.
    pub fn feed(&mut self, input: &[u8], body: &mut impl FnMut(u16, &[u8])) -> Result<usize, BadResponse> {
        let mut rest = input;
        while !rest.is_empty() && self.state != State::Done {
            let used = match self.state {
                State::Head => self.head(rest)?,
                State::Length(left) => {
                    let piece = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    body(self.status, &rest[..piece]);
                    let left = left - piece as u64;
                    self.state = if left == 0 { State::Done } else { State::Length(left) };
                    piece
                }
                State::ChunkSize { size, digits } => self.chunk_size(rest[0], size, digits)?,
                State::Chunk(left) => {
                    let piece = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    body(self.status, &rest[..piece]);
                    let left = left - piece as u64;
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    piece
                }
                State::ChunkEnd => {
                    match rest[0] {
                        b'\r' => {}
                        b'\n' => self.state = State::ChunkSize { size: 0, digits: true },
                        _ => return Err(BadResponse("a chunk does not end where its size says")),
                    }
                    1
                }
                State::Trailer { blank } => {
                    self.state = match rest[0] {
                        b'\n' if blank => State::Done,
                        b'\n' => State::Trailer { blank: true },
                        b'\r' => State::Trailer { blank },
                        _ => State::Trailer { blank: false },
                    };
                    1
                }
                State::UntilClose => {
                    body(self.status, rest);
                    rest.len()
                }
                State::Done => 0,
            };
            rest = &rest[used..];
        }
        Ok(input.len() - rest.len())
    }

    fn chunk_size(&mut self, byte: u8, size: u64, digits: bool) -> Result<usize, BadResponse> {
        self.state = match byte {
            b'\n' if size == 0 => State::Trailer { blank: true },
            b'\n' => State::Chunk(size),
            _ if !digits => return Ok(1),
            b'\r' | b';' | b' ' => State::ChunkSize { size, digits: false },
            _ => {
                let digit =
                    (byte as char).to_digit(16).ok_or(BadResponse("a chunk's size is not a number"))?;
                let size = size * 16 + u64::from(digit);
                if size >= MAX_CHUNK_SIZE {
                    return Err(BadResponse("a chunk is too large"));
                }
                State::ChunkSize { size, digits: true }
            }
        };
        Ok(1)
    }

    fn head(&mut self, input: &[u8]) -> Result<usize, BadResponse> {
        if self.partial_head.is_empty() {
            if let Some(end) = head_end(input) {
                self.read_head(&input[..end])?;
                return Ok(end);
            }
            if input.len() > MAX_HEAD {
                return Err(BadResponse("its head has no end"));
            }
            self.partial_head.extend_from_slice(input);
            return Ok(input.len());
        }
        let mut head = std::mem::take(&mut self.partial_head);
        let before = head.len();
        head.extend_from_slice(input);
        match head_end(&head) {
            Some(end) => {
                self.read_head(&head[..end])?;
                Ok(end - before)
            }
            None if head.len() > MAX_HEAD => Err(BadResponse("its head has no end")),
            None => {
                self.partial_head = head;
                Ok(input.len())
            }
        }
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), BadResponse> {
        let code = match head {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', a, b, c, ..] => [a, b, c],
            _ => return Err(BadResponse("it does not begin with HTTP/1.1 and a status code")),
        };
        let mut status = 0u16;
        for digit in code {
            if !digit.is_ascii_digit() {
                return Err(BadResponse("its status code is not a number"));
            }
            status = status * 10 + u16::from(digit - b'0');
        }
        if (100..200).contains(&status) {
            // "100 Continue" and its like come before the real response.
            return Ok(());
        }
        let (mut length, mut chunked, mut closes) = (None, false, head[7] == b'0');
        let mut lines = head;
        while let Some(end) = memchr(b'\n', lines) {
            let line = &lines[..end];
            lines = &lines[end + 1..];
            if let Some(headers) = &mut self.headers
                && let Some((name, value)) = String::from_utf8_lossy(line).split_once(':')
            {
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
            if let Some(value) = header(line, b"content-length") {
                let digits = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
                length = Some(digits.ok_or(BadResponse("its content-length is not a number"))?);
            } else if let Some(value) = header(line, b"transfer-encoding") {
                chunked = value.eq_ignore_ascii_case(b"chunked");
            } else if let Some(value) = header(line, b"connection") {
                closes |= value.eq_ignore_ascii_case(b"close");
            } else if status == 429
                && let Some(value) = header(line, b"retry-after")
            {
                self.retry_after_seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
        }
        self.status = status;
        self.closes = closes;
        self.state = match length {
            _ if status == 204 || status == 304 => State::Done,
            _ if chunked => State::ChunkSize { size: 0, digits: true },
            Some(0) => State::Done,
            Some(length) => State::Length(length),
            None => State::UntilClose,
        };
        Ok(())
    }
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// The value of `line` if it is the header `name` (in lower case).
fn header<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if line.len() <= name.len() || line[name.len()] != b':' || !line[..name.len()].eq_ignore_ascii_case(name)
    {
        return None;
    }
    Some(line[name.len() + 1..].trim_ascii())
}

#[cfg(test)]
mod tests;
