//! Reading snapshots and log segments, trusting nothing.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::backup::pause;
use super::frame::{Fault, FaultKind, Frames, SECTOR};
use super::manifest::Manifest;
use super::merge::{Location, Newest, Values};
use super::record::{self, EntryRef, RawChange, SnapshotFrame};
use super::{OpenError, directory};
use crate::contract::{Change, Key, Revision};
use crate::durable::FIRST_REVISION;

/// An index of the log segments, and where the good part of the last one ends.
pub(super) struct Log {
    /// Of the last record.
    pub revision: Revision,
    /// All but what is in `recent`.
    pub newest: Newest,
    /// The last changes, in order, up to `revision` and without a gap.
    pub recent: VecDeque<Located>,
    /// In all segments together.
    pub bytes: u64,
    /// Of the last segment: the end of its last good frame.
    pub tail_bytes: u64,
    /// Of the last segment, with padding and space that is not used yet.
    pub tail_length: u64,
    /// Bytes of an interrupted write (and such space) after the good part.
    pub torn_bytes: u64,
    /// They are damage, not an interrupted write: something was discarded.
    pub damaged: bool,
}

impl Log {
    /// Keeps no changes apart any more.
    pub(super) fn merge_recent(&mut self) {
        for Located { key, location, .. } in self.recent.drain(..) {
            self.newest.insert(key, location);
        }
    }
}

/// A change whose value is still in the log.
pub(super) struct Located {
    revision: Revision,
    key: Key,
    /// `None`: deleted.
    location: Option<Location>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// Nobody else has it open.
    Locked,
    /// The same, and the last segment is truncated where it is damaged.
    Truncate,
    /// Somebody may be writing.
    Live,
}

/// How often a record that somebody may be writing is read before it counts as damaged.
const ATTEMPTS: u32 = 10;
const RETRY_AFTER: Duration = Duration::from_millis(10);

/// Reads the whole log. About `recent_bytes` at its end are kept apart as changes.
pub(super) fn log(
    dir: &Path,
    manifest: &Manifest,
    reading: Reading,
    recent_bytes: usize,
) -> Result<Log, OpenError> {
    let mut revision = manifest.snapshot.unwrap_or(FIRST_REVISION);
    let mut recent = Recent { limit: recent_bytes, ..Recent::default() };
    let (mut bytes, mut tail_bytes, mut tail_length, mut torn_bytes) = (0, 0, 0, 0);
    let mut damaged = false;
    for (i, first) in manifest.segments.iter().enumerate() {
        let last = i + 1 == manifest.segments.len();
        let path = directory::segment(dir, *first);
        if first.0 != revision.0 + 1 {
            let what =
                format!("it begins with revision {first}, but the files before it end with {revision}");
            return Err(OpenError::damaged(&path, 0, what));
        }
        let mut reader = match SegmentReader::open(path.clone(), *first) {
            Ok(reader) => reader,
            // Not even its start is readable: all of it is discarded.
            Err(OpenError::Damaged { .. }) if last && reading == Reading::Truncate => {
                let length = std::fs::metadata(&path).map_err(|e| OpenError::io(&path, e))?.len();
                (tail_bytes, tail_length, torn_bytes, damaged) = (0, length, length, true);
                break;
            }
            Err(error) => return Err(error),
        };
        let next = manifest.segments.get(i + 1);
        loop {
            let each = |revision, change: &RawChange<'_>, start, payload: &[u8]| {
                let location = Location::of(change, revision, i, start, payload);
                recent.push(Located { revision, key: Key::from(change.key), location });
            };
            let read =
                if last && reading == Reading::Live { reader.next_live(each) } else { reader.next(each) };
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault)
                    if last
                        && (matches!(fault.kind, FaultKind::Torn)
                            || reading == Reading::Truncate
                                && matches!(fault.kind, FaultKind::Damaged(_))) =>
                {
                    damaged = matches!(fault.kind, FaultKind::Damaged(_));
                    torn_bytes = reader.frames.length() - fault.offset;
                    break;
                }
                Err(fault) => {
                    if let (Some(next), FaultKind::Torn) = (next, &fault.kind) {
                        return Err(truncated(&reader, *next));
                    }
                    let error = explain(&reader.path, fault);
                    return Err(match last && reading == Reading::Locked {
                        true => error.repairable(reader.revision),
                        false => error,
                    });
                }
            }
        }
        if let Some(next) = next.filter(|next| next.0 > reader.revision.0 + 1) {
            return Err(truncated(&reader, *next));
        }
        revision = reader.revision;
        (tail_bytes, tail_length) = (reader.frames.offset(), reader.frames.length());
        if !last && tail_length != tail_bytes.next_multiple_of(SECTOR as u64) {
            let what = "it was closed, but does not end with its last batch";
            return Err(OpenError::damaged(&reader.path, tail_bytes, what));
        }
        bytes += tail_bytes;
    }
    let Recent { newest, changes: recent, .. } = recent;
    Ok(Log { revision, newest, recent, bytes, tail_bytes, tail_length, torn_bytes, damaged })
}

