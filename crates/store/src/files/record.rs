//! The payload of a frame: a log record, a snapshot's entry, the first frame of a file.
//!
//! All numbers are little-endian.
//! ```text
//!  log record      revision u64 │ count u32 │ count × change
//!  change          kind u8 │ key length u32 │ key │ [expires_at u64] │ [value length u32 │ value]
//!  file start      16 bytes of magic │ revision u64
//!  snapshot entry  1 u8 │ revision u64 │ change (a put)
//!  snapshot end    2 u8 │ number of entries u64
//!  backup's file   3 u8 │ mode u32 │ name length u32 │ name │ content
//! ```

use std::ops::Range;

use bytes::Bytes;

use super::{BackupFile, frame};
use crate::contract::{Change, Entry, Key, Revision};

/// What a log segment begins with; the revision is its first record's.
pub(super) const SEGMENT_MAGIC: &[u8; 16] = b"setpoint log 2\r\n";
/// What a snapshot begins with; the revision is the store's.
pub(super) const SNAPSHOT_MAGIC: &[u8; 16] = b"setpoint snap 2\n";

const DELETE: u8 = 0;
const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;

const ENTRY: u8 = 1;
const LAST: u8 = 2;
const FILE: u8 = 3;

pub(super) fn encode_start(buffer: &mut Vec<u8>, magic: &[u8; 16], revision: Revision) {
    let start = frame::begin(buffer);
    buffer.extend_from_slice(magic);
    buffer.extend_from_slice(&revision.0.to_le_bytes());
    frame::finish(buffer, start);
}

pub(super) fn decode_start(payload: &[u8], magic: &[u8; 16]) -> Option<Revision> {
    let mut reader = Reader { payload, at: 0 };
    (reader.take(16)? == magic).then_some(())?;
    let revision = Revision(reader.u64()?);
    reader.done().then_some(revision)
}

/// One frame per revision. The buffer is empty, for it becomes whole sectors of a log.
pub(super) fn encode_batch(buffer: &mut Vec<u8>, batch: &[Change]) {
    for record in batch.chunk_by(|a, b| a.revision == b.revision) {
        let start = frame::begin(buffer);
        buffer.extend_from_slice(&record[0].revision.0.to_le_bytes());
        buffer.extend_from_slice(&length(record.len()));
        for change in record {
            encode_change(buffer, &change.key, change.value.as_deref(), change.expires_at);
        }
        frame::finish(buffer, start);
    }
    frame::pad(buffer);
}

pub(super) fn encode_entry(buffer: &mut Vec<u8>, entry: &EntryRef<'_>) {
    let start = frame::begin(buffer);
    buffer.push(ENTRY);
    buffer.extend_from_slice(&entry.revision.0.to_le_bytes());
    encode_change(buffer, entry.key, Some(entry.value), entry.expires_at);
    frame::finish(buffer, start);
}

pub(super) fn encode_last(buffer: &mut Vec<u8>, count: u64) {
    let start = frame::begin(buffer);
    buffer.push(LAST);
    buffer.extend_from_slice(&count.to_le_bytes());
    frame::finish(buffer, start);
}

pub(super) fn encode_file(buffer: &mut Vec<u8>, file: &BackupFile) {
    let start = frame::begin(buffer);
    buffer.push(FILE);
    buffer.extend_from_slice(&file.mode.to_le_bytes());
    buffer.extend_from_slice(&length(file.name.len()));
    buffer.extend_from_slice(file.name.as_bytes());
    buffer.extend_from_slice(&file.content);
    frame::finish(buffer, start);
}

/// `None` for any other frame.
pub(super) fn decode_file(payload: &[u8]) -> Option<BackupFile> {
    let mut reader = Reader { payload, at: 0 };
    (reader.u8()? == FILE).then_some(())?;
    let mode = reader.u32()?;
    let name_length = reader.u32()? as usize;
    let name = std::str::from_utf8(reader.take(name_length)?).ok()?.to_owned();
    Some(BackupFile { name, mode, content: payload[reader.at..].to_vec() })
}

