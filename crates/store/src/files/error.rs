//! Why a data directory cannot be opened, and how to mend it.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::contract::Revision;

/// Into an empty directory, for what is left of the old one must not be mixed with it.
const MEND: &str = "restore a backup into an empty data directory with `setpoint restore`";

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
        "{} was written in format {found}, and this program knows {FORMAT} only: start it with the program that wrote it",
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
    #[error("{} is missing: {MEND}", path.display())]
    Missing { path: PathBuf },
    #[error("{} is damaged at byte {offset} ({what}): {mend}", path.display())]
    Damaged { path: PathBuf, offset: u64, what: String, mend: String },
    #[error("{} was cut short ({what}): {lost}: {mend}", path.display())]
    Cut { path: PathBuf, what: String, lost: String, mend: String },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The disk is full, or nobody may write to it for now: what was not written can be written later.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// The process, or the machine, is out of something that others give back. Nothing is wrong with the disk.
pub(super) fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(error.kind(), Interrupted | WouldBlock | OutOfMemory)
        || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

impl OpenError {
    /// The same may well succeed later.
    pub(super) fn can_be_tried_again(&self) -> bool {
        match self {
            OpenError::Full { .. } | OpenError::ReadOnly { .. } => true,
            OpenError::Io { source, .. } => passes(source),
            _ => false,
        }
    }

    /// The variant that says how to mend it.
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
        OpenError::Damaged { path: path.to_owned(), offset, what: what.into(), mend: MEND.to_owned() }
    }

    /// A file that lost its end. `repairable`: what a repair would keep, if it can mend it.
    pub(super) fn cut(
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
        let mut mend = format!("put the whole file back, or {MEND}");
        if let Some(kept) = repairable {
            mend.push_str(&format!(", or give up everything after revision {kept} with `setpoint repair`"));
        }
        OpenError::Cut { path: path.to_owned(), what, lost, mend }
    }

    /// Damage in the last log segment can also be cut away, by somebody who decides to. Not by hand: the revisions cut
    /// off were handed out, so the store has to move on past them.
    pub(super) fn can_be_cut(self, kept: u64) -> OpenError {
        match self {
            OpenError::Damaged { path, offset, what, .. } => {
                let mend =
                    format!("{MEND}, or give up everything after revision {kept} with `setpoint repair`");
                OpenError::Damaged { path, offset, what, mend }
            }
            other => other,
        }
    }
}
