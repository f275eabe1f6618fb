//! Folding the closed part of the log into a new snapshot, on a thread of its own.
//!
//! ```text
//!  snapshot-100 ─┐
//!  log-101 ──────┼── merge by key ──> snapshot-900 ── manifest ── the three old files are deleted
//!  log-500 ──────┘
//!  log-901   (commits go on here meanwhile; nobody waits)
//! ```
//!
//! It reads files, not the state: no commit is held up by a scan, no second copy of the values is made in
//! memory, and every old byte is checked once more on the way. In memory it holds, for each key in the closed
//! segments, only where its newest value stands.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::manifest::Manifest;
use super::out::Out;
use super::read::{SegmentReader, SnapshotReader, explain};
use super::{OpenError, Shared, directory, record};
use crate::contract::{Key, Revision};

pub(super) struct Fold {
    pub dir: PathBuf,
    pub old: Option<Revision>,
    /// Closed segments, in order; together with `old` they are the whole store as of `target`.
    pub segments: Vec<Revision>,
    pub target: Revision,
    pub cancelled: Arc<AtomicBool>,
    pub shared: Arc<Mutex<Shared>>,
}

enum FoldError {
    Cancelled,
    Open(OpenError),
}

impl From<OpenError> for FoldError {
    fn from(error: OpenError) -> Self {
        FoldError::Open(error)
    }
}

/// Where the newest value of a key stands; `None` in its place: deleted.
struct Place {
    segment: usize,
    offset: u64,
    length: usize,
    /// Of the value: it is read a second time, and must still be what was checked the first time.
    checksum: u32,
    revision: Revision,
    expires_at: Option<u64>,
}

impl Fold {
    /// Leaves the outcome in `shared`: the new manifest, or a failure that stops the store.
    pub(super) fn run(self) {
        match self.fold() {
            Ok(entries) => tracing::info!(revision = self.target.0, entries, "snapshot written"),
            Err(FoldError::Cancelled) => {}
            // The log has room left, so the store goes on; the next attempt comes when the log has grown again.
            Err(FoldError::Open(error @ (OpenError::Full { .. } | OpenError::ReadOnly { .. }))) => {
                tracing::error!(%error, "no snapshot could be written");
            }
            Err(FoldError::Open(error)) if error.can_be_tried_again() => {
                tracing::warn!(%error, "no snapshot could be written for now");
                self.shared.lock().unfinished = true;
            }
            Err(FoldError::Open(error)) => {
                let why = format!("a snapshot could not be written: {error}");
                self.shared.lock().failure.get_or_insert(why);
            }
        }
    }

    fn fold(&self) -> Result<u64, FoldError> {
        let newest = self.newest()?;
        let path = directory::snapshot(&self.dir, self.target);
        let mut out = Out::create(&path).map_err(|e| OpenError::io(&path, e))?;
        record::encode_start(&mut out.buffer, record::SNAPSHOT_MAGIC, self.target);
        let files: Vec<_> = self.segments.iter().map(|first| directory::segment(&self.dir, *first)).collect();
        let files: Vec<(File, PathBuf)> = files
            .into_iter()
            .map(|path| File::open(&path).map(|f| (f, path.clone())).map_err(|e| OpenError::io(&path, e)))
            .collect::<Result<_, _>>()?;
        let mut newest = newest.into_iter().peekable();
        let mut values = Values::new(files);
        if let Some(old) = self.old {
            let mut reader = SnapshotReader::open(directory::snapshot(&self.dir, old), old)?;
            while let Some((revision, change, payload)) = reader.next()? {
                self.check_cancelled()?;
                while let Some((key, place)) = newest.next_if(|(key, _)| **key < *change.key) {
                    put_place(&mut out, &key, place, &mut values)?;
                }
                match newest.next_if(|(key, _)| **key == *change.key) {
                    Some((key, place)) => put_place(&mut out, &key, place, &mut values)?,
                    None => {
                        let bytes = &payload[change.value.clone().unwrap_or(0..0)];
                        out.put(change.key, bytes, revision, change.expires_at)?;
                    }
                }
            }
        }
        for (key, place) in newest {
            self.check_cancelled()?;
            put_place(&mut out, &key, place, &mut values)?;
        }
        let count = out.count;
        let bytes = out.finish()?;
        self.adopt(bytes)?;
        Ok(count)
    }

    /// First pass: where the newest value of each key in the closed segments stands.
    fn newest(&self) -> Result<BTreeMap<Key, Option<Place>>, FoldError> {
        let mut newest = BTreeMap::new();
        let mut reached = None;
        for (segment, first) in self.segments.iter().enumerate() {
            let mut reader = SegmentReader::open(directory::segment(&self.dir, *first), *first)?;
            loop {
                self.check_cancelled()?;
                let more = reader.next(|revision, change, start, payload| {
                    let place = change.value.clone().map(|range| Place {
                        segment,
                        offset: start + range.start as u64,
                        length: range.len(),
                        checksum: crc32c::crc32c(&payload[range]),
                        revision,
                        expires_at: change.expires_at,
                    });
                    newest.insert(Key::from(change.key), place);
                });
                if !more.map_err(|fault| explain(&reader.path, fault))? {
                    break;
                }
            }
            reached = Some((reader.revision, reader.path));
        }
        match reached {
            Some((revision, path)) if revision != self.target => {
                let what = format!("it ends with revision {revision} instead of {}", self.target);
                Err(OpenError::damaged(&path, 0, what).into())
            }
            _ => Ok(newest),
        }
    }

