//! Advancing the revision past everything the store may have assigned before it was lost and restored.
//!
//! ```text
//!  MOVE (the target T) ──> snapshot-T: all entries ──> log-T+1 ──> MANIFEST ──> MOVE is deleted
//! ```
//! Entries keep their revisions: those were assigned before the copy was made, so nobody knows other content by them.
//! Everything assigned afterwards lies below T and is not assigned again. There is no log before T, so a watch from
//! there has to start over.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::manifest::Manifest;
use super::snapshot_writer::SnapshotWriter;
use super::{OpenError, create_segment, directory, identity, record, verify_checksum};
use crate::contract::Revision;

/// The least a revision jumps; as much as etcd's manual recommends for `--bump-revision`: weeks of a busy cluster.
pub(super) const JUMP: u64 = 1_000_000_000;
/// A clock that is not ahead by that much (of nanoseconds) was set back since the last jump.
pub(super) const MARGIN: u64 = 1_000_000;

const EPOCH: Duration = Duration::from_secs(1_577_836_800); // 2020-01-01
/// Even a clock that is centuries ahead leaves half of what clients can count (an i64) unused.
const LATEST: u64 = i64::MAX as u64 / 2;

/// A file with a higher revision is not ours: clients count with an i64, and a jump must still be possible.
pub(super) const HIGHEST: u64 = i64::MAX as u64 - (1 << 60);

/// The revision at which a store resumes that is restored at `revision`.
pub(super) fn target(revision: Revision) -> Revision {
    target_at(revision, since(EPOCH))
}

/// The same copy may be restored twice, and what was assigned after the first time must not be assigned after the
/// second. So the target is where one commit per nanosecond since the epoch would have led: of two jumps the later one is
/// ahead by more than any store can have written in between. Where a wrong clock has led further already,
/// it is [`JUMP`] more, and still depends on the clock, by one commit per microsecond or so.
pub(super) fn target_at(revision: Revision, since: Duration) -> Revision {
    let clock = u64::try_from(since.as_nanos()).unwrap_or(LATEST).min(LATEST);
    match clock > revision.0.saturating_add(MARGIN) {
        true => Revision(clock),
        false => Revision(revision.0.saturating_add(JUMP).saturating_add(clock / 1024)),
    }
}

// The durable layer has no world's clock; what a wrong one does is said above.
#[allow(clippy::disallowed_methods)]
fn since(epoch: Duration) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH + epoch).unwrap_or_default()
}

fn path(dir: &Path) -> PathBuf {
    dir.join("MOVE")
}

/// What a start has to do about the revision of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    /// `MOVE` is out of date, or of another directory: delete it.
    DeletePending,
    /// Complete a jump that was begun. If its target is the store's revision, only deleting `MOVE` is left.
    Resume(Revision),
    Begin(Revision),
}

/// `again`: even if a jump has just been completed.
pub(super) fn plan(revision: Revision, pending: Option<&Pending>, must_jump: bool, again: bool) -> Plan {
    match pending {
        Some(Pending { target, copied: false }) if *target > revision || (*target == revision && !again) => {
            Plan::Resume(*target)
        }
        _ if must_jump => Plan::Begin(target(revision)),
        Some(_) => Plan::DeletePending,
        None => Plan::Nothing,
    }
}

impl Plan {
    pub(super) fn target(self) -> Option<Revision> {
        match self {
            Plan::Resume(target) | Plan::Begin(target) => Some(target),
            Plan::Nothing | Plan::DeletePending => None,
        }
    }

    /// Brings `MOVE` in line with the plan, before anything else changes.
    pub(super) fn record(self, dir: &Path) -> Result<(), OpenError> {
        match self {
            Plan::Nothing | Plan::Resume(_) => Ok(()),
            Plan::DeletePending => finish(dir),
            Plan::Begin(target) => begin(dir, target),
        }
    }
}

/// A jump that was begun and may not be complete.
pub(super) struct Pending {
    target: Revision,
    /// `MOVE` itself is a copy (or of an earlier program): the jump may have been completed elsewhere, and the store
    /// written to since.
    pub copied: bool,
}

pub(super) fn pending(dir: &Path) -> Result<Option<Pending>, OpenError> {
    let path = path(dir);
    let content = match std::fs::read_to_string(&path) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path, error)),
    };
    let target = verify_checksum(&content)
        .and_then(|text| text.strip_prefix("to ")?.lines().next()?.parse().ok())
        .map(Revision)
        .ok_or_else(|| OpenError::damaged(&path, 0, "its checksum or format is wrong"))?;
    let original = identity::is_original(&path, &head(target)).map_err(|e| OpenError::io(&path, e))?;
    Ok(Some(Pending { target, copied: !original }))
}

/// From now on the store is not used before the jump is complete.
pub(super) fn begin(dir: &Path, target: Revision) -> Result<(), OpenError> {
    let path = path(dir);
    identity::write(&path, &head(target)).map_err(|e| OpenError::io(&path, e))
}

/// Should the deletion be lost, the next start finds a store that has reached the target, and deletes it again.
pub(super) fn finish(dir: &Path) -> Result<(), OpenError> {
    let path = path(dir);
    std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))
}

fn head(target: Revision) -> String {
    format!("to {target}\n")
}

/// Writes a store that resumes after `target`, with the entries that `fill` puts into its snapshot, in key order. The files
/// of the old manifest are no longer part of it. Also returns the size of the snapshot.
pub(super) fn write(
    dir: &Path,
    target: Revision,
    fill: impl FnOnce(&mut SnapshotWriter) -> Result<(), OpenError>,
) -> Result<(Manifest, u64), OpenError> {
    let path = directory::snapshot(dir, target);
    let mut snapshot = SnapshotWriter::create(&path).map_err(|e| OpenError::io(&path, e))?;
    record::encode_start(&mut snapshot.buffer, record::SNAPSHOT_MAGIC, target);
    fill(&mut snapshot)?;
    let bytes = snapshot.finish()?;
    let first = Revision(target.0 + 1);
    let manifest = Manifest { snapshot: Some(target), segments: vec![first] };
    create_segment(dir, first).and_then(|_| manifest.write(dir)).map_err(|e| OpenError::io(dir, e))?;
    Ok((manifest, bytes))
}
