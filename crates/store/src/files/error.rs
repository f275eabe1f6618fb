//! Why a data directory cannot be opened, and how to fix it.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::contract::Revision;

/// Into an empty directory: what is left of the old one must not be mixed with it.
const RESTORE: &str = "restore a backup into an empty data directory with `setpoint restore`";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no permission for {}: run as the user who owns it, or change its owner", path.display())]
    Permission { path: PathBuf },
    #[error("{} is on a read-only file system: remount it writable, or choose another data directory", path.display())]
    ReadOnly { path: PathBuf },
    #[error("the disk that holds {} is full: free some space and start again", path.display())]
    Full { path: PathBuf },
    #[error("{} is not a directory: remove it, or choose another data directory", path.display())]
    NotADirectory { path: PathBuf },
    #[error("the data directory {} is already in use by {holder}: stop that process first", path.display())]
    InUse { path: PathBuf, holder: String },
    #[error(
        "{} has format {found}, but this program supports format {FORMAT} only: use the version of the program that wrote it",
        path.display()
    )]
    OtherFormat { path: PathBuf, found: String },
    #[error(
        "{} holds {what} but no FORMAT file: it is not a data directory, or part of it was lost. Choose an empty directory, or restore a backup into one with `setpoint restore`",
        path.display()
    )]
    NotOurs { path: PathBuf, what: String },
    #[error("{} holds {what}: choose an empty directory", path.display())]
    NotEmpty { path: PathBuf, what: String },
    #[error("{} is missing: {RESTORE}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is damaged at byte {offset} ({what}): {fix}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: String, fix: String },
    #[error("{} was truncated ({what}): {lost}: {fix}", path.display())]
    Truncated { path: PathBuf, what: String, lost: String, fix: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The disk is full, or read-only for now: what was not written can be written later.
pub(super) fn is_no_space(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// The process, or the machine, is short of something that others will give back. The disk is fine.
pub(super) fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), Interrupted | WouldBlock | OutOfMemory)
        || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Why writes are rejected, in one line: what is wrong, how to fix it, and what still works.
pub(super) fn explain_no_space(dir: &Path, error: &io::Error) -> String {
    let dir = dir.display();
    let reads = "reads and watches still work";
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(
                "{dir} is on a file system that became read-only: check the disk and remount it writable; {reads}"
            )
        }
        io::ErrorKind::QuotaExceeded => format!(
            "the disk quota for {dir} is exceeded: raise it, free some space or delete objects, and writing resumes by itself; {reads}"
        ),
        _ => format!(
            "the disk that holds {dir} is full: free some space or delete objects, and writing resumes by itself; {reads}"
        ),
    }
}

impl OpenError {
    /// The same may well succeed later.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            OpenError::Full { .. } | OpenError::ReadOnly { .. } => true,
            OpenError::Io { source, .. } => is_transient(source),
            _ => false,
        }
    }

    /// The variant that says how to fix it.
    pub(super) fn io(path: &Path, source: io::Error) -> OpenError {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied => OpenError::Permission { path },
            io::ErrorKind::ReadOnlyFilesystem => OpenError::ReadOnly { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => OpenError::Full { path },
            io::ErrorKind::NotADirectory => OpenError::NotADirectory { path },
            io::ErrorKind::NotFound => OpenError::Missing { path },
            _ => OpenError::Io { path, source },
        }
    }

    pub(super) fn damaged(path: &Path, offset: u64, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { path: path.to_owned(), offset, what: what.into(), fix: RESTORE.to_owned() }
    }

    /// A file that lost its end. `repairable`: the last revision that a repair would keep, if it can help.
    pub(super) fn truncated(
        path: &Path,
        what: String,
        lost: Option<(Revision, Revision)>,
        repairable: Option<Revision>,
    ) -> OpenError {
        let lost = match lost {
            Some((first, last)) if first == last => format!("revision {first} is lost"),
            Some((first, last)) => format!("revisions {first} to {last} are lost"),
            None => "no revision is lost".to_owned(),
        };
        let mut fix = format!("put the whole file back, or {RESTORE}");
        if let Some(kept) = repairable {
            fix.push_str(&discard(kept));
        }
        OpenError::Truncated { path: path.to_owned(), what, lost, fix }
    }

    /// Damage in the last log segment: `setpoint repair` can cut it off, if somebody decides to. Not by hand: the revisions
    /// discarded were assigned, so the store's revision has to advance past them.
    pub(super) fn repairable(self, kept: Revision) -> OpenError {
        match self {
            OpenError::Damaged { path, offset, what, .. } => {
                let fix = format!("{RESTORE}{}", discard(kept));
                OpenError::Damaged { path, offset, what, fix }
            }
            other => other,
        }
    }
}

fn discard(kept: Revision) -> String {
    format!(", or discard everything after revision {kept} with `setpoint repair`")
}