/// An [`Entry`] in somebody else's buffer.
pub(super) struct EntryRef<'a> {
    pub key: &'a str,
    pub value: &'a [u8],
    pub revision: Revision,
    pub expires_at: Option<u64>,
}

impl EntryRef<'_> {
    pub(super) fn to_entry(&self) -> Entry {
        let (revision, expires_at) = (self.revision, self.expires_at);
        Entry { key: Key::from(self.key), value: Bytes::copy_from_slice(self.value), revision, expires_at }
    }
}

impl<'a> From<&'a Entry> for EntryRef<'a> {
    fn from(entry: &'a Entry) -> Self {
        let Entry { key, value, revision, expires_at } = entry;
        EntryRef { key, value, revision: *revision, expires_at: *expires_at }
    }
}

/// One change in a payload.
pub(super) struct RawChange<'a> {
    pub key: &'a str,
    /// The value's range in the payload; `None`: deleted.
    pub value: Option<Range<usize>>,
    pub expires_at: Option<u64>,
}

/// `None` if the payload is malformed, though its checksum is right.
pub(super) fn decode_record<'a>(
    payload: &'a [u8],
    mut each: impl FnMut(Revision, RawChange<'a>),
) -> Option<Revision> {
    let mut reader = Reader { payload, at: 0 };
    let revision = Revision(reader.u64()?);
    for _ in 0..reader.u32()? {
        each(revision, reader.change()?);
    }
    reader.done().then_some(revision)
}

pub(super) enum SnapshotFrame<'a> {
    Entry(EntryRef<'a>),
    Last(u64),
}

pub(super) fn decode_snapshot_frame(payload: &[u8]) -> Option<SnapshotFrame<'_>> {
    let mut reader = Reader { payload, at: 0 };
    let frame = match reader.u8()? {
        ENTRY => {
            let revision = Revision(reader.u64()?);
            let RawChange { key, value, expires_at } = reader.change()?;
            SnapshotFrame::Entry(EntryRef { key, value: &payload[value?], revision, expires_at })
        }
        LAST => SnapshotFrame::Last(reader.u64()?),
        _ => return None,
    };
    reader.done().then_some(frame)
}

fn encode_change(buffer: &mut Vec<u8>, key: &str, value: Option<&[u8]>, expires_at: Option<u64>) {
    buffer.push(match (value, expires_at) {
        (None, _) => DELETE,
        (Some(_), None) => PUT,
        (Some(_), Some(_)) => PUT_EXPIRING,
    });
    buffer.extend_from_slice(&length(key.len()));
    buffer.extend_from_slice(key.as_bytes());
    if let Some(value) = value {
        if let Some(time) = expires_at {
            buffer.extend_from_slice(&time.to_le_bytes());
        }
        buffer.extend_from_slice(&length(value.len()));
        buffer.extend_from_slice(value);
    }
}

fn length(n: usize) -> [u8; 4] {
    u32::try_from(n).expect("commits are bounded far below 4 GiB").to_le_bytes()
}

struct Reader<'a> {
    payload: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let bytes = self.payload.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(bytes)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn change(&mut self) -> Option<RawChange<'a>> {
        let kind = self.u8()?;
        let key_length = self.u32()? as usize;
        let key = std::str::from_utf8(self.take(key_length)?).ok()?;
        let expires_at = match kind {
            DELETE => return Some(RawChange { key, value: None, expires_at: None }),
            PUT => None,
            PUT_EXPIRING => Some(self.u64()?),
            _ => return None,
        };
        let length = self.u32()? as usize;
        let start = self.at;
        self.take(length)?;
        Some(RawChange { key, value: Some(start..self.at), expires_at })
    }

    fn done(&self) -> bool {
        self.at == self.payload.len()
    }
}