/// A segment that does not reach the next one: what follows is useless, so no repair can help.
fn truncated(reader: &SegmentReader, next: Revision) -> OpenError {
    let (bytes, kept, last) = (reader.frames.length(), reader.revision, Revision(next.0 - 1));
    let what =
        format!("its last revision was {last}, now it has {bytes} bytes and ends with revision {kept}");
    OpenError::truncated(&reader.path, what, Some((Revision(kept.0 + 1), last)), None)
}

/// How much of the log is handed out as changes: enough for watchers to resume after a restart, and little compared to
/// the memory and the time that a start may take.
pub(super) const RECENT_BYTES: usize = 16 << 20;

/// The log while it is read: its last part as it is, of what is older only the newest of each key.
#[derive(Default)]
struct Recent {
    limit: usize,
    newest: Newest,
    changes: VecDeque<Located>,
    bytes: usize,
}

impl Recent {
    fn push(&mut self, change: Located) {
        self.bytes += change.weight();
        self.changes.push_back(change);
        while self.bytes > self.limit
            && let Some(revision) = self.changes.front().map(|c| c.revision)
        {
            // All changes of a revision, or none.
            while let Some(change) = self.changes.pop_front_if(|c| c.revision == revision) {
                self.bytes -= change.weight();
                self.newest.insert(change.key, change.location);
            }
        }
    }
}

impl Located {
    /// In memory, as a change with its value.
    fn weight(&self) -> usize {
        self.key.len() + self.location.map_or(0, |l| l.length) + 64
    }

    pub(super) fn read(self, values: &mut Values) -> Result<Change, OpenError> {
        let Located { revision, key, location } = self;
        let value = location.map(|l| values.read(&l).map(Bytes::copy_from_slice)).transpose()?;
        Ok(Change { revision, key, value, expires_at: location.and_then(|l| l.expires_at) })
    }
}

pub(super) struct SegmentReader {
    pub frames: Frames,
    pub path: PathBuf,
    /// Of the last record read; one before the segment's first at the beginning.
    pub revision: Revision,
}

impl SegmentReader {
    pub(super) fn open(path: PathBuf, first: Revision) -> Result<SegmentReader, OpenError> {
        let frames = open_started(&path, record::SEGMENT_MAGIC, first)?;
        Ok(SegmentReader { frames, path, revision: Revision(first.0 - 1) })
    }

