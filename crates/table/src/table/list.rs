//! Lists: at a revision, a stretch at a time, by an index where there is one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::StorageId;
use object::Obj;
use store::{Key, Revision};

use super::{Cell, Page, PageStart, ReadError, Table};
use crate::shard::Found;
use crate::{Scope, Selection};

/// How many keys a read visits before it lets the writer in.
const STRETCH: usize = 4096;
/// A selection that looked at fewer objects than this is quick enough without an index.
const MANY: usize = 1024;
/// An index helps who takes at most one of so many objects.
const WORTH: usize = 8;

impl Table {
    /// Objects of a selection in key order: at `at`, or at the newest revision; what comes behind `behind`; at most `limit` (0: all).
    pub fn list(
        &self,
        storage: StorageId,
        selection: &Selection,
        at: Option<Revision>,
        behind: Option<PageStart<'_>>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        let cell = self.cell(storage).ok_or(ReadError::Undefined)?;
        let row = &*cell.storage;
        let limit = if limit == 0 { usize::MAX } else { limit };
        let mut items: Vec<Arc<Obj>> = Vec::new();
        let mut after: Option<Key> = behind.map(|behind| Key::from(behind.key));
        // How many there are in all; told by the page before, or counted where it is the newest state that is read.
        let mut total = behind.and_then(|behind| behind.left);
        let mut at = at;
        let mut visited_before = 0;
        let mut unreadable = None;
        loop {
            let shard = cell.shard.read();
            let seen = self.revision();
            let revision = at.unwrap_or(seen);
            if revision > seen {
                return Err(ReadError::Future { current: seen });
            }
            if revision < shard.floor() {
                return Err(ReadError::Expired { floor: shard.floor() });
            }
            if visited_before == 0 {
                unreadable = shard.unreadable(row, selection, revision);
                if after.is_none() && revision >= shard.changed() {
                    total = Some(shard.live_in(&selection.scope));
                }
            }
            if let Some(key) = selection.exact_key(row) {
                let found = shard.get_at(&key, revision).filter(|o| selection.matches(o)).cloned();
                let items =
                    found.into_iter().filter(|o| after.as_ref().is_none_or(|a| o.key() > &**a)).collect();
                return Ok(Page { items, revision, more: false, remaining: None, unreadable });
            }
            // Not in the middle of a scan: that goes on where it was.
            if visited_before == 0
                && let Some(found) = shard.find(
                    row,
                    selection,
                    after.as_deref(),
                    revision,
                    limit,
                    self.env.now_seconds() as u32,
                )
            {
                let Found { items, more } = found;
                return Ok(Page { items, revision, more, remaining: None, unreadable });
            }
            if items.is_empty()
                && limit == usize::MAX
                && selection.is_whole_scope()
                && selection.scope == Scope::All
            {
                items.reserve(shard.live());
            }
            let mut last = None;
            let mut here = 0;
            let mut full = None;
            for (visited, obj) in shard.range(row, &selection.scope, after.as_deref(), revision).enumerate() {
                if visited == STRETCH {
                    break;
                }
                // As upstream: whether what follows is selected too is only known to who goes on.
                if items.len() == limit && selection.matches_index(row, obj) {
                    let count = || {
                        let last = items.last().map(|o| o.key());
                        shard.range(row, &selection.scope, last, revision).count()
                    };
                    let remaining = selection
                        .is_whole_scope()
                        .then(|| total.map_or_else(count, |total| total.saturating_sub(items.len())));
                    full = Some(remaining);
                    last = None;
                    here = visited;
                    break;
                }
                if items.len() < limit && selection.matches_selectors(obj) {
                    items.push(obj.clone());
                }
                last = (visited + 1 == STRETCH).then(|| Key::from(obj.key()));
                here = visited + 1;
            }
            drop(shard);
            match last {
                None => {
                    self.index_if_worth_it(&cell, selection, visited_before + here, items.len());
                    let (more, remaining) = (full.is_some(), full.flatten());
                    return Ok(Page { items, revision, more, remaining, unreadable });
                }
                Some(last) => {
                    visited_before += here;
                    // Let the writer in, then go on at the same revision.
                    after = Some(last);
                    at = Some(revision);
                }
            }
        }
    }

    /// Makes an index where a selection looked at many objects for few, so that the next one need not.
    fn index_if_worth_it(&self, cell: &Cell, selection: &Selection, visited: usize, found: usize) {
        if visited < MANY || found * WORTH > visited {
            return;
        }
        let (row, now) = (&*cell.storage, self.env.now_seconds() as u32);
        let Some(field) = cell.shard.read().narrowest(row, selection, MANY / WORTH) else { return };
        // A stretch at a time, with the writer in between.
        while cell.shard.write().build_index(row, field, now) {}
        self.indexed.store(true, Ordering::Relaxed);
    }
}
