//! Backups: everything a store holds, in one checksummed file that can be written while a server runs, and restored to a new store.
//!
//! ```text
//!  backup  start (magic, revision) │ files beside the store │ entries in key order │ end (number of frames)
//! ```
//! Frames are those of a snapshot, so a flipped byte anywhere is noticed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory::{self, Lock};
use super::frame::Frames;
use super::log_end::LogEnd;
use super::manifest::Manifest;
use super::merge::{Values, merge};
use super::read::Reading;
use super::record::{self, SnapshotFrame};
use super::snapshot_writer::SnapshotWriter;
use super::{OpenError, read, revision_jump};
use crate::contract::{Entry, Revision};

const MAGIC: &[u8; 16] = b"setpoint backup1";
/// Each attempt to read a running server's directory meets other files, so a few are enough.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Everything that makes up a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The store's revision when the backup was made.
    pub revision: Revision,
    /// In key order.
    pub entries: Vec<Entry>,
    /// Keys and certificates.
    pub files: Vec<BackupFile>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct BackupFile {
    pub name: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

/// The content is a key.
impl std::fmt::Debug for BackupFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.content.len())
    }
}

/// Reads a store without its lock, also while a server writes to it: every entry up to the last complete record, in key
/// order, and the store's revision. Changes nothing in the directory.
///
/// The log only grows, and its end is verified as after a crash; a record that is half written is read again. Files can
/// disappear meanwhile (by compaction): then everything is read once more.
pub fn read_unlocked(dir: &Path) -> Result<(Revision, Vec<Entry>), OpenError> {
    if !directory::check_format(dir)? {
        return Err(OpenError::Missing { path: dir.join(directory::FORMAT_FILE) });
    }
    let mut attempt = 1;
    loop {
        match read_live(dir) {
            Ok(read) => return Ok(read),
            Err(error) if attempt == ATTEMPTS => return Err(not_saved(error)),
            Err(_) => pause(PAUSE),
        }
        attempt += 1;
    }
}

fn read_live(dir: &Path) -> Result<(Revision, Vec<Entry>), OpenError> {
    // Before the rest: whoever closes the store meanwhile records more than what we are about to read.
    let end = directory::end_unlocked(dir)?;
    let manifest = Manifest::read(dir)?;
    end.map_or(Ok(()), |end| end.check_length(dir, &manifest))?;
    let log = read::log(dir, &manifest, Reading::Live, 0)?;
    end.map_or(Ok(()), |end| end.check_revision(dir, &manifest, log.revision))?;
    let mut entries = Vec::new();
    let mut values = Values::open(dir, &manifest.segments)?;
    merge(dir, manifest.snapshot, &mut values, log.newest, |entry| {
        entries.push(entry.to_entry());
        Ok::<_, OpenError>(())
    })?;
    Ok((log.revision, entries))
}

// Another process is waited for, and no world's time shows in it.
#[allow(clippy::disallowed_methods)]
pub(super) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// How to fix it is for whoever holds the lock to say: here a concurrent write may look like damage.
fn not_saved(error: OpenError) -> OpenError {
    match error {
        OpenError::Damaged { path, offset, what, .. } => {
            let fix = "nothing was saved. Stop the server and try again; if that fails too, start the server: it says how to fix it";
            OpenError::Damaged { path, offset, what, fix: fix.to_owned() }
        }
        other => other,
    }
}

impl Backup {
    /// Writes it to a file that only its owner may read, atomically and durably. Returns the file's size.
    pub fn write(&self, path: &Path) -> Result<u64, OpenError> {
        let mut out = SnapshotWriter::create(path).map_err(|e| OpenError::io(path, e))?;
        record::encode_start(&mut out.buffer, MAGIC, self.revision);
        for file in &self.files {
            record::encode_file(&mut out.buffer, file);
            out.count += 1;
        }
        for entry in &self.entries {
            out.put(&entry.into())?;
        }
        out.finish()
    }

    /// Reads and verifies all of it.
    pub fn read(path: &Path) -> Result<Backup, OpenError> {
        let mut frames = Frames::open(path).map_err(|e| OpenError::io(path, e))?;
        let mut backup = Backup::default();
        let mut count = 0;
        let mut started = false;
        loop {
            let offset = frames.offset();
            let damaged = |what: &str| damaged(path, offset, what);
            let length = frames.length();
            let (at, payload) = match frames.next() {
                Ok(Some(frame)) => frame,
                Ok(None) if !started => return Err(damaged("it is not a setpoint backup")),
                Ok(None) => return Err(damaged("it ends too early")),
                Err(fault) => match read::explain(path, fault) {
                    OpenError::Damaged { what, .. } => return Err(damaged(&what)),
                    other => return Err(other),
                },
            };
            if !started {
                let start = record::decode_start(payload, MAGIC);
                let start = start.filter(|revision| revision.0 <= revision_jump::HIGHEST);
                backup.revision = start.ok_or_else(|| damaged("it is not a setpoint backup"))?;
                started = true;
                continue;
            }
            let end = at + (payload.len() + super::frame::END.len()) as u64;
            if let Some(file) = record::decode_file(payload) {
                backup.files.push(file);
                count += 1;
                continue;
            }
            match record::decode_snapshot_frame(payload) {
                Some(SnapshotFrame::Entry(entry)) => {
                    if backup.entries.last().is_some_and(|last| *entry.key <= *last.key) {
                        return Err(damaged("the keys are out of order"));
                    }
                    if entry.revision > backup.revision {
                        return Err(damaged("an entry is newer than the backup"));
                    }
                    backup.entries.push(entry.to_entry());
                    count += 1;
                }
                Some(SnapshotFrame::Last(said)) if said != count => {
                    return Err(damaged("part of it is missing"));
                }
                Some(SnapshotFrame::Last(_)) if end != length => {
                    return Err(damaged("something follows the end"));
                }
                Some(SnapshotFrame::Last(_)) => return Ok(backup),
                None => return Err(damaged("an entry has an unknown format")),
            }
        }
    }

    /// Creates a store with the entries in an empty (or missing) directory. It resumes at the revision returned: far past
    /// whatever was assigned after the backup was made. FORMAT comes last, so an incomplete one is not opened.
    pub fn restore(&self, dir: &Path) -> Result<Revision, OpenError> {
        directory::create(dir)?;
        let mut lock = Lock::take(dir)?;
        for (path, _) in directory::list(dir)? {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if ![directory::LOCK_FILE, "lost+found"].contains(&name.as_str()) {
                return Err(OpenError::NotEmpty { path: dir.to_owned(), what: name });
            }
        }
        let target = revision_jump::target(self.revision);
        lock.forget_end().map_err(|e| OpenError::io(dir, e))?;
        revision_jump::write(dir, target, |out| {
            self.entries.iter().try_for_each(|entry| out.put(&entry.into()))
        })?;
        let format: PathBuf = dir.join(directory::FORMAT_FILE);
        directory::write_whole(&format, directory::format_content().as_bytes())
            .map_err(|e| OpenError::io(&format, e))?;
        let segment = Revision(target.0 + 1);
        lock.mark_closed(&LogEnd { segment, bytes: super::empty_segment_bytes(), revision: target });
        Ok(target)
    }
}

fn damaged(path: &Path, offset: u64, what: &str) -> OpenError {
    let fix = "use another backup; nothing of this one was restored".to_owned();
    OpenError::Damaged { path: path.to_owned(), offset, what: what.to_owned(), fix }
}
