//! Assembles the fragments of watch responses into complete revisions, and checks that none is missing.
//!
//! The watch covers every key of etcd, and each of etcd's revisions changes at least one key. So the revisions
//! of the events must follow each other without a gap. A gap, or a lower revision, means that events were lost or
//! belong to another log; etcd has had such faults (a delete at the very revision of a compaction was not
//! told to a watch that started there). Then nothing less than a reload is correct.

use std::fmt;

use crate::proto::{EVENT_DELETE, Event, WatchResponse};

/// The events of one or more complete revisions, in order.
#[derive(Debug, PartialEq)]
pub struct Batch {
    pub events: Vec<WatchEvent>,
    /// The last of them.
    pub upto: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    pub revision: u64,
    pub key: Vec<u8>,
    /// `None`: deleted.
    pub value: Option<Vec<u8>>,
    /// 0: none.
    pub lease: i64,
}

/// The watch cannot be trusted.
#[derive(Debug, PartialEq)]
pub struct WatchError(String);

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub struct Assembler {
    /// Last revision that left as part of a batch.
    done: u64,
    /// Fragments of one response. etcd splits an answer anywhere, so also inside a revision.
    fragments: Vec<WatchEvent>,
    fragment_bytes: usize,
}

/// One answer spans at most a thousand revisions; this is far more than etcd makes of them.
const MAX_FRAGMENT_BYTES: usize = 1 << 30;

impl Assembler {
    /// For a watch that starts after `seen`.
    pub fn new(seen: u64) -> Assembler {
        Assembler { done: seen, fragments: Vec::new(), fragment_bytes: 0 }
    }

    /// Whole revisions, if the answer completes some. An answer that is not the first part of another holds
    /// whole revisions only: that is etcd's promise.
    pub fn take(&mut self, answer: WatchResponse) -> Result<Option<Batch>, WatchError> {
        for event in answer.events {
            let event = self.check(event)?;
            self.fragment_bytes += event.key.len() + event.value.as_ref().map_or(0, Vec::len);
            self.fragments.push(event);
        }
        if self.fragment_bytes > MAX_FRAGMENT_BYTES {
            return Err(WatchError(format!(
                "one answer of the watch holds more than {MAX_FRAGMENT_BYTES} bytes"
            )));
        }
        let Some(last) = self.fragments.last().filter(|_| !answer.fragment) else { return Ok(None) };
        self.done = last.revision;
        self.fragment_bytes = 0;
        Ok(Some(Batch { events: std::mem::take(&mut self.fragments), upto: self.done }))
    }

    fn check(&self, event: Event) -> Result<WatchEvent, WatchError> {
        let kv = event.kv.ok_or_else(|| WatchError("an event without a key".into()))?;
        let revision = u64::try_from(kv.mod_revision)
            .map_err(|_| WatchError(format!("revision {}", kv.mod_revision)))?;
        // Inside an answer a revision may have several events; one that has left is complete.
        let (last, may_repeat) = match self.fragments.last() {
            Some(event) => (event.revision, true),
            None => (self.done, false),
        };
        if revision != last + 1 && !(may_repeat && revision == last) {
            return Err(WatchError(format!("revision {revision} follows {last}")));
        }
        let value = (event.kind != EVENT_DELETE).then_some(kv.value);
        Ok(WatchEvent { revision, key: kv.key, value, lease: kv.lease })
    }
}

#[cfg(test)]
mod tests;
