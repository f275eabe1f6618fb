//! The data directory: its file names, its lock and its format. Files are replaced atomically.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use env::file::New;

use super::log_end::LogEnd;
use super::{FORMAT, OpenError};
use crate::contract::Revision;

pub(super) const FORMAT_FILE: &str = "FORMAT";
pub(super) const LOCK_FILE: &str = "LOCK";
pub(super) const RESERVE_FILE: &str = "RESERVE";
const CLOSED: &str = "closed";
/// Bytes of a lock file that are read.
const MAX_LOCK_BYTES: u64 = 200;
/// What is stored may be secret.
const MODE: u32 = 0o600;

/// What a file of the directory is, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Segment(Revision),
    Snapshot(Revision),
    /// The directory's identity.
    Identity(u64),
    /// Left by an interrupted write.
    Temporary,
    Other,
}

pub(super) fn segment(dir: &Path, first: Revision) -> PathBuf {
    dir.join(format!("log-{:020}", first.0))
}

pub(super) fn snapshot(dir: &Path, revision: Revision) -> PathBuf {
    dir.join(format!("snapshot-{:020}", revision.0))
}

pub(super) fn identity(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("place-{number:020}"))
}

/// Creates it if it is missing, for its owner only.
pub(super) fn create(dir: &Path) -> Result<(), OpenError> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(OpenError::NotADirectory { path: dir.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(OpenError::io(dir, error)),
    }
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|e| OpenError::io(dir, e))?;
    for made in missing {
        let parent = made.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(parent).map_err(|e| OpenError::io(parent, e))?;
    }
    Ok(())
}

/// Makes the names in it durable.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Every file with what it is, in name order.
pub(super) fn list(dir: &Path) -> Result<Vec<(PathBuf, Name)>, OpenError> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| OpenError::io(dir, e))? {
        let path = entry.map_err(|e| OpenError::io(dir, e))?.path();
        let name = path.file_name().and_then(|n| n.to_str()).map_or(Name::Other, classify);
        files.push((path, name));
    }
    files.sort();
    Ok(files)
}

fn classify(name: &str) -> Name {
    let number = |digits: &str| match digits.len() {
        20 if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    };
    let revision = |digits: &str| number(digits).map(Revision);
    if name.ends_with(".tmp") {
        return Name::Temporary;
    }
    if let Some(first) = name.strip_prefix("log-").and_then(revision) {
        return Name::Segment(first);
    }
    if let Some(number) = name.strip_prefix("place-").and_then(number) {
        return Name::Identity(number);
    }
    name.strip_prefix("snapshot-").and_then(revision).map_or(Name::Other, Name::Snapshot)
}

/// A new temporary file beside `path`, for its owner only, to be renamed to it when complete.
pub(super) fn beside(path: &Path) -> io::Result<New> {
    New::beside(path, MODE)
}

/// Writes a small file atomically and durably.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    env::file::replace(path, content, MODE)
}

/// Keeps the file under a second name that nothing reads or deletes.
pub(super) fn keep_damaged(path: &Path) -> Result<PathBuf, OpenError> {
    let kept = path.with_extension("damaged");
    match std::fs::hard_link(path, &kept) {
        Ok(()) => {}
        // Kept by a repair that was interrupted.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // A file system without links.
        Err(_) => beside(&kept)
            .and_then(|mut new| {
                io::copy(&mut File::open(path)?, new.file())?;
                new.replace()
            })
            .map_err(|e| OpenError::io(&kept, e))?,
    }
    Ok(kept)
}

/// `false`: there is none yet.
pub(super) fn check_format(dir: &Path) -> Result<bool, OpenError> {
    let path = dir.join(FORMAT_FILE);
    match std::fs::read(&path) {
        Ok(content) if content == format_content().as_bytes() => Ok(true),
        Ok(content) => {
            let found = String::from_utf8_lossy(&content).trim().chars().take(40).collect();
            Err(OpenError::OtherFormat { path: dir.to_owned(), found })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(OpenError::io(&path, error)),
    }
}

pub(super) fn format_content() -> String {
    format!("{FORMAT}\n")
}

/// Keeps a second process out, and records whether the last shutdown was clean.
pub(super) struct Lock {
    file: File,
    /// The last shutdown was clean: everything written went through a successful fsync.
    pub closed: bool,
    /// Where the log ended at the last clean shutdown.
    pub end: Option<LogEnd>,
}

impl Lock {
    pub(super) fn take(dir: &Path) -> Result<Lock, OpenError> {
        let path = dir.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(MODE)
            .open(&path)
            .map_err(|e| OpenError::io(&path, e))?;
        let locked = file.try_lock();
        // Bounded, whoever wrote it.
        let mut content = Vec::new();
        (&mut file).take(MAX_LOCK_BYTES).read_to_end(&mut content).map_err(|e| OpenError::io(&path, e))?;
        match locked {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = String::from_utf8_lossy(&content).trim().to_owned();
                let holder = if holder.starts_with("pid ") { holder } else { "another process".to_owned() };
                return Err(OpenError::InUse { path: dir.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(OpenError::io(&path, error)),
        }
        let lock = Lock { file, closed: content.starts_with(line(CLOSED).as_bytes()), end: end_in(&content) };
        lock.write(&format!("pid {}", std::process::id())).map_err(|e| OpenError::io(&path, e))?;
        Ok(lock)
    }

    /// Records a clean shutdown: everything was fsynced, and the log ends here. Without it the next start rewrites the last segment.
    pub(super) fn mark_closed(&self, end: &LogEnd) {
        let content = line(CLOSED) + &end.encode();
        // If this fails, the next start only does a little more work: the end recorded before still holds.
        let _ = self
            .file
            .write_all_at(content.as_bytes(), 0)
            .and_then(|()| self.file.set_len(content.len() as u64))
            .and_then(|()| self.file.sync_data());
    }

    /// For a new store in the place of an old one.
    pub(super) fn forget_end(&mut self) -> io::Result<()> {
        self.end = None;
        self.file.set_len(line("").len() as u64)
    }

    /// Overwrites the first line only: the end of the log recorded below still holds.
    fn write(&self, content: &str) -> io::Result<()> {
        self.file.write_all_at(line(content).as_bytes(), 0)
    }
}

/// The log's end at the last clean shutdown, read without the lock.
pub(super) fn end_unlocked(dir: &Path) -> Result<Option<LogEnd>, OpenError> {
    let path = dir.join(LOCK_FILE);
    match std::fs::read(&path) {
        Ok(content) => Ok(end_in(&content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OpenError::io(&path, error)),
    }
}

fn end_in(content: &[u8]) -> Option<LogEnd> {
    LogEnd::decode(std::str::from_utf8(content.get(line("").len()..)?).ok()?)
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that is just being started (fork, not yet exec) holds
        // a copy of it.
        let _ = self.file.unlock();
    }
}

/// Always of the same length, so that it can be overwritten in place.
fn line(content: &str) -> String {
    format!("{content:<15}\n")
}
