//! What every engine promises. See [`Engine`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
pub use revision::Revision;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A full key such as `/registry/configmaps/default/web`.
pub type Key = Arc<str>;

/// What must hold of a key for a commit to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Absent,
    /// The key's last change was at this revision.
    At(Revision),
    Present,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `expires_at`: unix seconds after which the engine deletes the key by itself, as a commit like any other.
    Put {
        value: Bytes,
        expires_at: Option<u64>,
    },
    Delete,
}

/// All or nothing, one revision. Keys of `ops` are distinct.
///
/// Deleting an absent key is no change. A commit that changes nothing (guards alone, or only such deletions)
/// takes no revision: it answers with one at which its guards held.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    pub guards: Vec<(Key, Guard)>,
    pub ops: Vec<(Key, Op)>,
    /// It deletes something, or is on the way to that (it sets a deletionTimestamp, or removes a finalizer): on a full
    /// disk it may use the reserved space. Deletions alone may do so in any case.
    pub removal: bool,
}

/// One key's part of a committed revision, as the log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: Revision,
    pub key: Key,
    /// `None`: deleted.
    pub value: Option<Bytes>,
    pub expires_at: Option<u64>,
}

/// One key of a snapshot: the stored value and the revision of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub value: Bytes,
    pub revision: Revision,
    pub expires_at: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// A guard did not hold. The state already shows the current value: read it again.
    #[error("a guard on {key} did not hold")]
    Conflict { key: Key },
    /// It is not known whether the commit happened (a timeout, a lost connection). Never retried blindly.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
    /// Too big for the engine.
    #[error("the commit is too large: {0}")]
    TooLarge(String),
    /// The disk is full; nothing was written, and commits are accepted again as soon as there is space.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The engine has stopped (shutdown, or a failed disk) and did not commit.
    #[error("the store has stopped: {0}")]
    Stopped(String),
}

/// The state that an engine feeds: one copy of all values, in memory, outside the engine.
///
/// The engine calls these from one place at a time, in revision order. `current` may be called from the
/// same place at any time.
pub trait State: Send + Sync {
    /// Revision of the key's last change; `None` when absent.
    fn current(&self, key: &str) -> Option<Revision>;
    /// Begins to replace everything: the first load, or a reload after a lost log. The state stays as it is until
    /// [`Reload::finish`]; a reload that is dropped before changes nothing.
    fn reload(&self) -> Box<dyn Reload + '_>;
    /// A whole reload from entries that are in memory anyway, in key order. `revision` is the store's.
    fn reset(&self, revision: Revision, entries: Vec<Entry>) {
        let mut reload = self.reload();
        entries.into_iter().for_each(|entry| reload.add(entry));
        reload.finish(revision);
    }
    /// Changes in revision order. All changes of one revision come in one call. `upto` is the last revision
    /// that is now complete (it may be higher than the last change's).
    fn publish(&self, changes: Vec<Change>, upto: Revision);
    /// Values in the store that cannot be decoded, if any.
    fn unreadable(&self) -> Option<Unreadable> {
        None
    }
    /// The same for one key.
    fn unreadable_at(&self, _key: &str) -> Option<Unreadable> {
        None
    }
}

/// The new content of a [`State`], entry by entry, so that nobody has to hold all of it a second time.
pub trait Reload: Send {
    /// Every key once, in key order.
    fn add(&mut self, entry: Entry);
    /// From now on the state is what was added. `revision` is the store's, at least as high as every entry's.
    fn finish(self: Box<Self>, revision: Revision);
}

/// Values that another program wrote, in a format we do not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} holds {}{}", self.format(), self.others())]
pub struct Unreadable {
    /// The first of them.
    pub key: Key,
    /// The way kube-apiserver writes unless it is told otherwise.
    pub protobuf: bool,
    pub count: usize,
}

impl Unreadable {
    fn format(&self) -> &'static str {
        match self.protobuf {
            true => "an object in protobuf, as kube-apiserver writes it, not JSON",
            false => "no object of its kind and version in JSON",
        }
    }

    fn others(&self) -> String {
        match self.count {
            0 | 1 => String::new(),
            count => format!(", and so do {} other keys", count - 1),
        }
    }
}

/// A store of keys and values with one ordered log.
///
/// - `commit` answers after the change is durable *and* published to the [`State`]; so does `Conflict`: whoever
///   reads the state after the answer sees at least what the answer was based on.
/// - Revisions are published in order, each exactly once.
/// - After an error of the durable layer nothing is acknowledged any more, unless it was a full disk.
pub trait Engine: Send + Sync {
    fn commit(&self, commit: Commit) -> BoxFuture<'_, Result<Revision, CommitError>>;
    /// A revision at least as new as every commit acknowledged before the call, on any server; when it is
    /// answered, the state has seen it.
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, CommitError>>;
    /// History up to this revision is no longer needed.
    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), CommitError>>;
    /// Deletes every key with `expires_at <= now` (unix seconds); engines that do it by themselves return at once.
    fn expire(&self, now: u64) -> BoxFuture<'_, Result<(), CommitError>>;
    /// `Err` with the reason once the engine can no longer commit; for health checks.
    fn health(&self) -> Result<(), String>;
    /// Why only removals can be committed for now, if so: the disk is full. Reads still work, and so do commits once there is space.
    fn full(&self) -> Option<String> {
        None
    }
    /// Whether other servers may commit too, with definitions of resources that are not ours yet.
    fn is_shared(&self) -> bool {
        false
    }
    /// Disk space that its files take; `None` for engines without files of their own.
    fn size_bytes(&self) -> Option<u64> {
        None
    }
    /// Why it can never commit again, if so: the process may as well exit.
    fn failed(&self) -> Option<String> {
        self.health().err()
    }
    /// Stops accepting, finishes what was accepted, releases files and locks.
    fn close(&self) -> BoxFuture<'_, ()>;
}
