//! The disk: a checksummed log with snapshots in one directory. See docs/adr/0003-disk-log.md.
//!
//! ```text
//!  FORMAT      the number of this layout
//!  LOCK        flock; who holds it, or that it was closed properly, and where the log ended then
//!  MANIFEST    which of the files below make up the store, with a checksum
//!  snapshot-R  all entries as of revision R, in key order
//!  log-F       commits from revision F on; only the last one is written to
//!  place-N     which inode it was written to: another one in a copy
//!  RESERVE     room kept back, so that things can be deleted when the disk is full
//!  MOVE        to which revision the store has to move on before it is used
//!  log-F.damaged  what a repair gave up; nobody reads it
//! ```
//!
//! Opening either gives every acknowledged commit or refuses and says what is wrong with which file. The one
//! thing dropped (with a warning) is an interrupted write at the very end: see [`frame`].

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::contract::{Change, Revision};
use crate::durable::{Durable, DurableError, FIRST_REVISION, Loaded};
use directory::{Lock, Name};
use end::End;
use error::is_no_room;
use manifest::Manifest;
use place::Place;
use read::Reading;
use reserve::Reserve;
use room::Backoff;
use tail::{AppendError, Tail};

mod backup;
mod directory;
mod end;
mod error;
mod fold;
mod frame;
mod manifest;
mod out;
mod place;
mod read;
mod record;
mod reserve;
mod room;
mod rotate;
mod step;
mod tail;
#[cfg(test)]
mod tests;

pub use backup::{Backup, BackupFile, read_unlocked};
pub use error::OpenError;

/// The layout this program writes, and the only one it reads.
const FORMAT: u32 = 2;
/// The write buffer is kept between batches up to this size.
const KEPT_BUFFER: usize = 4 << 20;

pub struct Files {
    dir: PathBuf,
    lock: Option<Lock>,
    loaded: Option<Loaded>,
    /// The segment that is written to.
    tail: Tail,
    /// Until the first write: only a store that writes has something that a copy lacks.
    unmarked: Option<Place>,
    /// Of the last record.
    revision: Revision,
    /// Log bytes since the last snapshot was begun.
    since_snapshot: u64,
    /// A snapshot is begun when that many are exceeded (and the size of the last snapshot, too: so the work
    /// of folding stays a constant share of the work of writing).
    snapshot_log_bytes: u64,
    buffer: Vec<u8>,
    /// A write failed: the file is in doubt, and the next start must not trust the page cache.
    failed: bool,
    /// Why only removals are written for now: there is no room.
    full: Option<String>,
    /// When the next batch may try whether there is.
    room: Backoff,
    reserve: Reserve,
    /// Something was removed since the disk was full: a snapshot may make room.
    removed: bool,
    /// When what a new segment or a snapshot failed for (descriptors, room) may be there again.
    again: Backoff,
    shared: Arc<Mutex<Shared>>,
    folding: Option<JoinHandle<()>>,
    cancelled: Arc<AtomicBool>,
}

/// Guarded by one mutex: what the writer and the folding thread both change. Held while a manifest is written.
struct Shared {
    manifest: Manifest,
    snapshot_bytes: u64,
    /// Folding failed for want of something that comes back.
    unfinished: bool,
    /// Folding failed for good.
    failure: Option<String>,
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
    /// Where the store goes on.
    pub revision: Revision,
    /// Where the damaged file is kept, if there was one.
    pub damaged: Option<PathBuf>,
}

/// Gives up what cannot be read at the end of the log, and moves the revision on past everything that may have stood
/// there. For whoever decides to; also for a directory that was put back in a way that leaves no trace (a volume's snapshot).
pub fn repair(dir: &Path) -> Result<Repaired, OpenError> {
    if !directory::check_format(dir)? {
        let path = dir.join(directory::FORMAT_FILE);
        return Err(OpenError::Missing { path });
    }
    Files::open_for(dir, u64::MAX, Purpose::Repair).map(|(_, repaired)| repaired)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Use,
    Repair,
}

impl Files {
    /// Opens or creates a data directory and reads all of it.
    pub fn open(dir: &Path, snapshot_log_bytes: u64) -> Result<Files, OpenError> {
        Self::open_for(dir, snapshot_log_bytes, Purpose::Use).map(|(files, _)| files)
    }

