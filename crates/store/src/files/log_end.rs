//! Where the log ended at the last clean shutdown. `LOCK` holds it.
//!
//! A log that lost its end looks like one whose last write was interrupted. But a log only grows, so the end recorded at a
//! clean shutdown remains a lower bound, also when a later process was killed: a shorter log was truncated.

use std::path::Path;

use super::manifest::Manifest;
use super::read::SegmentReader;
use super::{OpenError, directory, verify_checksum, with_checksum};
use crate::contract::Revision;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogEnd {
    /// First revision of the last segment.
    pub segment: Revision,
    /// Length of that segment.
    pub bytes: u64,
    /// Revision of the last record.
    pub revision: Revision,
}

impl LogEnd {
    pub(super) fn encode(&self) -> String {
        with_checksum(format!("end {} {} {}\n", self.segment, self.bytes, self.revision))
    }

    /// `None` where an earlier program closed the store, or nobody has yet.
    pub(super) fn decode(text: &str) -> Option<LogEnd> {
        let words = verify_checksum(text)?.strip_prefix("end ")?.trim_end();
        let mut numbers = words.split(' ').map(str::parse::<u64>);
        let [segment, bytes, revision] =
            [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
        Some(LogEnd { segment: Revision(segment), bytes, revision: Revision(revision) })
    }

    /// Before anything is read: the segment must be at least as long as it was. It may be gone, compacted into a snapshot.
    pub(super) fn check_length(&self, dir: &Path, manifest: &Manifest) -> Result<(), OpenError> {
        if !manifest.segments.contains(&self.segment) {
            return Ok(());
        }
        let path = directory::segment(dir, self.segment);
        let bytes = std::fs::metadata(&path).map_err(|e| OpenError::io(&path, e))?.len();
        if bytes >= self.bytes {
            return Ok(());
        }
        let is_last = manifest.segments.last() == Some(&self.segment);
        Err(self.truncated(dir, self.segment, last_readable(dir, self.segment), is_last))
    }

    /// After everything was read: the log must reach as far as it did.
    pub(super) fn check_revision(
        &self,
        dir: &Path,
        manifest: &Manifest,
        found: Revision,
    ) -> Result<(), OpenError> {
        match manifest.segments.last() {
            Some(last) if found < self.revision => Err(self.truncated(dir, *last, found, true)),
            _ => Ok(()),
        }
    }

    fn truncated(&self, dir: &Path, segment: Revision, kept: Revision, is_last: bool) -> OpenError {
        let path = directory::segment(dir, segment);
        let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
        let then = match segment == self.segment {
            true => format!("had {} bytes and ", self.bytes),
            false => String::new(),
        };
        let revision = self.revision;
        let what = format!(
            "at the last clean shutdown it {then}ended with revision {revision}, now it has {bytes} bytes and ends with revision {kept}"
        );
        let lost = if kept < revision { Some((Revision(kept.0 + 1), revision)) } else { None };
        OpenError::truncated(&path, what, lost, is_last.then_some(kept))
    }
}

/// The last revision that can be read.
fn last_readable(dir: &Path, segment: Revision) -> Revision {
    let before = Revision(segment.0.saturating_sub(1));
    match SegmentReader::open(directory::segment(dir, segment), segment) {
        Ok(mut reader) => {
            while matches!(reader.next(|_, _, _, _| {}), Ok(true)) {}
            reader.revision
        }
        Err(_) => before,
    }
}
