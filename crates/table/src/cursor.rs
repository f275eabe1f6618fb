//! A place in the log that a watcher moves forward: it pulls, nobody pushes.

use std::sync::Arc;
use std::task::{Context, Poll};

use catalog::Storage;
use object::Obj;
use store::{Revision, Unreadable};

use crate::shard::{Event, Shard};
use crate::table::Cell;
use crate::watchers::{Interest, Notifier, Topic};
use crate::{Scope, Selection, Table};

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
    /// What stood there before, from a cursor [`with_past`](Cursor::with_past).
    pub past: Option<Arc<Obj>>,
}

impl WatchEvent {
    pub fn added(obj: Arc<Obj>) -> WatchEvent {
        WatchEvent { kind: EventKind::Added, obj, past: None }
    }
}

/// The history this cursor needs is gone, or something it should show cannot be read: the watch ends with 410.
#[derive(Debug)]
pub struct Gone;

/// So many events are looked at under the shard's lock before others get it, selected or not.
const STRETCH: usize = 4096;

/// Sees every event of its selection once, in order, or ends with [`Gone`].
pub struct Cursor {
    table: Arc<Table>,
    cell: Arc<Cell>,
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
    /// Its events show what stood there before.
    with_past: bool,
    interest: Interest,
    /// The events that concern it.
    topic: Arc<Topic>,
    notifier: Arc<Notifier>,
}

/// What a pull may still take.
struct Room<'a> {
    events: &'a mut Vec<WatchEvent>,
    with_past: bool,
    bytes: usize,
    looked_at: usize,
}

impl Room<'_> {
    fn is_full(&self) -> bool {
        self.bytes == 0 || self.looked_at == STRETCH
    }

    /// What an event after `after` is for a selection, if anything.
    fn take(&mut self, storage: &Storage, selection: &Selection, after: Revision, event: &Event) {
        self.looked_at += 1;
        if event.revision() <= after {
            return;
        }
        let was = event.past.as_ref().is_some_and(|p| selection.matches(&p.prev));
        let is = !event.deleted() && selection.matches(&event.obj);
        let (kind, obj) = match (was, is) {
            (false, false) => return,
            (false, true) => (EventKind::Added, event.obj.clone()),
            (true, true) => (EventKind::Modified, event.obj.clone()),
            (true, false) if event.deleted() => (EventKind::Deleted, event.obj.clone()),
            (true, false) => match event.left(storage) {
                Some(left) => (EventKind::Deleted, left),
                None => return,
            },
        };
        self.bytes = self.bytes.saturating_sub(obj.body().len());
        let past = event.past.as_ref().filter(|_| self.with_past).map(|past| past.prev.clone());
        self.events.push(WatchEvent { kind, obj, past });
    }
}

/// A place a cursor can go back to.
#[derive(Clone, Copy)]
pub struct CursorPosition {
    next: u64,
    caught_up: Revision,
    starting: bool,
}

impl Cursor {
    /// Right after `from`, which `shard`, the one of `cell`, still knows everything about.
    pub(crate) fn new(
        table: Arc<Table>,
        cell: Arc<Cell>,
        selection: Selection,
        from: Revision,
        shard: &Shard,
    ) -> Cursor {
        let interest = interest(&cell.storage, &selection);
        let notifier = Arc::new(Notifier::default());
        let topic = cell.watchers.lock().add(&interest, notifier.clone(), shard.end());
        Cursor {
            epoch: table.epoch(),
            next: shard.number_after(from),
            table,
            cell,
            selection,
            caught_up: from,
            starting: true,
            strict: false,
            with_past: false,
            interest,
            topic,
            notifier,
        }
    }

    /// For those who are served: it ends as soon as the selection holds something that cannot be read; `Err` if it does already.
    pub fn strict(mut self) -> Result<Cursor, Unreadable> {
        self.strict = true;
        let unreadable = self.unreadable(&self.cell.shard.read());
        unreadable.map_or(Ok(self), Err)
    }

    /// For a selection that can be made only of what the objects are converted to.
    pub fn with_past(mut self) -> Cursor {
        self.with_past = true;
        self
    }

    fn unreadable(&self, shard: &Shard) -> Option<Unreadable> {
        shard.unreadable(&self.cell.storage, &self.selection, Revision(u64::MAX))
    }

    /// Appends events to `out` until `max_bytes` of bodies are there, the log's end is reached, or a stretch of it was looked
    /// through. `Ok(true)`: at the end; everything up to [`Cursor::caught_up`] was handed out. `Ok(false)`: there is more, even
    /// if nothing was appended.
    pub fn pull(&mut self, out: &mut Vec<WatchEvent>, max_bytes: usize) -> Result<bool, Gone> {
        let Cursor { table, cell, selection, topic, next, .. } = self;
        let storage = &*cell.storage;
        let shard = cell.shard.read();
        // Read under the shard's lock: `publish` raises it while it still holds the lock.
        let seen = table.revision();
        if table.epoch() != self.epoch {
            return Err(Gone);
        }
        if self.strict && shard.unreadable(storage, selection, Revision(u64::MAX)).is_some() {
            return Err(Gone);
        }
        let after = if self.starting { self.caught_up } else { Revision(0) };
        let before = out.len();
        let mut room = Room { events: out, with_past: self.with_past, bytes: max_bytes, looked_at: 0 };
        let topic = topic.log(shard.first());
        // Along the log, and from where its topic is complete along that.
        let along_all = if self.interest == Interest::All { shard.end() } else { topic.since() };
        if *next < along_all {
            for event in shard.events(*next, along_all).ok_or(Gone)? {
                if room.is_full() {
                    return Ok(false);
                }
                *next += 1;
                room.take(storage, selection, after, event);
            }
        }
        for number in topic.from(*next).ok_or(Gone)? {
            let event = shard.event(number).ok_or(Gone)?;
            if room.is_full() {
                return Ok(false);
            }
            *next = number + 1;
            room.take(storage, selection, after, event);
        }
        *next = shard.end();
        // A definition that is gone has no more events: the watch ends once it was given the last ones.
        if cell.is_retired() {
            return if room.events.len() > before { Ok(false) } else { Err(Gone) };
        }
        if seen >= self.caught_up {
            self.caught_up = seen;
            self.starting = false;
        }
        Ok(true)
    }

    /// Where it stands.
    pub fn position(&self) -> CursorPosition {
        CursorPosition { next: self.next, caught_up: self.caught_up, starting: self.starting }
    }

    /// Back to where it was: events pulled since were not sent and are pulled again; by then they may be [`Gone`].
    pub fn rewind(&mut self, position: CursorPosition) {
        self.next = position.next;
        self.caught_up = position.caught_up;
        self.starting = position.starting;
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
        if self.notifier.listen(cx) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Waits until there may be something to pull.
    pub async fn changed(&self) {
        std::future::poll_fn(|cx| self.poll_changed(cx)).await
    }

    pub fn storage(&self) -> &Arc<Storage> {
        &self.cell.storage
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.cell.watchers.lock().remove(&self.interest, &self.topic, &self.notifier);
    }
}

fn interest(storage: &Storage, selection: &Selection) -> Interest {
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
