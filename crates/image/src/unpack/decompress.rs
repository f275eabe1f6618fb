//! The compressions of layers, told by their first bytes, as media types lie.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

const GZIP: &[u8] = &[0x1f, 0x8b, 0x08];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Frames that are no content have one of sixteen magic numbers, which end like this.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];
/// The largest window `zstd --ultra --long=27` writes: so much memory a layer may take.
const MAX_WINDOW: u64 = 128 << 20;

/// Plain bytes of a source that may be compressed.
pub(crate) enum Decoder<R: BufRead> {
    Plain(R),
    Gzip(Box<MultiGzDecoder<R>>),
    Zstd(Box<Zstd<R>>),
}

impl<R: BufRead> Decoder<R> {
    pub fn new(mut source: R) -> io::Result<Decoder<R>> {
        let start = source.fill_buf()?;
        let skippable =
            start.first().is_some_and(|b| b & 0xf0 == 0x50) && start[1..].starts_with(ZSTD_SKIPPABLE);
        if start.starts_with(GZIP) {
            Ok(Decoder::Gzip(Box::new(MultiGzDecoder::new(source))))
        } else if start.starts_with(ZSTD) || skippable {
            let mut frame = FrameDecoder::new();
            frame.set_max_window_size(MAX_WINDOW);
            Ok(Decoder::Zstd(Box::new(Zstd { source, frame, open: false })))
        } else {
            Ok(Decoder::Plain(source))
        }
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Decoder::Plain(source) => source.read(buffer),
            Decoder::Gzip(source) => source.read(buffer),
            Decoder::Zstd(source) => source.read(buffer),
        }
    }
}

/// All frames of a source, one after the other.
pub(crate) struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    /// A frame is being read.
    open: bool,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.open {
                while self.frame.can_collect() == 0 && !self.frame.is_finished() {
                    self.frame.decode_blocks(&mut self.source, UptoBlocks(1)).map_err(broken)?;
                }
                let count = self.frame.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
                let (said, is) = (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum());
                if said.is_some() && is.is_some() && said != is {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "zstd: wrong checksum"));
                }
                self.open = false;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.frame.reset(&mut self.source) {
                Ok(()) => self.open = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? != length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

fn broken(error: FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"))
}
