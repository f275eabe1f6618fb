//! The unit of every file: a checksummed frame, and a reader that tells a torn write from damage.
//!
//! ```text
//!  frame  length u32 │ crc32c(payload) u32 │ marks u32 │ crc32c(the 12 bytes before) u32 │ payload │ END
//!  batch  frame │ frame │ ... │ PAD up to the next sector      (END and PAD hold no zero byte)
//!  log    batch │ batch │ ... │ zeros: space for what comes next
//! ```
//!
//! A log is written one batch at a time, each in sectors of its own, over zeros. A batch is acknowledged after
//! its fsync, and the next one is written after that. So a crash can leave the *last* batch cut short, or
//! some of its sectors still zero; everything else that does not fit is damage. Two marks in the header keep the
//! two apart: the first frame of a batch is marked, so everything before it was acknowledged; and
//! every frame says how many of its sectors are zero because its payload is (`blank`), so one zero sector
//! more was never written. One flipped byte cannot look like that.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(super) const HEADER: usize = 16;
pub(super) const END: [u8; 4] = [0xe5, 0x0d, 0xa7, 0x5a];
/// What a disk writes as a whole or not at all; most write more.
pub(super) const SECTOR: usize = 512;
const PAD: u8 = 0xb9;
/// Of the marks: this frame begins a batch. The other bits count blank sectors.
const FIRST: u32 = 1 << 31;

/// Starts a frame in `buffer`; the payload is whatever is added before [`finish`].
pub(super) fn begin(buffer: &mut Vec<u8>) -> usize {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER]);
    start
}

/// Completes the frame that began at `start`. The buffer's own start is a batch's, at a sector boundary (in a
/// snapshot it is neither, but there nothing may be torn and the marks are not read).
pub(super) fn finish(buffer: &mut Vec<u8>, start: usize) {
    let payload = &buffer[start + HEADER..];
    let length = u32::try_from(payload.len()).expect("commits are bounded far below 4 GiB");
    let checksum = crc32c::crc32c(payload);
    let first = if start == 0 { FIRST } else { 0 };
    let whole_sectors =
        buffer[(start + HEADER).next_multiple_of(SECTOR).min(buffer.len())..].chunks_exact(SECTOR);
    // One byte that is not zero does not count: it could be the one that flips.
    let blank =
        whole_sectors.filter(|sector| sector.iter().filter(|byte| **byte != 0).nth(1).is_none()).count();
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length.to_le_bytes());
    header[4..8].copy_from_slice(&checksum.to_le_bytes());
    header[8..12].copy_from_slice(&(first | blank as u32).to_le_bytes());
    let own = crc32c::crc32c(&header[..12]);
    header[12..].copy_from_slice(&own.to_le_bytes());
    buffer[start..start + HEADER].copy_from_slice(&header);
    buffer.extend_from_slice(&END);
}

/// Completes a batch: what follows it shares no sector with it.
pub(super) fn pad(buffer: &mut Vec<u8>) {
    buffer.resize(buffer.len().next_multiple_of(SECTOR), PAD);
}

/// The same for a file of this length.
pub(super) fn padding(length: u64) -> Vec<u8> {
    vec![PAD; (length.next_multiple_of(SECTOR as u64) - length) as usize]
}

struct Header {
    length: u32,
    checksum: u32,
    first: bool,
    blank: u32,
}

impl Header {
    /// `None` when its own checksum is wrong, as that of zeros is.
    fn decode(bytes: &[u8; HEADER]) -> Option<Header> {
        let [length, checksum, marks, own] = [0, 4, 8, 12]
            .map(|at| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]));
        let header = Header { length, checksum, first: marks & FIRST != 0, blank: marks & !FIRST };
        (crc32c::crc32c(&bytes[..12]) == own).then_some(header)
    }

    /// Of a frame that begins at `start`.
    fn end(&self, start: u64) -> u64 {
        start + (HEADER + END.len()) as u64 + u64::from(self.length)
    }
}

/// Why the frame at `offset` cannot be read.
#[derive(Debug)]
pub(super) struct Fault {
    pub offset: u64,
    pub kind: FaultKind,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    /// The file ends inside the frame, or a sector of it was never written: an interrupted write.
    Torn,
    Damaged(&'static str),
    Io(io::Error),
}

/// A payload, and the offset it begins at.
type Frame<'a> = (u64, &'a [u8]);

/// Reads a file frame by frame.
pub(super) struct Frames {
    file: BufReader<File>,
    length: u64,
    /// Where the last frame ended. The next one begins here, or after padding.
    offset: u64,
    /// Position of the reader.
    position: u64,
    payload: Vec<u8>,
}

