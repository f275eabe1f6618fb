//! The one table: every object in memory, its versions by key, and the log that feeds watches.
//!
//! ```text
//! engine ── publish(changes) ──> Obj (bytes + header) ──> shard: key -> versions, newest last
//!                                                          └── log of events ── cursors (watches) pull
//! readers ── get / list at a revision ────────────────────────┘
//! ```
//!
//! *One writer*: the engine calls [`store::State`] from one place at a time, in revision order. *Many readers*:
//! each takes a shard's read lock for a bounded stretch. A revision becomes readable at once in all shards it
//! touches, because `publish` holds their locks while it raises the table's revision.
//!
//! Definitions come and go ([`Table::define`], [`Table::undefine`]); catalogue and shards are one snapshot that is swapped. Keys
//! that no definition claims count for guards and revisions, and become objects the moment their definition comes.
//!
//! Superseded versions and log entries are kept by resource, for a while and in proportion to what lives; what is older is below the
//! *floor*: reads there are 410 Gone, and a cursor ends whose own events were forgotten before it had them.

mod cursor;
mod define;
mod foreign;
mod history;
mod index;
mod select;
mod shard;
mod table;
mod unclaimed;
mod unreadable;
mod watchers;

pub use cursor::{Cursor, CursorPosition, EventKind, Gone, WatchEvent};
pub use history::{HISTORY_BYTES, HISTORY_SECONDS};
pub use select::{Scope, Selection};
pub use table::{Page, PageStart, ReadError, Table, Version};

#[cfg(test)]
mod tests;
