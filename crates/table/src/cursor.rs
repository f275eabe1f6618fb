//! A place in the log that a watcher moves forward: it pulls, nobody pushes.

use std::sync::Arc;
use std::task::{Context, Poll};

use catalog::StorageId;
use store::{Revision, Unreadable};

use crate::shard::Shard;
use crate::wake::{Bell, Interest};
use crate::{Obj, Scope, Selection, Table};

/// What happened to an object, from where the watcher stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One event of a selection.
#[derive(Clone)]
pub struct WatchEvent {
    pub kind: EventKind,
    pub obj: Arc<Obj>,
}

/// The history this cursor needs is gone, or something it should show cannot be read: the watch ends with 410.
#[derive(Debug)]
pub struct Gone;

/// So many events are looked at under the shard's lock before others get it, selected or not.
const STRETCH: usize = 4096;

/// Sees every event of its selection once, in order, or ends with [`Gone`].
pub struct Cursor {
    table: Arc<Table>,
    storage: StorageId,
    selection: Selection,
    /// Number of the next event in the shard's log.
    next: u64,
    /// Everything up to here was handed out, or is of no interest (a watch may start in the future).
    caught_up: Revision,
    /// The log has not yet reached the revision the watch starts after.
    starting: bool,
    epoch: u64,
    /// It serves others, who must not take for current what is not.
    strict: bool,
    interest: Interest,
    bell: Arc<Bell>,
}

/// A place a cursor can go back to.
#[derive(Clone, Copy)]
pub struct Place {
    next: u64,
    caught_up: Revision,
    starting: bool,
}

impl Cursor {
    pub(crate) fn new(
        table: Arc<Table>,
        storage: StorageId,
        selection: Selection,
        next: u64,
        caught_up: Revision,
        epoch: u64,
    ) -> Cursor {
        let interest = interest(&table, storage, &selection);
        let bell = Arc::new(Bell::default());
        table.sleepers(storage).lock().add(interest.clone(), bell.clone());
        Cursor {
            table,
            storage,
            selection,
            next,
            caught_up,
            starting: true,
            epoch,
            strict: false,
            interest,
            bell,
        }
    }

    /// For those who are served: it ends as soon as the selection holds something that cannot be read; `Err` if it does already.
    pub fn strict(mut self) -> Result<Cursor, Unreadable> {
        self.strict = true;
        let unreadable = self.unreadable(&self.table.shard(self.storage).read());
        unreadable.map_or(Ok(self), Err)
    }

    fn unreadable(&self, shard: &Shard) -> Option<Unreadable> {
        shard.unreadable(self.table.catalog().storage(self.storage), &self.selection, Revision(u64::MAX))
    }

    /// Appends events to `out` until `max_bytes` of bodies are there, the log's end is reached, or a stretch of it was looked
    /// through. `Ok(true)`: at the end; everything up to [`Cursor::caught_up`] was handed out. `Ok(false)`: there is more, even
    /// if nothing was appended.
    pub fn pull(&mut self, out: &mut Vec<WatchEvent>, max_bytes: usize) -> Result<bool, Gone> {
        let storage = self.table.catalog().storage(self.storage);
        let shard = self.table.shard(self.storage).read();
        // Read under the shard's lock: `publish` raises it while it still holds the lock.
        let seen = self.table.revision();
        if self.table.epoch() != self.epoch {
            return Err(Gone);
        }
        if self.strict && self.unreadable(&shard).is_some() {
            return Err(Gone);
        }
        let events = shard.events_from(self.next).ok_or(Gone)?;
        let mut bytes = 0;
        for (looked_at, event) in events.enumerate() {
            if bytes >= max_bytes || looked_at == STRETCH {
                return Ok(false);
            }
            self.next += 1;
            if event.revision() <= self.caught_up && self.starting {
                continue;
            }
            let before = event.past.as_ref().is_some_and(|p| self.selection.matches(&p.prev));
            let after = !event.deleted() && self.selection.matches(&event.obj);
            let (kind, obj) = match (before, after) {
                (false, false) => continue,
                (false, true) => (EventKind::Added, event.obj.clone()),
                (true, true) => (EventKind::Modified, event.obj.clone()),
                (true, false) if event.deleted() => (EventKind::Deleted, event.obj.clone()),
                (true, false) => match event.left(storage) {
                    Some(left) => (EventKind::Deleted, left),
                    None => continue,
                },
            };
            bytes += obj.body().len();
            out.push(WatchEvent { kind, obj });
        }
        if seen >= self.caught_up {
            self.caught_up = seen;
            self.starting = false;
        }
        Ok(true)
    }

    /// Where it stands.
    pub fn place(&self) -> Place {
        Place { next: self.next, caught_up: self.caught_up, starting: self.starting }
    }

    /// What was pulled since could not be told, and will be pulled again; by then it may be [`Gone`].
    pub fn go_back(&mut self, place: Place) {
        self.next = place.next;
        self.caught_up = place.caught_up;
        self.starting = place.starting;
    }

    /// Appends all events up to the log's end.
    pub fn pull_all(&mut self, out: &mut Vec<WatchEvent>) -> Result<(), Gone> {
        while !self.pull(out, usize::MAX)? {}
        Ok(())
    }

    /// Every event up to this revision was pulled.
    pub fn caught_up(&self) -> Revision {
        self.caught_up
    }

    /// Ready when there may be something to pull: call after `pull` said it is at the end.
    pub fn poll_changed(&self, cx: &Context<'_>) -> Poll<()> {
        if self.bell.listen(cx) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until there may be something to pull.
    pub async fn changed(&self) {
        std::future::poll_fn(|cx| self.poll_changed(cx)).await
    }

    pub fn storage(&self) -> StorageId {
        self.storage
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.table.sleepers(self.storage).lock().remove(&self.interest, &self.bell);
    }
}

fn interest(table: &Table, storage: StorageId, selection: &Selection) -> Interest {
    let storage = table.catalog().storage(storage);
    if let Some(value) = selection.exact_indexed(storage) {
        return Interest::Indexed(value.into());
    }
    match (&selection.scope, selection.exact_name()) {
        (Scope::Namespace(namespace), Some(name)) => Interest::Path(format!("{namespace}/{name}").into()),
        (Scope::All, Some(name)) if !storage.namespaced => Interest::Path(name.into()),
        (Scope::All, Some(name)) => Interest::Name(name.into()),
        (Scope::Namespace(namespace), None) => Interest::Namespace(namespace.as_str().into()),
        (Scope::All, None) => Interest::All,
    }
}
