//! Opening a data directory: everything in it is read and checked, handed out entry by entry, and only then put in order.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::directory::{self, Lock, Name};
use super::error::is_no_room;
use super::manifest::Manifest;
use super::merge::{Values, merge};
use super::place::Place;
use super::read::{self, Log, RECENT_BYTES, Reading};
use super::record::EntryRef;
use super::reserve::Reserve;
use super::room::Backoff;
use super::tail::Tail;
use super::writer::{Shared, Writer};
use super::{OpenError, Repaired, create_segment, empty_segment_bytes, frame, step};
use crate::contract::{Entry, Revision};
use crate::durable::{FIRST_REVISION, Loaded};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Use,
    Repair,
}

pub(super) struct Opened {
    pub writer: Writer,
    pub loaded: Loaded,
    /// What was found and done.
    pub repaired: Repaired,
}

/// Opens or creates a data directory and hands out what it holds.
pub(super) fn open(
    dir: &Path,
    snapshot_log_bytes: u64,
    purpose: Purpose,
    each: &mut dyn FnMut(Entry),
) -> Result<Opened, OpenError> {
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
    let reading = if repairs { Reading::Cut } else { Reading::Locked };
    let mut log = read::log(dir, &manifest, reading, RECENT_BYTES)?;
    let found = log.revision;
    let mut reached = end.map_or(Ok(()), |end| end.check_revision(dir, &manifest, found));
    // A move goes past what was lost, too.
    let highest = lock.end.map_or(found, |end| end.revision.max(found));
    let announced = step::announced(dir)?;
    let copied = place.copied || announced.as_ref().is_some_and(|a| a.copied);
    let plan = step::plan(highest, announced.as_ref(), copied || repairs, repairs);
    // Not so after a move that was only kept from saying that it is finished.
    let moves_to = plan.goal().filter(|goal| *goal > found);
    // All of it is read, and so checked, before anything in the directory changes.
    let (mut loaded, mut snapshot_bytes) = match moves_to {
        None => hand_out(dir, &manifest, &mut log, each)?,
        Some(_) => {
            merge_all(dir, &manifest, &mut log, |_| Ok(()))?;
            (Loaded::default(), 0)
        }
    };
    // Before files are deleted that a copy does not name.
    if copied {
        std::mem::replace(&mut reached, Ok(()))?;
    }
    plan.write_down(dir)?;
    remove_leftovers(dir, &manifest, found, plan.goal(), copied)?;
    // And after a manifest that is too old was noticed: then nothing was cut.
    reached?;
    let first = *manifest.segments.last().expect("Manifest::read refuses an empty one");
    let mut tail_path = directory::segment(dir, first);
    let damaged = tidy(&tail_path, &log, lock.closed)?;
    let (mut manifest, mut log_bytes) = (manifest, log.bytes);
    if let Some(goal) = moves_to {
        (manifest, snapshot_bytes) = move_on(dir, &manifest, &mut log, goal)?;
        log_bytes = 0;
        tail_path = directory::segment(dir, Revision(goal.0 + 1));
        if purpose == Purpose::Use {
            tracing::warn!(
                dir = %dir.display(), found = found.0, now = goal.0,
                "the data directory was copied or put back: its revision moves on, and watches begin anew"
            );
            let mut moved = read::log(dir, &manifest, Reading::Locked, 0)?;
            loaded = hand_out(dir, &manifest, &mut moved, each)?.0;
        }
    }
    let mut unmarked = Some(place);
    if plan.goal().is_some()
        && let Some(place) = unmarked.take()
    {
        place.renew(dir)?;
        step::finish(dir)?;
    }
    let tail = Tail::open(tail_path.clone()).map_err(|e| OpenError::io(&tail_path, e))?;
    let revision = moves_to.unwrap_or(found);
    let shared = Shared { manifest, snapshot_bytes, unfinished: false, failure: None };
    let writer = Writer {
        dir: dir.to_owned(),
        lock: Some(lock),
        revision,
        tail,
        unmarked,
        since_snapshot: log_bytes,
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
    Ok(Opened { writer, loaded, repaired: Repaired { kept: found, revision, damaged } })
}

/// Every entry as of before the last changes, and those. Also the size of the snapshot. Nothing is left in `log`.
fn hand_out(
    dir: &Path,
    manifest: &Manifest,
    log: &mut Log,
    each: &mut dyn FnMut(Entry),
) -> Result<(Loaded, u64), OpenError> {
    let mut values = Values::open(dir, &manifest.segments)?;
    // Given away, so that it becomes smaller while the state grows.
    let newest = std::mem::take(&mut log.newest);
    let snapshot_bytes = merge(dir, manifest.snapshot, &mut values, newest, |entry| {
        each(entry.to_entry());
        Ok::<_, OpenError>(())
    })?;
    let recent = std::mem::take(&mut log.recent).into_iter();
    let changes = recent.map(|change| change.read(&mut values)).collect::<Result<_, _>>()?;
    Ok((Loaded { revision: log.revision, changes }, snapshot_bytes))
}

/// Every entry as of the end of the log.
fn merge_all(
    dir: &Path,
    manifest: &Manifest,
    log: &mut Log,
    each: impl FnMut(&EntryRef<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    log.settle();
    let mut values = Values::open(dir, &manifest.segments)?;
    let newest = log.newest.iter().map(|(key, location)| (key.clone(), *location));
    merge(dir, manifest.snapshot, &mut values, newest, each).map(drop)
}

/// Leaves the last segment as a proper close leaves it: whole batches, to the end. Where damage was kept aside, if there is any.
fn tidy(path: &Path, log: &Log, closed: bool) -> Result<Option<PathBuf>, OpenError> {
    // Before it is written anew: whoever knows more may still find something in it.
    let damaged = log.damaged.then(|| directory::keep_damaged(path)).transpose()?;
    if log.torn_bytes > 0 && damaged.is_none() {
        let (offset, bytes) = (log.tail_bytes, log.torn_bytes);
        tracing::warn!(file = %path.display(), offset, bytes, "dropped an interrupted, never acknowledged write");
    }
    let whole = log.tail_length == log.tail_bytes.next_multiple_of(frame::SECTOR as u64);
    if log.torn_bytes > 0 || !whole || !closed {
        let rewritten = match rewrite(path, log.tail_bytes) {
            // What is kept is another name of the same file.
            Err(error) if is_no_room(&error) && damaged.is_none() => rewrite_in_place(path, log.tail_bytes),
            rewritten => rewritten,
        };
        rewritten.map_err(|e| OpenError::io(path, e))?;
    }
    Ok(damaged)
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

/// Writes what was read as a store that goes on after `goal`, and deletes what it replaces.
fn move_on(dir: &Path, old: &Manifest, log: &mut Log, goal: Revision) -> Result<(Manifest, u64), OpenError> {
    let written = step::write(dir, goal, |out| merge_all(dir, old, log, |entry| out.put(entry)))?;
    let segments = old.segments.iter().map(|first| directory::segment(dir, *first));
    for path in segments.chain(old.snapshot.map(|at| directory::snapshot(dir, at))) {
        std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))?;
    }
    Ok(written)
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