impl Frames {
    pub(super) fn open(path: &Path) -> io::Result<Frames> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let file = BufReader::with_capacity(256 << 10, file);
        Ok(Frames { file, length, offset: 0, position: 0, payload: Vec::new() })
    }

    /// Where the last frame ended: the good part of the file, but for padding.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Discards what was buffered after the last good frame: somebody may have written there since.
    pub(super) fn reread(&mut self) -> io::Result<()> {
        self.length = self.file.get_ref().metadata()?.len();
        // Unlike a relative one, this empties the buffer.
        self.position = self.file.seek(io::SeekFrom::Start(self.offset))?;
        Ok(())
    }

    /// The next payload; `None` at the end, or when only zeros follow. After a fault only
    /// [`Frames::reread`] may follow.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, Fault> {
        let at = self.offset;
        self.read_next().map_err(|error| Fault { offset: at, kind: FaultKind::Io(error) })?
    }

    /// The outer error is one of reading.
    fn read_next(&mut self) -> io::Result<Result<Option<Frame<'_>>, Fault>> {
        let mut start = self.offset;
        let mut found = self.header(start)?;
        if found.is_none() && self.is_padding(start)? {
            start = start.next_multiple_of(SECTOR as u64);
            found = self.header(start)?;
        }
        let fault = |kind| Ok(Err(Fault { offset: start, kind }));
        let Some(header) = found else {
            if self.is_all_zero(start)? {
                return Ok(Ok(None));
            }
            let never = start + HEADER as u64 > self.length || self.never_written(start, None)?;
            return fault(match never {
                true => FaultKind::Torn,
                false => FaultKind::Damaged("the header's checksum does not match"),
            });
        };
        let end = header.end(start);
        if end > self.length {
            return fault(FaultKind::Torn);
        }
        self.payload.resize(header.length as usize, 0);
        self.file.read_exact(&mut self.payload)?;
        let mut mark = [0; END.len()];
        self.file.read_exact(&mut mark)?;
        self.position = end;
        let what = match crc32c::crc32c(&self.payload) == header.checksum {
            true if mark == END => {
                self.offset = end;
                return Ok(Ok(Some((start + HEADER as u64, &self.payload))));
            }
            true => "the end mark is missing",
            false => "the payload's checksum does not match",
        };
        fault(match self.never_written(start, Some(header))? {
            true => FaultKind::Torn,
            false => FaultKind::Damaged(what),
        })
    }

    /// `None`: there is no good one.
    fn header(&mut self, offset: u64) -> io::Result<Option<Header>> {
        if self.length < offset + HEADER as u64 {
            return Ok(None);
        }
        let mut bytes = [0; HEADER];
        self.read_at(offset, &mut bytes)?;
        Ok(Header::decode(&bytes))
    }

    /// Up to the next sector, or the end of the file.
    fn is_padding(&mut self, from: u64) -> io::Result<bool> {
        let to = from.next_multiple_of(SECTOR as u64).min(self.length);
        let mut bytes = [0; SECTOR];
        let bytes = &mut bytes[..(to - from) as usize];
        self.read_at(from, bytes)?;
        Ok(bytes.iter().all(|byte| *byte == PAD))
    }

    /// Through the buffer, which a relative seek keeps.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.seek_relative(offset as i64 - self.position as i64)?;
        self.file.read_exact(bytes)?;
        self.position = offset + bytes.len() as u64;
        Ok(())
    }

    /// Whether the frame at `start`, of which only a good header is known, is one of a batch that was never
    /// acknowledged, because part of it was never written.
    fn never_written(&self, start: u64, header: Option<Header>) -> io::Result<bool> {
        let (zeros_by, end, blank) = match header {
            Some(header) => (header.end(start) - END.len() as u64, header.end(start), header.blank),
            None => (start + HEADER as u64 - 1, start + HEADER as u64, 0),
        };
        if self.is_all_zero(zeros_by)? {
            return Ok(true);
        }
        let (mut zero, mut acknowledged) = (0, false);
        self.sectors(start / SECTOR as u64 * SECTOR as u64, |offset, sector| {
            zero += u32::from(offset < end && sector.iter().all(|byte| *byte == 0));
            let header = sector.first_chunk().and_then(Header::decode);
            acknowledged |= offset > start && header.is_some_and(|header| header.first);
            !acknowledged
        })?;
        Ok(zero > blank && !acknowledged)
    }

    fn is_all_zero(&self, from: u64) -> io::Result<bool> {
        let mut all = true;
        self.sectors(from, |_, bytes| {
            all = bytes.iter().all(|byte| *byte == 0);
            all
        })?;
        Ok(all)
    }

    /// Hands out the rest of the file in pieces of a sector (the last may be shorter), until `more` says no.
    /// Does not move the reader.
    fn sectors(&self, from: u64, mut more: impl FnMut(u64, &[u8]) -> bool) -> io::Result<()> {
        let mut chunk = [0; 32 * SECTOR];
        let mut offset = from;
        while offset < self.length {
            let wanted = chunk.len().min((self.length - offset) as usize);
            self.file.get_ref().read_exact_at(&mut chunk[..wanted], offset)?;
            for (i, sector) in chunk[..wanted].chunks(SECTOR).enumerate() {
                if !more(offset + (i * SECTOR) as u64, sector) {
                    return Ok(());
                }
            }
            offset += wanted as u64;
        }
        Ok(())
    }
}
