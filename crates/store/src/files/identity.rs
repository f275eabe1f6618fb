//! The directory's identity: how a copy of a data directory is told from the original.
//!
//! A directory that was restored by hand (`cp -a`, `rsync`, `tar`) holds an older state, whose next revisions were assigned
//! before. So the file `place-N` records its own inode and creation time, which no tool copies: in a copy they do not
//! match. A directory that is only renamed keeps both. Each process that writes creates a new such file, so an older copy
//! laid over the directory is noticed as well.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::directory::{self, Name};
use super::error::is_no_space;
use super::{OpenError, with_checksum};

/// What the `place-N` files record.
pub(super) struct Identity {
    pub files: Vec<PathBuf>,
    /// Number of the next such file.
    pub next: u64,
    /// One of the files is a copy.
    pub copied: bool,
}

impl Identity {
    /// A directory without such files (made before they existed) is taken for an original.
    pub(super) fn read(dir: &Path) -> Result<Identity, OpenError> {
        let mut identity = Identity { files: Vec::new(), next: 1, copied: false };
        for (path, name) in directory::list(dir)? {
            let Name::Identity(number) = name else { continue };
            identity.next = identity.next.max(number.saturating_add(1));
            identity.copied |= !is_original(&path, "").map_err(|e| OpenError::io(&path, e))?;
            identity.files.push(path);
        }
        Ok(identity)
    }

    /// Replaces the files by a new one: from now on the directory is an original.
    pub(super) fn renew(&self, dir: &Path) -> Result<(), OpenError> {
        let path = directory::identity(dir, self.next);
        match write(&path, "") {
            Ok(()) => {}
            // The old one still holds, and a full disk must not keep a store from being read.
            Err(error) if is_no_space(&error) && !self.copied => return Ok(()),
            Err(error) => return Err(OpenError::io(&path, error)),
        }
        for old in &self.files {
            // Missing if an attempt that was interrupted has deleted it.
            env::file::unless_missing(std::fs::remove_file(old)).map_err(|e| OpenError::io(old, e))?;
        }
        Ok(())
    }
}

/// Writes a file that holds `head` and its own inode.
pub(super) fn write(path: &Path, head: &str) -> io::Result<()> {
    let mut new = directory::beside(path)?;
    let (inode, born) = inode_and_birth(&new.file().metadata()?);
    new.file().write_all(with_checksum(format!("{head}inode {inode}\nborn {born}\n")).as_bytes())?;
    new.replace()
}

/// Whether such a file is where it was written. One that cannot be parsed counts as a copy: advancing the revision is always safe.
pub(super) fn is_original(path: &Path, head: &str) -> io::Result<bool> {
    let content = std::fs::read(path)?;
    let (inode, born) = inode_and_birth(&std::fs::metadata(path)?);
    let start = format!("{head}inode {inode}\n");
    let same = |born: u128| with_checksum(format!("{start}born {born}\n")).as_bytes() == content;
    // 0: the file system, or the kernel, does not tell.
    Ok(same(born) || same(0) || (born == 0 && content.starts_with(start.as_bytes())))
}

/// Not the device: its number may change with each boot.
fn inode_and_birth(metadata: &std::fs::Metadata) -> (u64, u128) {
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (metadata.ino(), born.map_or(0, |since| since.as_nanos()))
}
