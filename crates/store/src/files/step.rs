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
use super::{OpenError, checked, create_segment, directory, record};
use crate::contract::{Entry, Revision};

/// As much as etcd's manual recommends: weeks of a busy cluster.
pub(super) const STEP: u64 = 1_000_000_000;

/// The same copy may be put back twice, and the revision must not be the same both times. So it is at
/// least what a store would have that commits 10,000 times a second since that day.
const COMMIT_MICROS: u128 = 100;
const DAY: Duration = Duration::from_secs(1_577_836_800); // 2020-01-01

/// Where a store goes on that is put back at `revision`.
pub(super) fn goal(revision: Revision) -> Revision {
    let by_clock = u64::try_from(since(DAY).as_micros() / COMMIT_MICROS).unwrap_or_default();
    Revision(revision.0.saturating_add(STEP).max(by_clock))
}

// The durable layer has no world's clock; a wrong one only makes the step shorter, never shorter than STEP.
#[allow(clippy::disallowed_methods)]
fn since(day: Duration) -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH + day).unwrap_or_default()
}

fn path(dir: &Path) -> PathBuf {
    dir.join("MOVE")
}

/// To which revision the store at `found` has to move, if at all; announced from now on. The revision itself: a move
/// that is done, but for its end. `again`: even then.
pub(super) fn decide(
    dir: &Path,
    found: Revision,
    must_move: bool,
    again: bool,
) -> Result<Option<Revision>, OpenError> {
    match announced(dir)? {
        Some(to) if to > found || (to == found && !again) => Ok(Some(to)),
        announced => {
            // Written to since: what is left of it says nothing.
            if announced.is_some() {
                finish(dir)?;
            }
            if !must_move {
                return Ok(None);
            }
            let to = goal(found);
            announce(dir, to)?;
            Ok(Some(to))
        }
    }
}

/// The goal of a move that was announced and may not be finished.
fn announced(dir: &Path) -> Result<Option<Revision>, OpenError> {
    let path = path(dir);
    let said = match std::fs::read_to_string(&path) {
        Ok(said) => said,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(OpenError::io(&path, error)),
    };
    let goal = said.strip_prefix("to ").and_then(|rest| rest.lines().next()?.parse().ok()).map(Revision);
    match goal.filter(|goal| said == content(*goal)) {
        Some(goal) => Ok(Some(goal)),
        None => Err(OpenError::damaged(&path, 0, "its checksum or form is wrong")),
    }
}

/// From now on the store is not used before it was moved.
pub(super) fn announce(dir: &Path, goal: Revision) -> Result<(), OpenError> {
    let path = path(dir);
    directory::write_whole(&path, content(goal).as_bytes()).map_err(|e| OpenError::io(&path, e))
}

/// Should the deletion be lost, the next start finds a store that has reached the goal, and deletes it again.
pub(super) fn finish(dir: &Path) -> Result<(), OpenError> {
    let path = path(dir);
    std::fs::remove_file(&path).map_err(|e| OpenError::io(&path, e))
}

fn content(goal: Revision) -> String {
    checked(format!("to {goal}\n"))
}

/// A store of these entries that goes on after `goal`. What the old manifest named no longer counts. Also the size of the snapshot.
pub(super) fn write(dir: &Path, goal: Revision, entries: &[Entry]) -> Result<(Manifest, u64), OpenError> {
    let path = directory::snapshot(dir, goal);
    let mut out = Out::create(&path).map_err(|e| OpenError::io(&path, e))?;
    record::encode_start(&mut out.buffer, record::SNAPSHOT_MAGIC, goal);
    for entry in entries {
        out.put(&entry.key, &entry.value, entry.revision, entry.expires_at)?;
    }
    let bytes = out.finish()?;
    let first = Revision(goal.0 + 1);
    let manifest = Manifest { snapshot: Some(goal), segments: vec![first] };
    create_segment(dir, first).and_then(|_| manifest.write(dir)).map_err(|e| OpenError::io(dir, e))?;
    Ok((manifest, bytes))
}
