//! A snapshot and the log segments after it, merged by key without holding their values in memory.
//!
//! ```text
//!  first pass   log-101, log-500 ──> the location of each key's newest value
//!  second pass  snapshot-100 ─┬─ merge by key ──> entries, in key order
//!               those values ─┘
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::read::SnapshotReader;
use super::record::{EntryRef, RawChange};
use super::{OpenError, directory};
use crate::contract::{Key, Revision};

/// Where a value is in the log.
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// Its index among the segments.
    pub segment: usize,
    pub offset: u64,
    pub length: usize,
    /// Of the value: it is read a second time, and must still be what was verified the first time.
    pub checksum: u32,
    pub revision: Revision,
    pub expires_at: Option<u64>,
}

impl Location {
    /// `None`: the change is a deletion. `start` is where the payload begins in the segment.
    pub(super) fn of(
        change: &RawChange<'_>,
        revision: Revision,
        segment: usize,
        start: u64,
        payload: &[u8],
    ) -> Option<Location> {
        let range = change.value.clone()?;
        Some(Location {
            segment,
            offset: start + range.start as u64,
            length: range.len(),
            checksum: crc32c::crc32c(&payload[range]),
            revision,
            expires_at: change.expires_at,
        })
    }
}

/// The location of each key's newest value in the log; `None`: deleted.
pub(super) type Newest = BTreeMap<Key, Option<Location>>;

/// Hands out every entry in key order; `newest` takes precedence over the snapshot. Returns the snapshot's size.
pub(super) fn merge<E: From<OpenError>>(
    dir: &Path,
    snapshot: Option<Revision>,
    values: &mut Values,
    newest: impl IntoIterator<Item = (Key, Option<Location>)>,
    mut each: impl FnMut(&EntryRef<'_>) -> Result<(), E>,
) -> Result<u64, E> {
    let mut newest = newest.into_iter().peekable();
    let mut bytes = 0;
    if let Some(at) = snapshot {
        let mut reader = SnapshotReader::open(directory::snapshot(dir, at), at)?;
        while let Some(entry) = reader.next()? {
            while let Some((key, location)) = newest.next_if(|(key, _)| **key < *entry.key) {
                from_log(values, &key, location, &mut each)?;
            }
            match newest.next_if(|(key, _)| **key == *entry.key) {
                Some((key, location)) => from_log(values, &key, location, &mut each)?,
                None => each(&entry)?,
            }
        }
        bytes = reader.frames.length();
    }
    for (key, location) in newest {
        from_log(values, &key, location, &mut each)?;
    }
    Ok(bytes)
}

fn from_log<E: From<OpenError>>(
    values: &mut Values,
    key: &str,
    location: Option<Location>,
    each: &mut impl FnMut(&EntryRef<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(location) = location else { return Ok(()) };
    let Location { revision, expires_at, .. } = location;
    each(&EntryRef { key, value: values.read(&location)?, revision, expires_at })
}

/// Reads values from log segments. Where they were written in key order, many are read at once; others one by one.
pub(super) struct Values {
    files: Vec<(File, PathBuf)>,
    /// The chunk that was read last, which begins at `start` of `segment`.
    window: Vec<u8>,
    segment: usize,
    start: u64,
    /// Where the last value ended.
    last_end: u64,
}

impl Values {
    /// A value that close behind the last one is taken for a sequential read.
    const NEAR: u64 = 4096;
    const AHEAD: usize = 64 << 10;

    /// Of these segments, in the order that [`Location::segment`] counts.
    pub(super) fn open(dir: &Path, segments: &[Revision]) -> Result<Values, OpenError> {
        let open = |first: &Revision| {
            let path = directory::segment(dir, *first);
            File::open(&path).map(|file| (file, path.clone())).map_err(|e| OpenError::io(&path, e))
        };
        Ok(Values::new(segments.iter().map(open).collect::<Result<_, _>>()?))
    }

    fn new(files: Vec<(File, PathBuf)>) -> Values {
        Values { files, window: Vec::new(), segment: 0, start: 0, last_end: 0 }
    }

    pub(super) fn read(&mut self, location: &Location) -> Result<&[u8], OpenError> {
        let (file, path) = &self.files[location.segment];
        let end = location.offset + location.length as u64;
        let there = self.start..=self.start + self.window.len() as u64;
        if location.segment != self.segment || !there.contains(&location.offset) || !there.contains(&end) {
            let gap = location.offset.wrapping_sub(self.last_end);
            let sequential = location.segment == self.segment && gap < Self::NEAR;
            let wanted = if sequential { location.length.max(Self::AHEAD) } else { location.length };
            self.window.resize(wanted, 0);
            let read =
                read_up_to(file, &mut self.window, location.offset).map_err(|e| OpenError::io(path, e))?;
            self.window.truncate(read);
            (self.segment, self.start) = (location.segment, location.offset);
        }
        self.last_end = end;
        let from = (location.offset - self.start) as usize;
        match self.window.get(from..from + location.length) {
            Some(value) if crc32c::crc32c(value) == location.checksum => Ok(value),
            _ => Err(OpenError::damaged(path, location.offset, "a value changed while it was read")),
        }
    }
}

/// Fills the buffer as far as the file goes.
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

    fn location(segment: usize, range: std::ops::Range<usize>, bytes: &[u8]) -> Location {
        let checksum = crc32c::crc32c(&bytes[range.clone()]);
        let (offset, length) = (range.start as u64, range.len());
        Location { segment, offset, length, checksum, revision: Revision(1), expires_at: None }
    }

    #[test]
    fn values_are_read_wherever_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let open = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            (File::open(&path).unwrap(), path)
        };
        let other: Vec<u8> = bytes.iter().rev().copied().collect();
        let mut values = Values::new(vec![open("a", &bytes), open("b", &other)]);
        let sequential = (0..140).map(|i| (0, i * 2100..i * 2100 + 2000));
        let elsewhere = [
            (1, 2000..4000),
            (0, 299_000..300_000),
            (0, 0..0),
            (0, 0..299_999),
            (1, 299_999..300_000),
            (1, 1..2),
        ];
        for (segment, range) in sequential.chain(elsewhere) {
            let all = if segment == 0 { &bytes } else { &other };
            let read = values.read(&location(segment, range.clone(), all)).unwrap();
            assert!(read == &all[range.clone()], "{segment} {range:?}");
        }
        let mut wrong = location(0, 10..20, &bytes);
        wrong.checksum ^= 1;
        assert!(values.read(&wrong).is_err(), "changed since it was checked");
        let beyond = Location { length: 300_001, ..location(0, 0..1, &bytes) };
        assert!(values.read(&beyond).is_err(), "cut since it was checked");
    }
}
