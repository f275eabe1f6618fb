//! Opens a data directory: everything in it is read, verified and handed out entry by entry; only then is anything cleaned up.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::backoff::Backoff;
use super::directory::{self, Lock, Name};
use super::error::is_no_space;
use super::identity::Identity;
use super::manifest::Manifest;
use super::merge::{Values, merge};
use super::read::{self, Log, RECENT_BYTES, Reading};
use super::record::EntryRef;
use super::reserved_space::ReservedSpace;
use super::tail::Tail;
use super::writer::{Shared, Writer};
use super::{OpenError, Repaired, create_segment, empty_segment_bytes, frame, revision_jump};
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
    let identity = Identity::read(dir)?;
    let manifest = Manifest::read(dir)?;
    let repairs = purpose == Purpose::Repair;
    // A repair discards what is lost, however that happened.
    let end = lock.end.filter(|_| !repairs);
    end.map_or(Ok(()), |end| end.check_length(dir, &manifest))?;
    let reading = if repairs { Reading::Truncate } else { Reading::Locked };
    let mut log = read::log(dir, &manifest, reading, RECENT_BYTES)?;
    let found = log.revision;
    let mut reached = end.map_or(Ok(()), |end| end.check_revision(dir, &manifest, found));
    // A jump goes past what was lost, too.
    let highest = lock.end.map_or(found, |end| end.revision.max(found));
    let pending = revision_jump::pending(dir)?;
    let copied = identity.copied || pending.as_ref().is_some_and(|p| p.copied);
    let plan = revision_jump::plan(highest, pending.as_ref(), copied || repairs, repairs);
    // None is left if only `MOVE` was not deleted yet.
    let jump_to = plan.target().filter(|target| *target > found);
    // Everything is read, and so verified, before anything in the directory changes.
    let (mut loaded, mut snapshot_bytes) = match jump_to {
        None => hand_out(dir, &manifest, &mut log, each)?,
        Some(_) => {
            merge_all(dir, &manifest, &mut log, |_| Ok(()))?;
            (Loaded::default(), 0)
        }
    };
    // Before files are deleted that are not part of a copy.
    if copied {
        std::mem::replace(&mut reached, Ok(()))?;
    }
    plan.record(dir)?;
    remove_leftovers(dir, &manifest, found, plan.target(), copied)?;
    // After an outdated manifest was noticed: then nothing was truncated.
    reached?;
    let first = *manifest.segments.last().expect("Manifest::read refuses an empty one");
    let mut tail_path = directory::segment(dir, first);
    let damaged = clean_tail(&tail_path, &log, lock.closed)?;
    let (mut manifest, mut log_bytes) = (manifest, log.bytes);
    if let Some(target) = jump_to {
        (manifest, snapshot_bytes) = jump(dir, &manifest, &mut log, target)?;
        log_bytes = 0;
        tail_path = directory::segment(dir, Revision(target.0 + 1));
        if purpose == Purpose::Use {
            tracing::warn!(
                dir = %dir.display(), from = found.0, to = target.0,
                "the data directory was copied or restored: advancing its revision; watches have to start over"
            );
            let mut log = read::log(dir, &manifest, Reading::Locked, 0)?;
            loaded = hand_out(dir, &manifest, &mut log, each)?.0;
        }
    }
    let mut stale_identity = Some(identity);
    if plan.target().is_some()
        && let Some(identity) = stale_identity.take()
    {
        identity.renew(dir)?;
        revision_jump::finish(dir)?;
    }
    let tail = Tail::open(tail_path.clone()).map_err(|e| OpenError::io(&tail_path, e))?;
    let revision = jump_to.unwrap_or(found);
    let shared = Shared { manifest, snapshot_bytes, retry: false, failure: None };
    let writer = Writer {
        dir: dir.to_owned(),
        lock: Some(lock),
        revision,
        tail,
        stale_identity,
        since_snapshot: log_bytes,
        snapshot_log_bytes,
        buffer: Vec::new(),
        failed: false,
        full: None,
        space_backoff: Backoff::new(),
        reserved: ReservedSpace::new(dir),
        removed: false,
        snapshot_backoff: Backoff::new(),
        shared: Arc::new(Mutex::new(shared)),
        compaction: None,
        cancelled: Arc::default(),
    };
    Ok(Opened { writer, loaded, repaired: Repaired { kept: found, revision, damaged } })
}

/// Hands out every entry as of before the last changes, and returns those and the size of the snapshot. Leaves nothing in `log`.
fn hand_out(
    dir: &Path,
    manifest: &Manifest,
    log: &mut Log,
    each: &mut dyn FnMut(Entry),
) -> Result<(Loaded, u64), OpenError> {
    let mut values = Values::open(dir, &manifest.segments)?;
    // Consumed, so that it shrinks while the state grows.
    let newest = std::mem::take(&mut log.newest);
    let snapshot_bytes = merge(dir, manifest.snapshot, &mut values, newest, |entry| {
        each(entry.to_entry());
        Ok::<_, OpenError>(())
    })?;
    let recent = std::mem::take(&mut log.recent).into_iter();
    let changes = recent.map(|change| change.read(&mut values)).collect::<Result<_, _>>()?;
    Ok((Loaded { revision: log.revision, changes }, snapshot_bytes))
}

