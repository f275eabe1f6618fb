//! The headers of a stream, and their compression: one zlib stream per direction for the life of a connection.

mod dictionary;

use bytes::{Buf, BufMut, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::frame::FrameError;

/// Of a header block, decompressed: a stream of ours has three short headers.
const MAX_BLOCK: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

/// Names are lower case; of several values of one name, SPDY joins them with NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn new<const N: usize>(pairs: [(&str, &str); N]) -> Headers {
        Headers(pairs.iter().map(|(name, value)| (name.to_ascii_lowercase(), (*value).to_owned())).collect())
    }

    /// The first value of a header, whose name is compared without regard to case; empty if there is none.
    pub fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.split('\0').next().unwrap_or_default())
    }
}

pub(super) struct Compressor(Compress);

impl Compressor {
    pub(super) fn new() -> Compressor {
        let mut zlib = Compress::new(Compression::best(), true);
        zlib.set_dictionary(&dictionary::dictionary()).expect("a new compressor takes a dictionary");
        Compressor(zlib)
    }

    /// Appends the compressed block of `headers`.
    pub(super) fn compress(&mut self, headers: &Headers, output: &mut BytesMut) {
        let mut block = Vec::new();
        block.put_u32(headers.0.len() as u32);
        for text in headers.0.iter().flat_map(|(name, value)| [name, value]) {
            block.put_u32(text.len() as u32);
            block.put_slice(text.as_bytes());
        }
        let mut compressed = Vec::with_capacity(block.len() + 64);
        let start = self.0.total_in();
        loop {
            let done = (self.0.total_in() - start) as usize;
            self.0
                .compress_vec(&block[done..], &mut compressed, FlushCompress::Sync)
                .expect("compression into memory cannot fail");
            // Room left over means that the flush is complete.
            if compressed.len() < compressed.capacity() {
                break;
            }
            compressed.reserve(256);
        }
        output.put_slice(&compressed);
    }
}

pub(super) struct Decompressor(Decompress);

impl Decompressor {
    pub(super) fn new() -> Decompressor {
        Decompressor(Decompress::new(true))
    }

    pub(super) fn decompress(&mut self, compressed: &[u8]) -> Result<Headers, FrameError> {
        parse(&self.inflate(compressed)?)
    }

    fn inflate(&mut self, mut input: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut block = Vec::with_capacity(1024);
        while !input.is_empty() || block.len() == block.capacity() {
            if block.len() >= MAX_BLOCK {
                return Err(FrameError::HeadersTooLarge);
            }
            if block.len() == block.capacity() {
                block.reserve(block.len());
            }
            let (start, filled) = (self.0.total_in(), block.len());
            let result = self.0.decompress_vec(input, &mut block, FlushDecompress::Sync);
            let consumed = (self.0.total_in() - start) as usize;
            input = &input[consumed..];
            match result {
                Err(error) if error.needs_dictionary().is_some() => {
                    let set = self.0.set_dictionary(&dictionary::dictionary());
                    set.map_err(|_| FrameError::Compression)?;
                }
                Ok(flate2::Status::Ok) if consumed > 0 || block.len() > filled => {}
                // Nothing consumed, nothing produced: the last piece just filled the buffer.
                Ok(flate2::Status::BufError | flate2::Status::Ok) if input.is_empty() => break,
                // A stream that ends, or stalls, cannot carry the next headers.
                _ => return Err(FrameError::Compression),
            }
        }
        Ok(block)
    }
}

fn parse(mut block: &[u8]) -> Result<Headers, FrameError> {
    let count = number(&mut block)?;
    if count > MAX_HEADERS {
        return Err(FrameError::HeadersTooLarge);
    }
    let mut headers: Vec<(String, String)> = Vec::with_capacity(count);
    for _ in 0..count {
        let name = text(&mut block)?;
        let value = text(&mut block)?;
        if name.bytes().any(|b| b.is_ascii_uppercase()) || headers.iter().any(|(known, _)| *known == name) {
            return Err(FrameError::Headers);
        }
        headers.push((name, value));
    }
    if block.is_empty() { Ok(Headers(headers)) } else { Err(FrameError::Headers) }
}

fn number(block: &mut &[u8]) -> Result<usize, FrameError> {
    if block.len() < 4 {
        return Err(FrameError::Headers);
    }
    Ok(block.get_u32() as usize)
}

fn text(block: &mut &[u8]) -> Result<String, FrameError> {
    let length = number(block)?;
    let bytes = block.split_off(..length).ok_or(FrameError::Headers)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| FrameError::Headers)
}

#[cfg(test)]
mod tests;
