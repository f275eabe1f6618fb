//! The unit of every file: a checksummed frame, and a reader that tells a torn write from damage.
//!
//! ```text
//!  length u32 │ crc32c(payload) u32 │ crc32c(the 8 bytes before) u32 │ payload │ END (4 bytes, none of them 0)
//! ```
//!
//! Files are only ever appended to, one batch at a time, and a batch is acknowledged after its fsync. So a
//! crash can leave the *last* batch cut short, or (the file grew, the data did not arrive) ending in zeros.
//! Everything else that does not fit is damage. `END` keeps the two apart: a complete frame never ends in a
//! zero, whatever its payload, so zeros up to the end of the file that cover a whole `END` were never
//! acknowledged; one flipped byte cannot look like that.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

pub(super) const HEADER: usize = 12;
pub(super) const END: [u8; 4] = [0xe5, 0x0d, 0xa7, 0x5a];

/// Starts a frame in `buffer`; the payload is whatever is added before [`finish`].
pub(super) fn begin(buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER]);
    start
}

/// Completes the frame that began at `start`.
pub(super) fn finish(buffer: &mut Vec<u8>, start: usize) {
    let payload = &buffer[start + HEADER..];
    let length = u32::try_from(payload.len()).expect("commits are bounded far below 4 GiB");
    let checksum = crc32c::crc32c(payload);
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
    let own = crc32c::crc32c(&header[..8]);
    header[8..].copy_from_slice(&own.to_le_bytes());
    buffer[start..start + HEADER].copy_from_slice(&header);
    buffer.extend_from_slice(&END);
}

/// Why the frame at `offset` cannot be read.
#[derive(Debug)]
pub(super) struct Fault {
    pub offset: u64,
    pub kind: FaultKind,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    /// The file ends inside the frame, or from inside it there are only zeros: an interrupted write.
    Torn,
    Damaged(&'static str),
    Io(io::Error),
}

/// Reads a file frame by frame.
pub(super) struct Frames {
    file: BufReader<File>,
    length: u64,
    /// Where the next frame begins.
    offset: u64,
    payload: Vec<u8>,
}

impl Frames {
    pub(super) fn open(path: &Path) -> io::Result<Frames> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Frames { file: BufReader::with_capacity(256 << 10, file), length, offset: 0, payload: Vec::new() })
    }

    /// Where the next frame begins, or where the good part of the file ends.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The next payload and the offset it begins at; `None` at the end. Not to be called after a fault.
    pub(super) fn next(&mut self) -> Result<Option<(u64, &[u8])>, Fault> {
        let start = self.offset;
        let fault = |kind| Fault { offset: start, kind };
        let left = self.length - start;
        if left == 0 {
            return Ok(None);
        }
        if left < HEADER as u64 {
            return Err(fault(FaultKind::Torn));
        }
        let mut header = [0; HEADER];
        self.file.read_exact(&mut header).map_err(|e| fault(FaultKind::Io(e)))?;
        let [length, checksum, own] = [0, 4, 8]
            .map(|at| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
        if crc32c::crc32c(&header[..8]) != own {
            return Err(self.torn_or(
                "the header's checksum does not match",
                start,
                start + HEADER as u64 - 1,
            ));
        }
        let end = start + (HEADER + END.len()) as u64 + u64::from(length);
        if end > self.length {
            return Err(fault(FaultKind::Torn));
        }
        self.payload.resize(length as usize, 0);
        self.file.read_exact(&mut self.payload).map_err(|e| fault(FaultKind::Io(e)))?;
        let mut mark = [0; END.len()];
        self.file.read_exact(&mut mark).map_err(|e| fault(FaultKind::Io(e)))?;
        let zeros_by = end - END.len() as u64;
        if crc32c::crc32c(&self.payload) != checksum {
            return Err(self.torn_or("the payload's checksum does not match", start, zeros_by));
        }
        if mark != END {
            return Err(self.torn_or("the end mark is missing", start, zeros_by));
        }
        self.offset = end;
        Ok(Some((start + HEADER as u64, &self.payload)))
    }

    /// Torn if everything from `zeros_by` (at the latest) to the end of the file is zero, else damaged.
    fn torn_or(&mut self, what: &'static str, start: u64, zeros_by: u64) -> Fault {
        let kind = match self.zeros_from(zeros_by) {
            Ok(true) => FaultKind::Torn,
            Ok(false) => FaultKind::Damaged(what),
            Err(error) => FaultKind::Io(error),
        };
        Fault { offset: start, kind }
    }

    fn zeros_from(&mut self, offset: u64) -> io::Result<bool> {
        self.file.seek(SeekFrom::Start(offset))?;
        let mut chunk = [0; 16 << 10];
        loop {
            match self.file.read(&mut chunk)? {
                0 => return Ok(true),
                n if chunk[..n].iter().any(|byte| *byte != 0) => return Ok(false),
                _ => {}
            }
        }
    }
}
