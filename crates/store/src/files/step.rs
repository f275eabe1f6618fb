//! Moving the revision on, past everything the store may have handed out before it was lost and put back.
//!
//! ```text
//!  MOVE (to which revision) ──> snapshot-T: all entries ──> log-T+1 ──> MANIFEST ──> MOVE is deleted
//! ```
//! Entries keep the revisions they have. Those were given before the copy was made, so nobody knows other
//! content by them; everything given afterwards lies below T and is not given again. There is no log before T,
//! so who watches from there is told to begin anew.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::manifest::Manifest;
use super::out::Out;
use super::{OpenError, create_segment, directory, place, record, unchecked};
use crate::contract::Revision;

/// As much as etcd's manual recommends: weeks of a busy cluster.
pub(super) const STEP: u64 = 1_000_000_000;
/// A clock that is not ahead by that much (of nanoseconds) was set back since the last move.
pub(super) const MARGIN: u64 = 1_000_000;

const DAY: Duration = Duration::from_secs(1_577_836_800); // 2020-01-01
/// Even a clock that is centuries ahead leaves half of what clients can count (an i64) unused.
const LATEST: u64 = i64::MAX as u64 / 2;

/// A file that names a higher revision is none of ours: clients count with an i64, and a move must still find room.
pub(super) const HIGHEST: u64 = i64::MAX as u64 - (1 << 60);

/// Where a store goes on that is put back at `revision`.
pub(super) fn goal(revision: Revision) -> Revision {
    goal_at(revision, since(DAY))
}

/// The same copy may be put back twice, and what was handed out after the first time must not be handed out after the
/// second. So it is where a commit each nanosecond since that day would have led to: of two moves the later one is ahead
/// by more than any store can have written in between. Where a clock that was wrong has led further already,
/// it is [`STEP`] more, and still depends on the clock, by a commit each microsecond or so.
pub(super) fn goal_at(revision: Revision, since: Duration) -> Revision {
    let clock = u64::try_from(since.as_nanos()).unwrap_or(LATEST).min(LATEST);
    match clock > revision.0.saturating_add(MARGIN) {
        true => Revision(clock),
        false => Revision(revision.0.saturating_add(STEP).saturating_add(clock / 1024)),
    }
}

// The durable layer has no world's clock; what a wrong one does is said above.
#[allow(clippy::disallowed_methods)]
fn since(day: Duration) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH + day).unwrap_or_default()
}

fn path(dir: &Path) -> PathBuf {
    dir.join("MOVE")
}

/// What a start has to do about the revision of the store it found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plan {
    Nothing,
    /// An announcement of what is over, or was in another directory: it says nothing, and is deleted.
    Forget,
    /// A move that was announced goes on. To the revision that was found: it is done, but for its end.
    Finish(Revision),
    Begin(Revision),
}

/// `again`: even where a move has just ended.
pub(super) fn plan(found: Revision, announced: Option<&Announced>, must_move: bool, again: bool) -> Plan {
    match announced {
        Some(Announced { to, copied: false }) if *to > found || (*to == found && !again) => Plan::Finish(*to),
        _ if must_move => Plan::Begin(goal(found)),
        Some(_) => Plan::Forget,
        None => Plan::Nothing,
    }
}

impl Plan {
    pub(super) fn goal(self) -> Option<Revision> {
        match self {
            Plan::Finish(goal) | Plan::Begin(goal) => Some(goal),
            Plan::Nothing | Plan::Forget => None,
        }
    }

    /// What is announced in the directory is what is planned.
    pub(super) fn write_down(self, dir: &Path) -> Result<(), OpenError> {
        match self {
            Plan::Nothing | Plan::Finish(_) => Ok(()),
            Plan::Forget => finish(dir),
            Plan::Begin(goal) => announce(dir, goal),
        }
    }
}

/// A move that may not be finished.
pub(super) struct Announced {
    to: Revision,
    /// The announcement is itself a copy (or of an earlier program): others may have finished it elsewhere, and written
    /// on from there.
    pub copied: bool,
}

pub(super) fn announced(dir: &Path) -> Result<Option<Announced>, OpenError> {
    let path = path(dir);
    let said = match std::fs::read_to_string(&path) {
        Ok(said) => said,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path, error)),
    };
    let to = unchecked(&said)
        .and_then(|text| text.strip_prefix("to ")?.lines().next()?.parse().ok())
        .map(Revision)
        .ok_or_else(|| OpenError::damaged(&path, 0, "its checksum or form is wrong"))?;
    let in_place = place::is_in_place(&path, &head(to)).map_err(|e| OpenError::io(&path, e))?;
    Ok(Some(Announced { to, copied: !in_place }))
}

/// From now on the store is not used before it was moved.
pub(super) fn announce(dir: &Path, goal: Revision) -> Result<(), OpenError> {
    let path = path(dir);
    place::write(&path, &head(goal)).map_err(|e| OpenError::io(&path, e))
}

/// Should the deletion be lost, the next start finds a store that has reached the goal, and deletes it again.
pub(super) fn finish(dir: &Path) -> Result<(), OpenError> {
    let path = path(dir);
    std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))
}

fn head(goal: Revision) -> String {
    format!("to {goal}\n")
}

/// A store of the entries that `fill` puts into its snapshot, in key order, and that goes on after `goal`. What the old
/// manifest named no longer counts. Also the size of the snapshot.
pub(super) fn write(
    dir: &Path,
    goal: Revision,
    fill: impl FnOnce(&mut Out) -> Result<(), OpenError>,
) -> Result<(Manifest, u64), OpenError> {
    let path = directory::snapshot(dir, goal);
    let mut out = Out::create(&path).map_err(|e| OpenError::io(&path, e))?;
    record::encode_start(&mut out.buffer, record::SNAPSHOT_MAGIC, goal);
    fill(&mut out)?;
    let bytes = out.finish()?;
    let first = Revision(goal.0 + 1);
    let manifest = Manifest { snapshot: Some(goal), segments: vec![first] };
    create_segment(dir, first).and_then(|_| manifest.write(dir)).map_err(|e| OpenError::io(dir, e))?;
    Ok((manifest, bytes))
}
