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
pub struct TableWatcher {
    table: Arc<Table>,
    env: env::Env,
    shutdown: Shutdown,
    resources: Vec<WatchedResource>,
}

/// One resource, and how far it was seen.
struct WatchedResource {
    storage: StorageId,
    /// Only objects of this name.
    name: Option<&'static str>,
    cursor: Option<Cursor>,
}

impl TableWatcher {
    /// Resources by group and plural.
    pub fn new(api: &Api, resources: &[(&str, &str)]) -> TableWatcher {
        let table = api.registry().table().clone();
        let catalog = table.catalog();
        let stored = |(group, plural): &(&str, &str)| {
            let storage = catalog.find_storage(group, plural)?.id;
            Some(WatchedResource { storage, name: None, cursor: None })
        };
        let resources = resources.iter().filter_map(stored).collect();
        TableWatcher { table, env: api.registry().env().clone(), shutdown: api.shutdown(), resources }
    }

    /// Only objects of this name of the last resource: the others do not wake anyone.
    pub fn named(mut self, name: &'static str) -> TableWatcher {
        if let Some(resource) = self.resources.last_mut() {
            resource.name = Some(name);
        }
        self
    }

    /// What changed, at least one event; everything there is, as added, first and after history was lost.
    /// With `at_most`, an empty answer after that time: to look at what only time changes. `None`: going down.
    pub async fn next_events(&mut self, at_most: Option<Duration>) -> Option<Vec<WatchEvent>> {
        let mut events = Vec::new();
        loop {
            if self.shutdown.has_begun() {
                return None;
            }
            for WatchedResource { storage, name, cursor } in &mut self.resources {
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
            let resources = &self.resources;
            let changed = std::future::poll_fn(|cx| {
                let any =
                    resources.iter().flat_map(|p| &p.cursor).any(|cursor| cursor.poll_changed(cx).is_ready());
                if any { Poll::Ready(()) } else { Poll::Pending }
            });
            // What could not be read has no cursor to wake us.
            let unread = self.resources.iter().any(|resource| resource.cursor.is_none());
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
