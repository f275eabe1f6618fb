//! Where the log ended when the store was last closed properly. `LOCK` keeps it.
//!
//! A log that only lost its end looks like one whose last write was interrupted. But it only grows, so what a
//! proper close said holds ever after, also when the next process was killed: a log that is shorter was cut.

use std::path::Path;

use super::manifest::Manifest;
use super::read::SegmentReader;
use super::{OpenError, checked, directory, unchecked};
use crate::contract::Revision;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// First revision of the last segment.
    pub segment: Revision,
    /// Of that segment.
    pub bytes: u64,
    /// Of the last record.
    pub revision: Revision,
}

impl End {
    pub(super) fn encode(&self) -> String {
        checked(format!("end {} {} {}\n", self.segment, self.bytes, self.revision))
    }

    /// `None` where an earlier program closed the store, or nobody has yet.
    pub(super) fn decode(text: &str) -> Option<End> {
        let words = unchecked(text)?.strip_prefix("end ")?.trim_end();
        let mut numbers = words.split(' ').map(str::parse::<u64>);
        let [segment, bytes, revision] =
            [numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?];
        Some(End { segment: Revision(segment), bytes, revision: Revision(revision) })
    }

    /// Before anything is read: the file that was last must have at least the length it had. It may be gone, folded into a snapshot.
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
        Err(self.cut(dir, self.segment, last_whole(dir, self.segment), is_last))
    }

    /// After all was read: as far as it went then.
    pub(super) fn check_revision(
        &self,
        dir: &Path,
        manifest: &Manifest,
        found: Revision,
    ) -> Result<(), OpenError> {
        match manifest.segments.last() {
            Some(last) if found < self.revision => Err(self.cut(dir, *last, found, true)),
            _ => Ok(()),
        }
    }

    fn cut(&self, dir: &Path, segment: Revision, kept: Revision, is_last: bool) -> OpenError {
        let path = directory::segment(dir, segment);
        let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
        let then = match segment == self.segment {
            true => format!("had {} bytes and ", self.bytes),
            false => String::new(),
        };
        let revision = self.revision;
        let what = format!(
            "at the last proper stop it {then}ended with revision {revision}, now it has {bytes} bytes and ends with revision {kept}"
        );
        let lost = if kept < revision { Some((Revision(kept.0 + 1), revision)) } else { None };
        OpenError::cut(&path, what, lost, is_last.then_some(kept))
    }
}

/// The last revision that can be read.
fn last_whole(dir: &Path, segment: Revision) -> Revision {
    let before = Revision(segment.0.saturating_sub(1));
    match SegmentReader::open(directory::segment(dir, segment), segment) {
        Ok(mut reader) => {
            while matches!(reader.next(|_, _, _, _| {}), Ok(true)) {}
            reader.revision
        }
        Err(_) => before,
    }
}