    /// From now on the new snapshot counts; what it replaces is deleted.
    fn adopt(&self, bytes: u64) -> Result<(), FoldError> {
        {
            let mut shared = self.shared.lock();
            let mut manifest = shared.manifest.clone();
            manifest.snapshot = Some(self.target);
            manifest.segments.retain(|first| *first > self.target);
            if let Err(error) = manifest.write(&self.dir) {
                let unchanged = Manifest::read(&self.dir).ok().as_ref() == Some(&shared.manifest);
                return Err(FoldError::Open(match OpenError::io(&self.dir, error) {
                    error if unchanged || !error.can_be_tried_again() => error,
                    // The new one stands there, and may be gone after a crash.
                    error => OpenError::Io {
                        path: self.dir.clone(),
                        source: std::io::Error::other(error.to_string()),
                    },
                }));
            }
            shared.manifest = manifest;
            shared.snapshot_bytes = bytes;
        }
        // A file that cannot be deleted now is deleted at the next start.
        let old = self.old.map(|old| directory::snapshot(&self.dir, old));
        for path in self.segments.iter().map(|first| directory::segment(&self.dir, *first)).chain(old) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "an old file could not be deleted");
            }
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), FoldError> {
        if self.cancelled.load(Ordering::Relaxed) { Err(FoldError::Cancelled) } else { Ok(()) }
    }
}

/// Copies the value from the segment it stands in.
fn put_place(out: &mut Out, key: &str, place: Option<Place>, values: &mut Values) -> Result<(), OpenError> {
    let Some(place) = place else { return Ok(()) };
    out.put(key, values.read(&place)?, place.revision, place.expires_at)
}

/// The values of the closed segments. What was written in the order of its keys stands so in the log, and then a stretch of
/// it is read at once; other values are read one by one.
struct Values {
    files: Vec<(File, PathBuf)>,
    /// What was read last, and where it stands.
    window: Vec<u8>,
    segment: usize,
    start: u64,
    /// Where the last value ended.
    last_end: u64,
}

impl Values {
    /// A value so close behind the last one belongs to a row of them.
    const NEAR: u64 = 4096;
    const AHEAD: usize = 64 << 10;

    fn new(files: Vec<(File, PathBuf)>) -> Values {
        Values { files, window: Vec::new(), segment: 0, start: 0, last_end: 0 }
    }

    fn read(&mut self, place: &Place) -> Result<&[u8], OpenError> {
        let (file, path) = &self.files[place.segment];
        let end = place.offset + place.length as u64;
        let there = self.start..=self.start + self.window.len() as u64;
        if place.segment != self.segment || !there.contains(&place.offset) || !there.contains(&end) {
            let gap = place.offset.wrapping_sub(self.last_end);
            let in_a_row = place.segment == self.segment && gap < Self::NEAR;
            let wanted = if in_a_row { place.length.max(Self::AHEAD) } else { place.length };
            self.window.resize(wanted, 0);
            let read =
                read_up_to(file, &mut self.window, place.offset).map_err(|e| OpenError::io(path, e))?;
            self.window.truncate(read);
            (self.segment, self.start) = (place.segment, place.offset);
        }
        self.last_end = end;
        let from = (place.offset - self.start) as usize;
        match self.window.get(from..from + place.length) {
            Some(value) if crc32c::crc32c(value) == place.checksum => Ok(value),
            _ => Err(OpenError::damaged(path, place.offset, "a value changed while it was read")),
        }
    }
}

/// As much as there is, at most a buffer full.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(segment: usize, range: std::ops::Range<usize>, bytes: &[u8]) -> Place {
        let checksum = crc32c::crc32c(&bytes[range.clone()]);
        let (offset, length) = (range.start as u64, range.len());
        Place { segment, offset, length, checksum, revision: Revision(1), expires_at: None }
    }

    #[test]
    fn values_are_read_wherever_they_stand() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let open = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            (File::open(&path).unwrap(), path)
        };
        let other: Vec<u8> = bytes.iter().rev().copied().collect();
        let mut values = Values::new(vec![open("a", &bytes), open("b", &other)]);
        let a_row = (0..140).map(|i| (0, i * 2100..i * 2100 + 2000));
        let elsewhere = [
            (1, 2000..4000),
            (0, 299_000..300_000),
            (0, 0..0),
            (0, 0..299_999),
            (1, 299_999..300_000),
            (1, 1..2),
        ];
        for (segment, range) in a_row.chain(elsewhere) {
            let all = if segment == 0 { &bytes } else { &other };
            let read = values.read(&place(segment, range.clone(), all)).unwrap();
            assert!(read == &all[range.clone()], "{segment} {range:?}");
        }
        let mut wrong = place(0, 10..20, &bytes);
        wrong.checksum ^= 1;
        assert!(values.read(&wrong).is_err(), "changed since it was checked");
        let beyond = Place { length: 300_001, ..place(0, 0..1, &bytes) };
        assert!(values.read(&beyond).is_err(), "cut since it was checked");
    }
}
