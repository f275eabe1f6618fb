//! watch: where it starts, and the cursor it goes on with.

use std::sync::Arc;

use catalog::Storage;
use object::{ListOptions, Obj, Status};
use store::Revision;
use table::{Cursor, ReadError, Selection};

use crate::convert::webhook::{Asked, converted_storage, initializing};
use crate::read::{as_cache_error, parse_version, readable, too_old, validate};
use crate::{Registry, RequestContext, not_readable, redefined};

/// A watch about to stream.
pub struct Watch {
    pub start: WatchStart,
    pub cursor: Cursor,
    /// What the watch is about, where that shows only when a webhook has converted the objects: for
    /// [`Registry::convert_events`].
    pub selection: Option<Selection>,
}

/// What is sent before the changes.
pub enum WatchStart {
    /// Only what happens after the named revision.
    Changes,
    /// The state as ADDED events first; with `end_bookmark`, a bookmark says when it was complete.
    State { items: Vec<Arc<Obj>>, revision: Revision, end_bookmark: bool },
}

impl Registry {
    pub async fn watch(&self, request: &RequestContext<'_>, options: &ListOptions) -> Result<Watch, Status> {
        let storage = request.storage()?;
        validate(options)?;
        let mut selection = self.selection(request, options)?;
        let mut converted = None;
        if selection.looks_inside() && converted_storage(request.resource).is_some() {
            let outside = selection.outside();
            converted = Some(std::mem::replace(&mut selection, outside));
        }
        let version = parse_version(&options.resource_version).map_err(|status| as_cache_error(&status))?;

        let wants_state = match options.send_initial_events {
            Some(wants) => wants,
            None => matches!(version, None | Some(0)),
        };
        if !wants_state {
            let from = match version {
                // Asked for changes only, from now on.
                None | Some(0) => {
                    self.linearizable_read().await?;
                    self.table().revision()
                }
                Some(n) => Revision(n),
            };
            let cursor =
                self.table().watch_from(storage.id, selection, from).map_err(expired(storage, from))?;
            let cursor = followed(cursor, &converted)?;
            return Ok(Watch { start: WatchStart::Changes, cursor, selection: converted });
        }

        match version {
            None => self.linearizable_read().await?,
            Some(0) => {}
            Some(n) => self.wait_until(Revision(n)).await?,
        }
        let page = self
            .table()
            .list(storage.id, &selection, None, None, 0)
            .map_err(expired(storage, Revision(0)))?;
        let mut page = readable(page)?;
        let cursor = self
            .table()
            .watch_from(storage.id, selection, page.revision)
            .map_err(expired(storage, page.revision))?;
        let cursor = followed(cursor, &converted)?;
        let kept = self.convert_for(request.resource, &mut page.items, Asked::Once).await;
        kept.map_err(|failure| initializing(request.resource, failure))?;
        if let Some(converted) = &converted {
            page.items.retain(|obj| converted.matches_selectors(obj));
        }
        let end_bookmark = options.send_initial_events == Some(true) && options.allow_bookmarks;
        Ok(Watch {
            start: WatchStart::State { items: page.items, revision: page.revision, end_bookmark },
            cursor,
            selection: converted,
        })
    }
}

fn followed(cursor: Cursor, converted: &Option<Selection>) -> Result<Cursor, Status> {
    let cursor = if converted.is_some() { cursor.with_past() } else { cursor };
    cursor.strict().map_err(not_readable)
}

fn expired(storage: &Storage, wanted: Revision) -> impl Fn(ReadError) -> Status + '_ {
    move |error| match error {
        ReadError::Expired { floor } => too_old(wanted, floor),
        ReadError::Future { current } => Status::too_large_resource_version(wanted.0, current.0),
        ReadError::Undefined => redefined(storage),
    }
}