    /// Also what was found and done.
    fn open_for(
        dir: &Path,
        snapshot_log_bytes: u64,
        purpose: Purpose,
    ) -> Result<(Files, Repaired), OpenError> {
        directory::create(dir)?;
        let mut lock = Lock::take(dir)?;
        if !directory::check_format(dir)? {
            lock.forget_end().map_err(|e| OpenError::io(dir, e))?;
            create(dir)?;
        }
        let place = Place::read(dir)?;
        let manifest = Manifest::read(dir)?;
        let repairs = purpose == Purpose::Repair;
        // What a repair gives up is gone, however it went.
        let end = lock.end.filter(|_| !repairs);
        end.map_or(Ok(()), |end| end.check_length(dir, &manifest))?;
        let mut chain = read::chain(dir, &manifest, if repairs { Reading::Cut } else { Reading::Locked })?;
        let found = chain.loaded.revision;
        let mut reached = end.map_or(Ok(()), |end| end.check_revision(dir, &manifest, found));
        // A move goes past what was lost, too.
        let highest = lock.end.map_or(found, |end| end.revision.max(found));
        let announced = step::announced(dir)?;
        let copied = place.copied || announced.as_ref().is_some_and(|a| a.copied);
        // Before files are deleted that a copy does not name.
        if copied {
            std::mem::replace(&mut reached, Ok(()))?;
        }
        let goal = step::decide(dir, highest, announced.as_ref(), copied || repairs, repairs)?;
        remove_leftovers(dir, &manifest, found, goal, copied)?;
        // And after a manifest that is too old was noticed: then nothing was cut.
        reached?;
        let first = *manifest.segments.last().expect("Manifest::read refuses an empty one");
        let tail_path = directory::segment(dir, first);
        // Before it is written anew: whoever knows more may still find something in it.
        let damaged = chain.damaged.then(|| directory::keep_damaged(&tail_path)).transpose()?;
        if chain.torn_bytes > 0 && damaged.is_none() {
            let (offset, bytes) = (chain.tail_bytes, chain.torn_bytes);
            tracing::warn!(file = %tail_path.display(), offset, bytes, "dropped an interrupted, never acknowledged write");
        }
        // What a proper close leaves: batches, to the end.
        let whole = chain.tail_length == chain.tail_bytes.next_multiple_of(frame::SECTOR as u64);
        if chain.torn_bytes > 0 || !whole || !lock.closed {
            let rewritten = match rewrite(&tail_path, chain.tail_bytes) {
                // What is kept is another name of the same file.
                Err(error) if is_no_room(&error) && damaged.is_none() => {
                    rewrite_in_place(&tail_path, chain.tail_bytes)
                }
                rewritten => rewritten,
            };
            rewritten.map_err(|e| OpenError::io(&tail_path, e))?;
        }
        let (mut manifest, mut tail_path) = (manifest, tail_path);
        // Not so after a move that was only kept from saying that it is finished.
        if let Some(goal) = goal.filter(|goal| *goal > found) {
            (manifest, tail_path) = chain.move_on(dir, &manifest, goal)?;
            if purpose == Purpose::Use {
                tracing::warn!(
                    dir = %dir.display(), found = found.0, now = goal.0,
                    "the data directory was copied or put back: its revision moves on, and watches begin anew"
                );
            }
        }
        let mut unmarked = Some(place);
        if goal.is_some()
            && let Some(place) = unmarked.take()
        {
            place.renew(dir)?;
            step::finish(dir)?;
        }
        let tail = Tail::open(tail_path.clone()).map_err(|e| OpenError::io(&tail_path, e))?;
        let shared =
            Shared { manifest, snapshot_bytes: chain.snapshot_bytes, unfinished: false, failure: None };
        let files = Files {
            dir: dir.to_owned(),
            lock: Some(lock),
            revision: chain.loaded.revision,
            loaded: Some(chain.loaded),
            tail,
            unmarked,
            since_snapshot: chain.log_bytes,
            snapshot_log_bytes,
            buffer: Vec::new(),
            failed: false,
            full: None,
            room: Backoff::new(),
            reserve: Reserve::new(dir),
            removed: false,
            again: Backoff::new(),
            shared: Arc::new(Mutex::new(shared)),
            folding: None,
            cancelled: Arc::default(),
        };
        let repaired = Repaired { kept: found, revision: files.revision, damaged };
        Ok((files, repaired))
    }

