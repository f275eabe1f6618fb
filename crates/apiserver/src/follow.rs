//! Following resources of the table: what a loop of the server's own is woken by.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use admission::newest;
use catalog::StorageId;
use table::{Cursor, EventKind, Scope, Selection, Table, WatchEvent};

use crate::api::Api;
use crate::shutdown::Shutdown;

/// What could not be read is tried again after this.
const UNREAD: Duration = Duration::from_millis(100);

/// Sees every object of some resources once, then their changes, until the server goes down.
pub struct Follow {
    table: Arc<Table>,
    env: env::Env,
    shutdown: Shutdown,
    places: Vec<Place>,
}

/// One resource, and how far it was seen.
struct Place {
    storage: StorageId,
    /// Only objects of this name.
    name: Option<&'static str>,
    cursor: Option<Cursor>,
}

impl Follow {
    /// Resources by group and plural.
    pub fn new(api: &Api, resources: &[(&str, &str)]) -> Follow {
        let table = api.registry().table().clone();
        let catalog = table.catalog();
        let stored = |(group, plural): &(&str, &str)| {
            let storage = catalog.find_storage(group, plural)?.id;
            Some(Place { storage, name: None, cursor: None })
        };
        let places = resources.iter().filter_map(stored).collect();
        Follow { table, env: api.registry().env().clone(), shutdown: api.shutdown(), places }
    }

    /// Only objects of this name of the last resource: the others do not wake anyone.
    pub fn named(mut self, name: &'static str) -> Follow {
        if let Some(place) = self.places.last_mut() {
            place.name = Some(name);
        }
        self
    }

    /// What changed, at least one event; everything there is, as added, first and after history was lost.
    /// With `at_most`, an empty answer after that time: to look at what only time changes. `None`: going down.
    pub async fn changes(&mut self, at_most: Option<Duration>) -> Option<Vec<WatchEvent>> {
        let mut events = Vec::new();
        loop {
            if self.shutdown.has_begun() {
                return None;
            }
            for Place { storage, name, cursor } in &mut self.places {
                if cursor.as_mut().is_none_or(|cursor| cursor.pull_all(&mut events).is_err()) {
                    let everything = match name {
                        None => Selection::everything(Scope::All),
                        Some(name) => Selection::named(Scope::All, name),
                    };
                    *cursor = None;
                    let Ok(page) = newest(&self.table, *storage, &everything) else { continue };
                    let added = |obj| WatchEvent { kind: EventKind::Added, obj };
                    events.extend(page.items.into_iter().map(added));
                    // Right after what was read: changes made meanwhile wake us at once.
                    *cursor = self.table.watch_from(*storage, everything, page.revision).ok();
                }
            }
            if !events.is_empty() {
                return Some(events);
            }
            let places = &self.places;
            let changed = std::future::poll_fn(|cx| {
                let any =
                    places.iter().flat_map(|p| &p.cursor).any(|cursor| cursor.poll_changed(cx).is_ready());
                if any { Poll::Ready(()) } else { Poll::Pending }
            });
            // What could not be read has no cursor to wake us.
            let unread = self.places.iter().any(|place| place.cursor.is_none());
            let wait = at_most.unwrap_or(Duration::from_secs(3600));
            let wait = if unread { wait.min(UNREAD) } else { wait };
            tokio::select! {
                biased;
                () = self.shutdown.begun() => return None,
                () = changed => {}
                () = self.env.sleep(wait) => if at_most.is_some() && !unread { return Some(events) },
            }
        }
    }
}
