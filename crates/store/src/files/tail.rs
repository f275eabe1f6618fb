//! The segment that is written to. Space is written ahead with zeros, so that an fdatasync has no new file size
//! to make durable besides the data.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::frame;

/// Written ahead at once: as much as the segment has, within these bounds. A small store stays small, and the
/// commit that has to wait for the zeros waits a millisecond or two.
const AHEAD: std::ops::RangeInclusive<u64> = (64 << 10)..=(1 << 20);
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) struct Tail {
    file: File,
    pub path: PathBuf,
    /// Where the next batch goes, at a sector boundary.
    end: u64,
    /// The file's length: zeros from `end` on.
    length: u64,
}

impl Tail {
    /// Goes on where the file ends.
    pub(super) fn open(path: PathBuf) -> io::Result<Tail> {
        let file = OpenOptions::new().write(true).open(&path)?;
        let length = file.metadata()?.len();
        if !length.is_multiple_of(frame::SECTOR as u64) {
            return Err(io::Error::other("the segment does not end with a sector"));
        }
        Ok(Tail { file, path, end: length, length })
    }

    /// Durable when it returns; after an error nothing is known, and it is not called again.
    pub(super) fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        self.file.write_all_at(batch, self.end)?;
        self.end += batch.len() as u64;
        if self.end > self.length {
            self.length = self.end;
            self.write_ahead()?;
        }
        self.file.sync_data()
    }

    /// A disk too full for it is no failure: while the batches themselves fit, the file grows with each.
    fn write_ahead(&mut self) -> io::Result<()> {
        let target = (self.end + self.end.clamp(*AHEAD.start(), *AHEAD.end())).next_multiple_of(4096);
        while self.length < target {
            let wanted = ZEROS.len().min((target - self.length) as usize);
            match self.file.write_at(&ZEROS[..wanted], self.length) {
                Ok(written) => self.length += written as u64,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Gives back the space that was not needed.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        if self.length > self.end {
            self.file.set_len(self.end)?;
            self.file.sync_all()?;
            self.length = self.end;
        }
        Ok(())
    }
}
