//! The one place where commits are decided: guards, revisions, durability, publishing. Synchronous.
//!
//! ```text
//!  batch of commits ── guards against (this batch's own changes, then the state)
//!                   ── one revision each ── append (one fsync) ── publish ── answers, in order
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use crate::contract::{Change, Commit, CommitError, Guard, Key, Op, Revision, State};
use crate::durable::{Durable, DurableError};
use expiries::Expiries;

mod expiries;
#[cfg(test)]
mod tests;

/// Keys and values of one commit; more is [`CommitError::TooLarge`].
pub const MAX_COMMIT_BYTES: usize = 16 << 20;
/// Operations, and guards, of one commit; more is [`CommitError::TooLarge`].
pub const MAX_COMMIT_OPS: usize = 1024;
/// Expired keys deleted with one append, so that an hour's worth of events does not make one huge batch.
const EXPIRE_ROUND: usize = 256;

/// Changes from before a restart are published in chunks of about this many.
const PUBLISH_CHUNK: usize = 1024;

pub struct Sequencer {
    state: Arc<dyn State>,
    durable: Box<dyn Durable>,
    /// The last revision that is durable and published.
    revision: Revision,
    expiries: Expiries,
    /// What this batch's earlier commits left of the keys they touched; the state does not show it yet.
    overlay: HashMap<Key, Option<Revision>>,
    /// Why nothing can be committed any more.
    stopped: Option<String>,
    /// Why only removals can be committed for now.
    full: Option<String>,
}

impl Sequencer {
    /// Loads what is durable into the state.
    pub fn start(mut durable: Box<dyn Durable>, state: Arc<dyn State>) -> Result<Sequencer, DurableError> {
        let mut expiries = Expiries::default();
        let mut reload = state.reload();
        let loaded = durable.load(&mut |entry| {
            expiries.set(&entry.key, entry.expires_at);
            reload.add(entry);
        })?;
        reload.finish(loaded.before_changes());
        let revision = loaded.revision;
        publish_again(loaded.changes, &*state, &mut expiries);
        Ok(Sequencer {
            state,
            durable,
            revision,
            expiries,
            overlay: HashMap::new(),
            stopped: None,
            full: None,
        })
    }

    /// The last revision that is durable and published.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Why nothing can be committed any more, if so.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Why only removals could be committed at the last check.
    pub fn full(&self) -> Option<&str> {
        self.full.as_deref()
    }

    /// Empties `commits`; adds one answer for each to `answers`, in order. When it returns, everything the
    /// answers rest on is durable and published.
    pub fn commit_all(
        &mut self,
        commits: &mut Vec<Commit>,
        answers: &mut Vec<Result<Revision, CommitError>>,
    ) {
        if let Some(why) = &self.stopped {
            answers.extend(commits.drain(..).map(|_| Err(CommitError::Stopped(why.clone()))));
            return;
        }
        self.full = self.durable.full();
        let first = answers.len();
        let mut removals_alone = true;
        let mut next = self.revision;
        let mut changes = Vec::with_capacity(commits.iter().map(|c| c.ops.len()).sum());
        let mut left = commits.len();
        for commit in commits.drain(..) {
            left -= 1;
            removals_alone &= commit.is_removal();
            // Nothing reads what the last one leaves, so a lone commit never touches the overlay.
            answers.push(self.decide(commit, &mut next, &mut changes, left > 0));
        }
        self.overlay.clear();
        if changes.is_empty() {
            return;
        }
        let mut appended = self.durable.append(&changes);
        if removals_alone && matches!(appended, Err(DurableError::NoSpace(_))) {
            // It knows now that the disk is full, and has reserved space for these.
            self.full = self.durable.full();
            appended = self.durable.append(&changes);
        }
        match appended {
            Ok(()) => {
                expire_as(&changes, &mut self.expiries);
                self.state.publish(changes, next);
                self.revision = next;
            }
            Err(DurableError::NoSpace(why)) => self.refuse(why, &mut answers[first..]),
            Err(error) => self.fail(&error, &mut answers[first..]),
        }
    }

    /// One commit by itself.
    pub fn commit(&mut self, commit: Commit) -> Result<Revision, CommitError> {
        let mut answers = Vec::with_capacity(1);
        self.commit_all(&mut vec![commit], &mut answers);
        answers.pop().expect("commit_all answers every commit")
    }

    /// Deletes every key with `expires_at <= now`, each as a commit of its own.
    pub fn expire(&mut self, now: u64) -> Result<(), CommitError> {
        if let Some(why) = &self.stopped {
            return Err(CommitError::Stopped(why.clone()));
        }
        // Even if nobody writes: whether there is disk space again.
        self.full = self.durable.full();
        let mut commits = Vec::new();
        let mut answers = Vec::new();
        loop {
            for key in self.expiries.due(now, EXPIRE_ROUND) {
                match self.state.current(&key) {
                    Some(revision) => commits.push(Commit {
                        guards: vec![(key.clone(), Guard::At(revision))],
                        ops: vec![(key, Op::Delete)],
                        removal: false,
                    }),
                    None => self.expiries.set(&key, None),
                }
            }
            if commits.is_empty() {
                return Ok(());
            }
            self.commit_all(&mut commits, &mut answers);
            for answer in answers.drain(..) {
                answer?;
            }
        }
    }

    /// Nothing is committed from now on.
    pub fn stop(&mut self, why: &str) {
        self.stopped.get_or_insert_with(|| why.to_owned());
    }

