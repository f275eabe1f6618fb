//! Watches resources of the table: what wakes this server's own controllers.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use admission::list_newest;
use catalog::StorageId;
use table::{Cursor, Scope, Selection, Table, WatchEvent};

use crate::api::Api;
use crate::shutdown::Shutdown;

/// A list that failed is retried after this.
const UNREAD: Duration = Duration::from_millis(100);

/// Every object of some resources once, then their changes, until the server shuts down: a reflector without a cache.
pub struct TableWatcher {
    table: Arc<Table>,
    env: env::Env,
    shutdown: Shutdown,
    resources: Vec<WatchedResource>,
    lists: u64,
}

/// One resource, and the position in its log.
struct WatchedResource {
    storage: StorageId,
    /// Only objects of this name.
    name: Option<&'static str>,
    cursor: Option<Cursor>,
}

impl TableWatcher {
    /// Resources by group and plural name.
    pub fn new(api: &Api, resources: &[(&str, &str)]) -> TableWatcher {
        let table = api.registry().table().clone();
        let catalog = table.catalog();
        let stored = |(group, plural): &(&str, &str)| {
            let storage = catalog.find_storage(group, plural)?.id;
            Some(WatchedResource { storage, name: None, cursor: None })
        };
        let resources = resources.iter().filter_map(stored).collect();
        let env = api.registry().env().clone();
        TableWatcher { table, env, shutdown: api.shutdown(), resources, lists: 0 }
    }

    /// How often everything was listed: more than before means that deletions may have been missed.
    pub fn lists(&self) -> u64 {
        self.lists
    }

    /// Restricts the last resource to objects of this name.
    pub fn named(mut self, name: &'static str) -> TableWatcher {
        if let Some(resource) = self.resources.last_mut() {
            resource.name = Some(name);
        }
        self
    }

    /// The next events, at least one; at first, and after a gap in the history, every object as added. With `at_most` an empty answer
    /// after that time, for resyncs. `None`: the server is shutting down.
    pub async fn next_events(&mut self, at_most: Option<Duration>) -> Option<Vec<WatchEvent>> {
        let mut events = Vec::new();
        loop {
            if self.shutdown.has_begun() {
                return None;
            }
            let lists = self.lists;
            for WatchedResource { storage, name, cursor } in &mut self.resources {
                if cursor.as_mut().is_none_or(|cursor| cursor.pull_all(&mut events).is_err()) {
                    let everything = match name {
                        None => Selection::everything(Scope::All),
                        Some(name) => Selection::named(Scope::All, name),
                    };
                    *cursor = None;
                    let Ok(page) = list_newest(&self.table, *storage, &everything) else { continue };
                    self.lists += 1;
                    events.extend(page.items.into_iter().map(WatchEvent::added));
                    // From the revision of the list: changes made meanwhile wake us at once.
                    *cursor = self.table.watch_from(*storage, everything, page.revision).ok();
                }
            }
            // After a gap there may be nothing left to tell of.
            if !events.is_empty() || at_most.is_some() && self.lists > lists {
                return Some(events);
            }
            let resources = &self.resources;
            let changed = std::future::poll_fn(|cx| {
                let any =
                    resources.iter().flat_map(|p| &p.cursor).any(|cursor| cursor.poll_changed(cx).is_ready());
                if any { Poll::Ready(()) } else { Poll::Pending }
            });
            // A failed list has no cursor to wake us.
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