    fn write(&mut self, batch: &[Change]) -> Result<(), AppendError> {
        self.buffer.clear();
        record::encode_batch(&mut self.buffer, batch);
        let mut written = self.tail.append(&self.buffer);
        // While the disk is full only removals come here.
        if self.full.is_some() && matches!(written, Err(AppendError::NoRoom(_))) && self.reserve.release() {
            written = self.tail.append(&self.buffer);
        }
        written?;
        self.since_snapshot += self.buffer.len() as u64;
        if self.buffer.capacity() > KEPT_BUFFER {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    /// Why nothing can be written any more, and whether a snapshot is to be made up for.
    fn state(&self) -> (Option<String>, bool) {
        let shared = self.shared.lock();
        (shared.failure.clone(), shared.unfinished)
    }

    /// There is no room, for whatever came with this error.
    fn set_full(&mut self, error: &io::Error) -> String {
        let why = room::explain(&self.dir, error);
        if self.full.is_none() {
            tracing::error!(reason = %why, "only deletions are accepted for now");
        }
        self.room.failed();
        self.full = Some(why.clone());
        why
    }

    fn explain(&self, error: &io::Error) -> String {
        let path = self.tail.path.display();
        let mend = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            _ => "check the disk",
        };
        format!("writing {path} failed: {error}; {mend} and start again: all that was acknowledged is kept")
    }
}

impl Durable for Files {
    fn load(&mut self) -> Result<Loaded, DurableError> {
        self.loaded.take().ok_or_else(|| DurableError::NotWritten("it was loaded before".to_owned()))
    }

    fn append(&mut self, batch: &[Change]) -> Result<(), DurableError> {
        let (failure, unfinished) = self.state();
        if let Some(why) = failure {
            return Err(DurableError::NotWritten(why));
        }
        let Some(last) = batch.last() else { return Ok(()) };
        if let Some(place) = self.unmarked.take_if(|_| self.again.is_over())
            && let Err(error) = place.renew(&self.dir)
        {
            if !error.can_be_tried_again() {
                self.failed = true;
                return Err(DurableError::NotWritten(error.to_string()));
            }
            // The old one still holds, and who has just opened the store is no copy.
            self.again.failed();
            self.unmarked = Some(place);
        }
        match self.write(batch) {
            Ok(()) => {}
            Err(AppendError::NoRoom(error)) => return Err(DurableError::NoRoom(self.set_full(&error))),
            Err(AppendError::Failed(error)) => {
                self.failed = true;
                return Err(DurableError::Unknown(self.explain(&error)));
            }
        }
        self.revision = last.revision;
        match self.full {
            Some(_) => self.removed = true,
            None => self.room.succeeded(),
        }
        self.keep_up(unfinished);
        Ok(())
    }

    fn full(&mut self) -> Option<String> {
        let bytes = self.since_snapshot + self.shared.lock().snapshot_bytes;
        if (self.full.is_none() && self.reserve.is_settled(bytes)) || !self.room.is_over() {
            return self.full.clone();
        }
        if self.full.is_some() {
            if self.is_folding() {
                return self.full.clone();
            }
            if self.removed {
                self.make_room();
                return self.full.clone();
            }
        }
        if let Err(error) = self.reserve.keep(bytes) {
            return Some(self.set_full(&error));
        }
        // The next batch is the proof; should it fail, the next try comes later.
        if self.full.take().is_some() {
            tracing::info!(dir = %self.dir.display(), "there is room again: everything is accepted");
        }
        None
    }