    /// Stops and releases files and locks.
    pub fn close(&mut self) {
        self.stop("it was closed");
        self.durable.close();
    }

    /// Checks one commit and, if it may happen, adds its changes under the next revision.
    fn decide(
        &mut self,
        commit: Commit,
        next: &mut Revision,
        changes: &mut Vec<Change>,
        remember: bool,
    ) -> Result<Revision, CommitError> {
        check_size(&commit)?;
        let refused = self.full.clone().filter(|_| !commit.is_removal());
        for (key, guard) in &commit.guards {
            let holds = match (guard, self.current(key)) {
                (Guard::Absent, current) => current.is_none(),
                (Guard::Present, current) => current.is_some(),
                (Guard::At(revision), current) => current == Some(*revision),
            };
            if !holds {
                return Err(CommitError::Conflict { key: key.clone() });
            }
        }
        let revision = Revision(next.0 + 1);
        let before = changes.len();
        for (key, op) in commit.ops {
            // The caller promises distinct keys; should it break that, the last operation wins, and the log and
            // the state still see one change per key and revision.
            if let Some(at) = changes[before..].iter().position(|c| c.key == key) {
                changes.remove(before + at);
            }
            let (value, expires_at) = match op {
                Op::Put { value, expires_at } => (Some(value), expires_at),
                // As in etcd, deleting what is not there is no change.
                Op::Delete if self.current(&key).is_none() => continue,
                Op::Delete => (None, None),
            };
            changes.push(Change { revision, key, value, expires_at });
        }
        if changes.len() == before {
            // Guards alone (or deletions of nothing): the answer says as of when they held.
            return Ok(*next);
        }
        if let Some(why) = refused {
            changes.truncate(before);
            return Err(CommitError::NoSpace(why));
        }
        *next = revision;
        if remember {
            for change in &changes[before..] {
                self.overlay.insert(change.key.clone(), change.value.is_some().then_some(revision));
            }
        }
        Ok(revision)
    }

    fn current(&self, key: &Key) -> Option<Revision> {
        match self.overlay.get(key) {
            Some(pending) => *pending,
            None => self.state.current(key),
        }
    }

    /// Nothing of this batch was written: every caller that wanted to change something, or conflicted with a change of
    /// this batch, may retry.
    fn refuse(&mut self, why: String, answers: &mut [Result<Revision, CommitError>]) {
        for answer in answers {
            match answer {
                Err(CommitError::TooLarge(_)) => {}
                Ok(revision) if *revision <= self.revision => {}
                _ => *answer = Err(CommitError::NoSpace(why.clone())),
            }
        }
        self.full = Some(why);
    }

    /// The durable layer failed: this batch is not acknowledged, and nothing is from now on. Conflicts turn
    /// into `Stopped` as well, because they may be due to changes of this batch that never become visible.
    fn fail(&mut self, error: &DurableError, answers: &mut [Result<Revision, CommitError>]) {
        let why = error.to_string();
        tracing::error!(reason = %why, "the store stops: its durable layer failed");
        for answer in answers {
            *answer = Err(match (&answer, error) {
                (Err(CommitError::TooLarge(what)), _) => CommitError::TooLarge(what.clone()),
                (Ok(revision), DurableError::Unknown(_)) if *revision > self.revision => {
                    CommitError::Unknown(why.clone())
                }
                _ => CommitError::Stopped(why.clone()),
            });
        }
        self.stopped = Some(why);
    }
}

/// Publishes the last changes once more after a restart, so that watchers can resume.
fn publish_again(changes: Vec<Change>, state: &dyn State, expiries: &mut Expiries) {
    let mut chunk: Vec<Change> = Vec::new();
    let mut changes = changes.into_iter().peekable();
    while let Some(change) = changes.next() {
        let revision = change.revision;
        chunk.push(change);
        // All changes of one revision come together.
        let complete = changes.peek().is_none_or(|next| next.revision != revision);
        if complete && (chunk.len() >= PUBLISH_CHUNK || changes.peek().is_none()) {
            expire_as(&chunk, expiries);
            state.publish(std::mem::take(&mut chunk), revision);
        }
    }
}

fn expire_as(changes: &[Change], expiries: &mut Expiries) {
    for change in changes {
        expiries.set(&change.key, change.expires_at.filter(|_| change.value.is_some()));
    }
}

fn check_size(commit: &Commit) -> Result<(), CommitError> {
    if commit.ops.len() > MAX_COMMIT_OPS || commit.guards.len() > MAX_COMMIT_OPS {
        let (ops, guards) = (commit.ops.len(), commit.guards.len());
        return Err(CommitError::TooLarge(format!(
            "{ops} operations and {guards} guards; at most {MAX_COMMIT_OPS} of each"
        )));
    }
    let bytes = commit.bytes();
    if bytes > MAX_COMMIT_BYTES {
        return Err(CommitError::TooLarge(format!("{bytes} bytes; at most {MAX_COMMIT_BYTES}")));
    }
    Ok(())
}

impl Commit {
    fn is_removal(&self) -> bool {
        self.removal || self.ops.iter().all(|(_, op)| *op == Op::Delete)
    }

    /// Keys and values to be written, in bytes.
    pub fn bytes(&self) -> usize {
        let value = |op: &Op| match op {
            Op::Put { value, .. } => value.len(),
            Op::Delete => 0,
        };
        self.ops.iter().map(|(key, op)| key.len() + value(op)).sum()
    }
}