    /// Hands out the changes of one record with its payload and the payload's offset; `false` at the end.
    pub(super) fn next(
        &mut self,
        mut each: impl FnMut(Revision, &RawChange<'_>, u64, &[u8]),
    ) -> Result<bool, Fault> {
        let offset = self.frames.offset();
        let damaged = |what| Fault { offset, kind: FaultKind::Damaged(what) };
        let Some((start, payload)) = self.frames.next()? else { return Ok(false) };
        let expected = Revision(self.revision.0 + 1);
        let read = record::decode_record(payload, |revision, change| {
            if revision == expected {
                each(revision, &change, start, payload);
            }
        });
        match read {
            Some(revision) if revision == expected => self.revision = revision,
            Some(_) => return Err(damaged("the revision does not follow the one before")),
            None => return Err(damaged("the record has an unknown format")),
        }
        Ok(true)
    }
}

impl SegmentReader {
    /// Like `next`, while somebody may be writing: a record that is complete only when read again ends the log, for it
    /// was written meanwhile.
    pub(super) fn next_live(
        &mut self,
        mut each: impl FnMut(Revision, &RawChange<'_>, u64, &[u8]),
    ) -> Result<bool, Fault> {
        let at = self.frames.offset();
        let mut read = self.next(&mut each);
        for _ in 0..ATTEMPTS {
            match &read {
                // A complete record with the wrong revision will not change any more.
                Err(fault) if !matches!(fault.kind, FaultKind::Torn) && self.frames.offset() == at => {}
                _ => return read,
            }
            let reread = self.frames.reread();
            reread.map_err(|error| Fault { offset: at, kind: FaultKind::Io(error) })?;
            read = self.next(&mut each).map(|_| false);
            if read.is_err() {
                pause(RETRY_AFTER);
            }
        }
        read
    }
}

pub(super) struct SnapshotReader {
    pub frames: Frames,
    path: PathBuf,
    revision: Revision,
    last_key: String,
    count: u64,
}

impl SnapshotReader {
    pub(super) fn open(path: PathBuf, revision: Revision) -> Result<SnapshotReader, OpenError> {
        let frames = open_started(&path, record::SNAPSHOT_MAGIC, revision)?;
        Ok(SnapshotReader { frames, path, revision, last_key: String::new(), count: 0 })
    }

    /// `None` after the last entry, which must be the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<EntryRef<'_>>, OpenError> {
        let offset = self.frames.offset();
        let (path, length) = (&self.path, self.frames.length());
        let damaged = |what: &str| OpenError::damaged(path, offset, what);
        let payload = match self.frames.next() {
            Ok(Some((_, payload))) => payload,
            Ok(None) => return Err(damaged("it ends too early")),
            Err(fault) => return Err(explain(path, fault)),
        };
        // The end of this frame: `offset` moved on, but the payload borrows the reader.
        let end = offset + (super::frame::HEADER + payload.len() + super::frame::END.len()) as u64;
        match record::decode_snapshot_frame(payload) {
            Some(SnapshotFrame::Entry(entry)) => {
                if self.count > 0 && *entry.key <= *self.last_key {
                    return Err(damaged("the keys are out of order"));
                }
                if entry.revision > self.revision {
                    return Err(damaged("an entry is newer than the snapshot"));
                }
                self.last_key.clear();
                self.last_key.push_str(entry.key);
                self.count += 1;
                Ok(Some(entry))
            }
            Some(SnapshotFrame::Last(count)) if count != self.count => Err(damaged("entries are missing")),
            Some(SnapshotFrame::Last(_)) if end != length => Err(damaged("something follows the end")),
            Some(SnapshotFrame::Last(_)) => Ok(None),
            None => Err(damaged("an entry has an unknown format")),
        }
    }
}

/// Opens a file whose first frame must be this magic and revision. Files get their name after they have
/// that frame, so it is never torn.
fn open_started(path: &Path, magic: &[u8; 16], revision: Revision) -> Result<Frames, OpenError> {
    let mut frames = Frames::open(path).map_err(|e| OpenError::io(path, e))?;
    match frames.next() {
        Ok(Some((_, payload))) if record::decode_start(payload, magic) == Some(revision) => Ok(frames),
        Ok(Some(_)) => Err(OpenError::damaged(path, 0, "it does not begin as its name says")),
        Ok(None) => Err(OpenError::damaged(path, 0, "it is empty")),
        Err(fault) => Err(explain(path, fault)),
    }
}

pub(super) fn explain(path: &Path, fault: Fault) -> OpenError {
    match fault.kind {
        FaultKind::Torn => OpenError::damaged(path, fault.offset, "it ends inside a record"),
        FaultKind::Damaged(what) => OpenError::damaged(path, fault.offset, what),
        FaultKind::Io(error) => OpenError::io(path, error),
    }
}