    fn close(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.finish_snapshot();
        if let Some(lock) = self.lock.take()
            && !self.failed
            && self.shared.lock().failure.is_none()
            && self.tail.cut().is_ok()
        {
            let segment = *self.shared.lock().manifest.segments.last().expect("never empty");
            lock.mark_closed(&End { segment, bytes: self.tail.end(), revision: self.revision });
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.close();
    }
}

/// A new store: FORMAT comes last, so a directory with one is complete.
fn create(dir: &Path) -> Result<(), OpenError> {
    for (path, name) in directory::list(dir)? {
        let file_name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let harmless = match name {
            Name::Temporary => true,
            // Left by a creation that was interrupted: it holds no record yet.
            Name::Segment(_) => std::fs::metadata(&path).is_ok_and(|m| m.len() <= empty_segment_bytes()),
            Name::Snapshot(_) | Name::Place(_) => false,
            Name::Other => [directory::LOCK_FILE, "MANIFEST", "lost+found"].contains(&file_name),
        };
        if !harmless {
            return Err(OpenError::NotOurs { path: dir.to_owned(), what: file_name.to_owned() });
        }
    }
    let first = Revision(FIRST_REVISION.0 + 1);
    let made = create_segment(dir, first)
        .and_then(|_| Manifest { snapshot: None, segments: vec![first] }.write(dir))
        .and_then(|()| {
            let format = dir.join(directory::FORMAT_FILE);
            directory::write_whole(&format, directory::format_content().as_bytes())
        });
    made.map_err(|e| OpenError::io(dir, e))
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

/// Writes the good part of the last segment anew.
///
/// After a failed fsync the kernel may show, from its cache, bytes that never reached the disk, and reports no
/// further error. So unless the last user closed the store properly, what was read is written once more, to
/// a new file with an fsync of its own; that also cuts off a torn end (and unused space) without touching the original.
fn rewrite(path: &Path, bytes: u64) -> io::Result<()> {
    let mut new = directory::beside(path)?;
    let copied = io::copy(&mut io::Read::take(File::open(path)?, bytes), new.file())?;
    if copied != bytes {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was read",
        ));
    }
    new.file().write_all(&frame::padding(bytes))?;
    new.replace()
}

/// The same where there is no room for a second one: each byte over itself. A crash in the middle leaves every sector as it
/// was, or as it is meant to be.
fn rewrite_in_place(path: &Path, bytes: u64) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut piece = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let length = piece.len().min((bytes - at) as usize);
        file.read_exact_at(&mut piece[..length], at)?;
        file.write_all_at(&piece[..length], at)?;
        at += length as u64;
    }
    let padding = frame::padding(bytes);
    file.write_all_at(&padding, bytes)?;
    file.set_len(bytes + padding.len() as u64)?;
    file.sync_all()
}

impl read::Chain {
    /// Writes what was read as a store that goes on after `goal`, and deletes what it replaces.
    fn move_on(
        &mut self,
        dir: &Path,
        old: &Manifest,
        goal: Revision,
    ) -> Result<(Manifest, PathBuf), OpenError> {
        self.loaded = Loaded { revision: goal, ..std::mem::take(&mut self.loaded).whole() };
        let (manifest, bytes) = step::write(dir, goal, &self.loaded.entries)?;
        (self.snapshot_bytes, self.log_bytes) = (bytes, 0);
        let segments = old.segments.iter().map(|first| directory::segment(dir, *first));
        for path in segments.chain(old.snapshot.map(|at| directory::snapshot(dir, at))) {
            std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))?;
        }
        Ok((manifest, directory::segment(dir, Revision(goal.0 + 1))))
    }
}

/// A small text with its checksum as the last line.
fn checked(mut text: String) -> String {
    let checksum = crc32c::crc32c(text.as_bytes());
    text.push_str(&format!("crc32c {checksum:08x}\n"));
    text
}

/// Such a text without that line; `None` if it is not what was written.
fn unchecked(text: &str) -> Option<&str> {
    let said = &text[..text.rfind("crc32c ")?];
    (checked(said.to_owned()) == text).then_some(said)
}

/// Deletes what an interrupted snapshot or move left, and refuses what no crash of ours can have left. In a directory that
/// was `copied` such files are of the state that the copy was laid over.
fn remove_leftovers(
    dir: &Path,
    manifest: &Manifest,
    revision: Revision,
    goal: Option<Revision>,
    copied: bool,
) -> Result<(), OpenError> {
    for (path, name) in directory::list(dir)? {
        let removable = match name {
            Name::Other | Name::Place(_) => continue,
            Name::Temporary => true,
            Name::Segment(first) if manifest.segments.contains(&first) => continue,
            Name::Snapshot(at) if manifest.snapshot == Some(at) => continue,
            // Folded into the snapshot, or new and still empty.
            Name::Segment(first) => {
                let length = std::fs::metadata(&path).map_err(|e| OpenError::io(&path, e))?.len();
                manifest.segments.first().is_some_and(|oldest| first < *oldest)
                    || length <= empty_segment_bytes()
            }
            // Older than the one in use, or finished but never put to use.
            Name::Snapshot(at) => at <= revision || goal == Some(at),
        };
        if !removable && copied {
            tracing::warn!(file = %path.display(), "deleted: it does not belong to the copy that was put back");
        } else if !removable {
            let what = "it is not listed in MANIFEST, though it is newer than what is";
            return Err(OpenError::damaged(&path, 0, what));
        }
        std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))?;
    }
    Ok(())
}
