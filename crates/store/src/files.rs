//! The disk: a checksummed log with snapshots in one directory. See docs/adr/0003-disk-log.md.
//!
//! ```text
//!  FORMAT      the number of this layout
//!  LOCK        flock; who holds it, or that the last shutdown was clean, and where the log ended then
//!  MANIFEST    which of the files below make up the store, with a checksum
//!  snapshot-R  all entries as of revision R, in key order
//!  log-F       commits from revision F on; only the last one is written to
//!  place-N     its own inode, which differs in a copy
//!  RESERVE     reserved disk space, so that objects can be deleted when the disk is full
//!  MOVE        the revision that the store has to be advanced to before it is used
//!  log-F.damaged  the log before a repair; never read
//! ```
//!
//! Opening either finds every acknowledged commit or fails and says what is wrong with which file. The only
//! thing discarded (with a warning) is an interrupted write at the very end: see [`frame`].

use std::io;
use std::path::{Path, PathBuf};

use crate::contract::{Change, Entry, Revision};
use crate::durable::{Durable, DurableError, Loaded};
use directory::Lock;
use open::Purpose;
use writer::Writer;

mod backoff;
mod backup;
mod compaction;
mod directory;
mod error;
mod frame;
mod identity;
mod log_end;
mod manifest;
mod merge;
mod open;
mod read;
mod record;
mod reserved_space;
mod revision_jump;
mod rotate;
mod snapshot_writer;
mod tail;
#[cfg(test)]
mod tests;
mod writer;

pub use backup::{Backup, BackupFile, read_unlocked};
pub use error::OpenError;

/// The layout this program writes, and the only one it reads.
const FORMAT: u32 = 2;

/// The durable layer on disk. Opens or creates its directory when it is loaded.
pub struct Files {
    dir: PathBuf,
    /// The log is compacted when it is longer than this, and than the last snapshot.
    snapshot_log_bytes: u64,
    /// Whether a batch is synced before `append` returns.
    sync: bool,
    /// From `load` to `close`.
    writer: Option<Writer>,
}

impl Files {
    pub fn new(dir: &Path, snapshot_log_bytes: u64) -> Files {
        Files { dir: dir.to_owned(), snapshot_log_bytes, sync: true, writer: None }
    }

    pub fn sync(self, sync: bool) -> Files {
        Files { sync, ..self }
    }
}

impl Durable for Files {
    fn load(&mut self, each: &mut dyn FnMut(Entry)) -> Result<Loaded, DurableError> {
        if self.writer.is_some() {
            return Err(DurableError::NotWritten("it was loaded before".to_owned()));
        }
        let mut opened = open::open(&self.dir, self.snapshot_log_bytes, Purpose::Use, each)?;
        opened.writer.tail.sync(self.sync);
        self.writer = Some(opened.writer);
        Ok(opened.loaded)
    }

    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        match &mut self.writer {
            Some(writer) => writer.append(batch),
            None => Err(DurableError::NotWritten("it is not loaded".to_owned())),
        }
    }

    fn full(&mut self) -> Option<String> {
        self.writer.as_mut().and_then(Writer::full)
    }

    fn close(&mut self) {
        // Dropping it closes it.
        self.writer = None;
    }
}

/// `Err` while some process uses the directory; for tools that are about to delete it.
pub fn check_unused(dir: &Path) -> Result<(), OpenError> {
    Lock::take(dir).map(drop)
}

/// What [`repair`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The last revision that could be read.
    pub kept: Revision,
    /// Where the store resumes.
    pub revision: Revision,
    /// Where the damaged log is kept, if there was one.
    pub damaged: Option<PathBuf>,
}

/// Truncates a damaged log, and advances the revision past everything that may have been lost. For an administrator who decides
/// to; also for a directory that was restored in a way that leaves no trace (a volume snapshot).
pub fn repair(dir: &Path) -> Result<Repaired, OpenError> {
    if !directory::check_format(dir)? {
        let path = dir.join(directory::FORMAT_FILE);
        return Err(OpenError::Missing { path });
    }
    open::open(dir, u64::MAX, Purpose::Repair, &mut |_| {}).map(|opened| opened.repaired)
}

fn create_segment(dir: &Path, first: Revision) -> io::Result<PathBuf> {
    let path = directory::segment(dir, first);
    let mut start = Vec::new();
    record::encode_start(&mut start, record::SEGMENT_MAGIC, first);
    frame::pad(&mut start);
    directory::write_whole(&path, &start)?;
    Ok(path)
}

/// Its start takes a sector of its own, as every batch does.
const fn empty_segment_bytes() -> u64 {
    frame::SECTOR as u64
}

/// Appends the text's checksum as its last line.
fn with_checksum(mut text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("crc32c {checksum:08x}\n"));
    text
}

/// The text without that line; `None` if the checksum is wrong.
fn verify_checksum(text: &str) -> Option<&str> {
    let content = &text[..text.rfind("crc32c ")?];
    (with_checksum(content.to_owned()) == text).then_some(content)
}
