//! Where the directory's files lie: how a copy of a data directory is told from the directory itself.
//!
//! A directory that was put back by hand (`cp -a`, `rsync`, `tar`) holds an older state, whose next revisions were
//! handed out before. So there is a file `place-N` that names its own inode and the moment that was made: what
//! no tool copies. A copy of it says something else than what it is. A directory that is only renamed keeps
//! both. Each process that writes leaves a new one, so an older copy laid over the directory brings another file.

use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::directory::{self, Name};
use super::error::is_no_room;
use super::{OpenError, checked};

/// What `place-N` files say.
pub(super) struct Place {
    pub found: Vec<PathBuf>,
    pub next: u64,
    /// One of them is not where it was written.
    pub copied: bool,
}

impl Place {
    /// A directory without any (made before there were such files) is taken as it is.
    pub(super) fn read(dir: &Path) -> Result<Place, OpenError> {
        let mut place = Place { found: Vec::new(), next: 1, copied: false };
        for (path, name) in directory::list(dir)? {
            let Name::Place(number) = name else { continue };
            place.next = place.next.max(number.saturating_add(1));
            place.copied |= !is_in_place(&path, "").map_err(|e| OpenError::io(&path, e))?;
            place.found.push(path);
        }
        Ok(place)
    }

    /// From now on the directory belongs here.
    pub(super) fn renew(&self, dir: &Path) -> Result<(), OpenError> {
        let path = directory::place(dir, self.next);
        match write(&path, "") {
            Ok(()) => {}
            // The old one still holds, and a full disk must not keep a store from being read.
            Err(error) if is_no_room(&error) && !self.copied => return Ok(()),
            Err(error) => return Err(OpenError::io(&path, error)),
        }
        for old in &self.found {
            match std::fs::remove_file(old) {
                // By an attempt that did not come to its end.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|e| OpenError::io(old, e))?,
            }
        }
        Ok(())
    }
}

/// A file that says `head` and where it lies.
pub(super) fn write(path: &Path, head: &str) -> io::Result<()> {
    let mut new = directory::beside(path)?;
    let (inode, born) = identity(&new.file().metadata()?);
    new.file().write_all(checked(format!("{head}inode {inode}\nborn {born}\n")).as_bytes())?;
    new.replace()
}

/// One that cannot be read is as good as a copy: moving on is always safe.
pub(super) fn is_in_place(path: &Path, head: &str) -> io::Result<bool> {
    let said = std::fs::read(path)?;
    let (inode, born) = identity(&std::fs::metadata(path)?);
    let place = format!("{head}inode {inode}\n");
    let same = |born: u128| checked(format!("{place}born {born}\n")).as_bytes() == said;
    // 0: a file system, or a kernel, that does not tell.
    Ok(same(born) || same(0) || (born == 0 && said.starts_with(place.as_bytes())))
}

/// Not the device: its number may be another after each boot.
fn identity(metadata: &std::fs::Metadata) -> (u64, u128) {
    let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    (metadata.ino(), born.map_or(0, |since| since.as_nanos()))
}
