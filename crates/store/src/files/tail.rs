//! The log segment that is written to. Space is preallocated with zeros, so that an fdatasync has no new file size
//! to make durable besides the data; and batches bypass the page cache (O_DIRECT) where the file system allows it, so
//! that there is one request to the disk to wait for instead of a write-back and then a flush.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::error::{is_no_space, is_transient};
use super::frame;

/// Preallocated at once: as much as the segment has, within these bounds. A small store stays small, and the
/// commit that has to wait for the zeros waits a millisecond or two.
const PREALLOCATE: std::ops::RangeInclusive<u64> = (64 << 10)..=(1 << 20);
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Batches up to this size bypass the page cache: they are copied once, to an aligned buffer.
const DIRECT_BYTES: usize = 16 << 10;

pub(super) struct Tail {
    file: File,
    /// The same file, opened with O_DIRECT; `None` where that is not supported.
    direct: Option<Direct>,
    pub path: PathBuf,
    /// Where the next batch goes, at a sector boundary.
    end: u64,
    /// The file's length: zeros from `end` on.
    length: u64,
    /// Whether a batch is durable when `append` returns.
    sync: bool,
}

impl Tail {
    /// Appends where the file ends.
    pub(super) fn open(path: PathBuf) -> io::Result<Tail> {
        let file = OpenOptions::new().write(true).open(&path)?;
        let length = file.metadata()?.len();
        let direct = Direct::open(&path)?;
        if !length.is_multiple_of(frame::SECTOR as u64) {
            return Err(io::Error::other("the segment does not end with a sector"));
        }
        Ok(Tail { direct, file, path, end: length, length, sync: true })
    }

    /// Whether batches are synced; those that are not stay in the page cache.
    pub(super) fn sync(&mut self, sync: bool) {
        self.sync = sync;
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync
    }

    /// Where the next batch will go: the length of what was written.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Durable when it returns, unless syncing is off. After [`AppendError::Failed`] it is not called again.
    pub(super) fn append(&mut self, batch: &[u8]) -> Result<(), AppendError> {
        let mut touched = false;
        match self.write(batch, &mut touched) {
            Ok(()) => Ok(()),
            Err(error) if is_no_space(&error) => match self.roll_back(touched) {
                Ok(()) => Err(AppendError::NoSpace(error)),
                Err(error) => Err(AppendError::Failed(error)),
            },
            Err(error) => Err(AppendError::Failed(error)),
        }
    }

    /// `touched`: something of the batch may be in the file.
    fn write(&mut self, batch: &[u8], touched: &mut bool) -> io::Result<()> {
        let end = self.end + batch.len() as u64;
        // Only into preallocated space: the file's size must not change with it.
        if self.sync
            && end <= self.length
            && batch.len() <= DIRECT_BYTES
            && let Some(direct) = &mut self.direct
        {
            if direct.write(batch, self.end, touched)? {
                self.end = end;
                return Ok(());
            }
            self.direct = None;
        }
        write_all_at(&self.file, batch, self.end, touched)?;
        if end > self.length {
            self.length = end;
            if self.sync {
                self.preallocate(end)?;
            }
        }
        if self.sync {
            self.file.sync_data()?;
        }
        self.end = end;
        Ok(())
    }

    /// The file as it was before the batch, durably: what is cut off is neither on the disk nor in the page cache.
    fn roll_back(&mut self, touched: bool) -> io::Result<()> {
        if touched {
            self.file.set_len(self.end)?;
            self.file.sync_all()?;
            self.length = self.end;
        }
        Ok(())
    }

    /// A disk too full for it is no failure: as long as the batches themselves fit, the file grows with each.
    fn preallocate(&mut self, end: u64) -> io::Result<()> {
        let target = (end + end.clamp(*PREALLOCATE.start(), *PREALLOCATE.end())).next_multiple_of(4096);
        while self.length < target {
            let wanted = ZEROS.len().min((target - self.length) as usize);
            match self.file.write_at(&ZEROS[..wanted], self.length) {
                Ok(written) => self.length += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_no_space(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Frees the preallocated space that was not needed.
    pub(super) fn trim(&mut self) -> io::Result<()> {
        if self.length > self.end {
            self.file.set_len(self.end)?;
            self.length = self.end;
            self.file.sync_all()?;
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) enum AppendError {
    /// Nothing of the batch was written, or it was rolled back: the file is as it was, durably.
    NoSpace(io::Error),
    /// The state of the file is unknown.
    Failed(io::Error),
}

/// Like `write_all_at` of the standard library, but reports whether something was written.
fn write_all_at(file: &File, mut bytes: &[u8], mut at: u64, touched: &mut bool) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                *touched = true;
                (bytes, at) = (&bytes[written..], at + written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes that bypass the page cache and are durable when they return.
struct Direct {
    file: File,
    /// The batch is copied into it, aligned to a sector.
    buffer: Vec<u8>,
}

impl Direct {
    /// `None`: the file system does not support it.
    fn open(path: &Path) -> io::Result<Option<Direct>> {
        let flags = libc::O_DIRECT | libc::O_DSYNC;
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => Ok(Some(Direct { file, buffer: Vec::new() })),
            Err(error) if is_transient(&error) => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// `false`: nothing was written; use the page cache.
    fn write(&mut self, batch: &[u8], at: u64, touched: &mut bool) -> io::Result<bool> {
        let needed = batch.len() + frame::SECTOR;
        if self.buffer.len() < needed {
            self.buffer.resize(needed.next_power_of_two(), 0);
        }
        let start = self.buffer.as_ptr().align_offset(frame::SECTOR);
        let Some(aligned) = self.buffer.get_mut(start..start + batch.len()) else { return Ok(false) };
        aligned.copy_from_slice(batch);
        let mut written = 0;
        while written < batch.len() {
            match self.file.write_at(&aligned[written..], at + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    *touched = true;
                    written += n;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file system does not support it after all, or its sectors are larger than ours.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
                        && written == 0 =>
                {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
