//! What makes a reconcile: the change alone, the change as a reason to look, or that and time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use object::Obj;
use parking_lot::Mutex;

use crate::backoff::jittered;
use crate::{InformerEvent, Key};

/// The three strategies, from the one that forgives nothing to the one that forgives most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Every change is a reconcile of its own, which is told that change ([`ReconcileRequest::change`](crate::ReconcileRequest::change)) and acts on
    /// it. What is missed is never made up for. For things that are about changes, such as counting or forwarding them.
    EdgeOnly,
    /// A change asks for a reconcile, which looks at the state. What is missed is made up for by the next reconcile of that key.
    Level,
    /// As `Level`, and every known object asks again after a while: between once and twice this period, drawn at the
    /// start. What is missed is made up for by itself.
    LevelWithResync { period: Duration },
}

impl Default for Trigger {
    fn default() -> Trigger {
        Trigger::LevelWithResync { period: Duration::from_secs(12 * 3600) }
    }
}

impl Trigger {
    pub(crate) fn resync(self, env: &Env) -> Option<Duration> {
        match self {
            Trigger::EdgeOnly | Trigger::Level => None,
            Trigger::LevelWithResync { period } => Some(jittered(env, period, 1.0)),
        }
    }
}

/// One change, for controllers that act on changes.
#[derive(Clone)]
pub enum Change {
    Added(Arc<Obj>),
    Updated { old: Arc<Obj>, new: Arc<Obj> },
    Deleted(Arc<Obj>),
}

/// More changes than this wait for nobody: the rest is lost, as edges are.
const MOST: usize = 10_000;

/// Changes whose turn has not come, oldest first for each key.
#[derive(Default)]
pub(crate) struct Edges {
    /// Guards the changes and their number; held for a few instructions.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    changes: BTreeMap<Key, VecDeque<Change>>,
    count: usize,
}

impl Edges {
    pub(crate) fn push(&self, key: &Key, event: &InformerEvent<'_>) {
        let change = match event {
            InformerEvent::Added { obj, .. } => Change::Added((*obj).clone()),
            InformerEvent::Updated { sync: true, .. } => return,
            InformerEvent::Updated { old, new, .. } => {
                Change::Updated { old: (*old).clone(), new: (*new).clone() }
            }
            InformerEvent::Deleted { obj, .. } => Change::Deleted((*obj).clone()),
        };
        let mut waiting = self.waiting.lock();
        if waiting.count == MOST {
            tracing::warn!(key = key.as_str(), "too many pending changes, dropping one");
            return;
        }
        waiting.count += 1;
        waiting.changes.entry(key.clone()).or_default().push_back(change);
    }

    pub(crate) fn first(&self, key: &Key) -> Option<Change> {
        self.waiting.lock().changes.get(key)?.front().cloned()
    }

    /// The first change of the key was dealt with; are there more?
    pub(crate) fn settle(&self, key: &Key) -> bool {
        let mut waiting = self.waiting.lock();
        let Waiting { changes, count } = &mut *waiting;
        let Some(of_key) = changes.get_mut(key) else { return false };
        *count -= usize::from(of_key.pop_front().is_some());
        let more = !of_key.is_empty();
        if !more {
            changes.remove(key);
        }
        more
    }
}
