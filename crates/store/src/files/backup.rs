//! Backups: everything a store holds in one checksummed file, made also while a server runs, and a new store from it.
//!
//! ```text
//!  backup  start (magic, revision) │ files beside the store │ entries in key order │ end (number of frames)
//! ```
//! Frames are those of a snapshot, so a flipped byte anywhere refuses the whole of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory::{self, Lock};
use super::end::End;
use super::frame::Frames;
use super::manifest::Manifest;
use super::merge::{Values, merge};
use super::out::Out;
use super::read::Reading;
use super::record::{self, SnapshotFrame};
use super::{OpenError, read, step};
use crate::contract::{Entry, Revision};

const MAGIC: &[u8; 16] = b"setpoint backup1";
/// Of a running server's directory: each attempt meets other files, so a few are enough.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(50);

/// Everything a cluster is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backup {
    /// The store's when it was made.
    pub revision: Revision,
    /// In key order.
    pub entries: Vec<Entry>,
    /// What else belongs to it: keys and certificates.
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

/// Reads a store without its lock, also while a server writes to it: everything up to the last record that is
/// whole, in key order, and its revision. Changes nothing in the directory.
///
/// The log only grows, and what it grows by is checked as after a crash; a record that is met half written is
/// looked at again. Files can go away meanwhile (they were folded): then all is read once more.
pub fn read_unlocked(dir: &Path) -> Result<(Revision, Vec<Entry>), OpenError> {
    if !directory::check_format(dir)? {
        return Err(OpenError::Missing { path: dir.join(directory::FORMAT_FILE) });
    }
    let mut attempt = 1;
    loop {
        match read_live(dir) {
            Ok(read) => return Ok(read),
            Err(error) if attempt == ATTEMPTS => return Err(unsaved(error)),
            Err(_) => pause(PAUSE),
        }
        attempt += 1;
    }
}

fn read_live(dir: &Path) -> Result<(Revision, Vec<Entry>), OpenError> {
    // Before the rest: whoever closes the store meanwhile says more than what we are about to read.
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

/// What to do about it is for whoever has the lock to say: here it may be a server's writing that looks like damage.
fn unsaved(error: OpenError) -> OpenError {
    match error {
        OpenError::Damaged { path, offset, what, .. } => {
            let mend = "nothing was saved. Stop the server and try again; if it is refused then too, the next start of the \
                        server says how to mend it";
            OpenError::Damaged { path, offset, what, mend: mend.to_owned() }
        }
        other => other,
    }
}

impl Backup {
    /// Puts it into a file that only its owner may read; it is there whole and durable, or not at all. Its size.
    pub fn write(&self, path: &Path) -> Result<u64, OpenError> {
        let mut out = Out::create(path).map_err(|e| OpenError::io(path, e))?;
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

    /// All of it, checked, or an error.
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
                Ok(None) if !started => return Err(damaged("it is no backup of setpoint")),
                Ok(None) => return Err(damaged("it ends too early")),
                Err(fault) => match read::explain(path, fault) {
                    OpenError::Damaged { what, .. } => return Err(damaged(&what)),
                    other => return Err(other),
                },
            };
            if !started {
                let start = record::decode_start(payload, MAGIC);
                let start = start.filter(|revision| revision.0 <= step::HIGHEST);
                backup.revision = start.ok_or_else(|| damaged("it is no backup of setpoint"))?;
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
                None => return Err(damaged("an entry has an unknown form")),
            }
        }
    }

    /// Makes a store of the entries in an empty (or missing) directory. It goes on at the revision answered: far past
    /// whatever was handed out after the backup was made. FORMAT comes last, so an unfinished one is not opened.
    pub fn restore(&self, dir: &Path) -> Result<Revision, OpenError> {
        directory::create(dir)?;
        let mut lock = Lock::take(dir)?;
        for (path, _) in directory::list(dir)? {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if ![directory::LOCK_FILE, "lost+found"].contains(&name.as_str()) {
                return Err(OpenError::NotEmpty { path: dir.to_owned(), what: name });
            }
        }
        let goal = step::goal(self.revision);
        lock.forget_end().map_err(|e| OpenError::io(dir, e))?;
        step::write(dir, goal, |out| self.entries.iter().try_for_each(|entry| out.put(&entry.into())))?;
        let format: PathBuf = dir.join(directory::FORMAT_FILE);
        directory::write_whole(&format, directory::format_content().as_bytes())
            .map_err(|e| OpenError::io(&format, e))?;
        let segment = Revision(goal.0 + 1);
        lock.mark_closed(&End { segment, bytes: super::empty_segment_bytes(), revision: goal });
        Ok(goal)
    }
}

fn damaged(path: &Path, offset: u64, what: &str) -> OpenError {
    let mend = "take another backup; nothing of this one was used".to_owned();
    OpenError::Damaged { path: path.to_owned(), offset, what: what.to_owned(), mend }
}