/// Hands out every entry as of the end of the log.
fn merge_all(
    dir: &Path,
    manifest: &Manifest,
    log: &mut Log,
    each: impl FnMut(&EntryRef<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    log.merge_recent();
    let mut values = Values::open(dir, &manifest.segments)?;
    let newest = log.newest.iter().map(|(key, location)| (key.clone(), *location));
    merge(dir, manifest.snapshot, &mut values, newest, each).map(drop)
}

/// Leaves the last segment as a clean shutdown does: whole batches up to its end. Returns where a damaged one is kept.
fn clean_tail(path: &Path, log: &Log, closed: bool) -> Result<Option<PathBuf>, OpenError> {
    // Before it is rewritten: somebody may still recover something from it.
    let damaged = log.damaged.then(|| directory::keep_damaged(path)).transpose()?;
    if log.torn_bytes > 0 && damaged.is_none() {
        let (offset, bytes) = (log.tail_bytes, log.torn_bytes);
        tracing::warn!(file = %path.display(), offset, bytes, "discarded an interrupted write that was never acknowledged");
    }
    let whole = log.tail_length == log.tail_bytes.next_multiple_of(frame::SECTOR as u64);
    if log.torn_bytes > 0 || !whole || !closed {
        let rewritten = match rewrite(path, log.tail_bytes) {
            // A damaged one is kept as another link to the same file.
            Err(error) if is_no_space(&error) && damaged.is_none() => rewrite_in_place(path, log.tail_bytes),
            rewritten => rewritten,
        };
        rewritten.map_err(|e| OpenError::io(path, e))?;
    }
    Ok(damaged)
}

/// Creates a store. FORMAT comes last, so a directory that has it is complete.
fn create(dir: &Path) -> Result<(), OpenError> {
    for (path, name) in directory::list(dir)? {
        let file_name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let harmless = match name {
            Name::Temporary => true,
            // Left by an interrupted creation: it holds no record yet.
            Name::Segment(_) => std::fs::metadata(&path).is_ok_and(|m| m.len() <= empty_segment_bytes()),
            Name::Snapshot(_) | Name::Identity(_) => false,
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

/// Rewrites the good part of the last segment.
///
/// After a failed fsync the kernel may show, from its cache, bytes that never reached the disk, and reports no
/// further error. So unless the last shutdown was clean, what was read is written once more, to a new file with an
/// fsync of its own; that also cuts off a torn end (and preallocated space) without touching the original.
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

/// The same where there is no space for a second file: each byte over itself. A crash in the middle leaves every sector as it
/// was, or as it should be.
fn rewrite_in_place(path: &Path, bytes: u64) -> io::Result<()> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut chunk = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let length = chunk.len().min((bytes - at) as usize);
        file.read_exact_at(&mut chunk[..length], at)?;
        file.write_all_at(&chunk[..length], at)?;
        at += length as u64;
    }
    let padding = frame::padding(bytes);
    file.write_all_at(&padding, bytes)?;
    file.set_len(bytes + padding.len() as u64)?;
    file.sync_all()
}

/// Rewrites the store so that it resumes after `target`, and deletes what is replaced.
fn jump(dir: &Path, old: &Manifest, log: &mut Log, target: Revision) -> Result<(Manifest, u64), OpenError> {
    let written = revision_jump::write(dir, target, |out| merge_all(dir, old, log, |entry| out.put(entry)))?;
    let segments = old.segments.iter().map(|first| directory::segment(dir, *first));
    for path in segments.chain(old.snapshot.map(|at| directory::snapshot(dir, at))) {
        std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))?;
    }
    Ok(written)
}

/// Deletes what an interrupted compaction or revision jump left, and refuses what no crash of ours can have left. In a
/// directory that was `copied` such files are of the state that the copy was laid over.
fn remove_leftovers(
    dir: &Path,
    manifest: &Manifest,
    revision: Revision,
    target: Option<Revision>,
    copied: bool,
) -> Result<(), OpenError> {
    for (path, name) in directory::list(dir)? {
        let removable = match name {
            Name::Other | Name::Identity(_) => continue,
            Name::Temporary => true,
            Name::Segment(first) if manifest.segments.contains(&first) => continue,
            Name::Snapshot(at) if manifest.snapshot == Some(at) => continue,
            // Compacted into the snapshot, or new and still empty.
            Name::Segment(first) => {
                let length = std::fs::metadata(&path).map_err(|e| OpenError::io(&path, e))?.len();
                manifest.segments.first().is_some_and(|oldest| first < *oldest)
                    || length <= empty_segment_bytes()
            }
            // Older than the one in use, or complete but never used.
            Name::Snapshot(at) => at <= revision || target == Some(at),
        };
        if !removable && copied {
            tracing::warn!(file = %path.display(), "deleted a file that is not part of the copy that was restored");
        } else if !removable {
            let what = "it is not listed in MANIFEST, though it is newer than what is";
            return Err(OpenError::damaged(&path, 0, what));
        }
        std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))?;
    }
    Ok(())
}
