//! The history of a StatefulSet or a DaemonSet: each template it had, as a ControllerRevision with a number.
//!
//! ```text
//! template ── data ── same bytes as the newest ──> nothing to write
//!                 ├── as an older one ───────────> that one gets the next number: a rollback
//!                 └── as none ───────────────────> a new one, named after the hash of its data
//! ```
//! The data is a strategic merge patch that puts the template back ([`data`]), byte for byte as kube-controller-manager writes it: a
//! history begun by one is gone on with by the other, under the same names.

mod data;
mod decide;
mod name;
#[cfg(test)]
mod tests;
mod write;

use std::sync::Arc;

use client::Client;
use client::resources::CONTROLLER_REVISIONS;
use env::Env;
use object::{Obj, Value, time};
use runtime::Informer;

use crate::Context;
use crate::claim::{Selector, candidates, index_orphans, matches};

pub(crate) use data::{Restorer, template_patch};
pub(crate) use decide::{Change, change, surplus};
pub(crate) use name::{hash, name};
pub(crate) use write::Draft;

/// One revision. What is read of it is read once per version of the object.
#[derive(Clone)]
pub(crate) struct Revision {
    pub obj: Arc<Obj>,
    view: Arc<View>,
}

struct View {
    number: i64,
    /// Unix seconds.
    created: i64,
    /// The member `data`, encoded.
    data: Box<[u8]>,
}

impl Revision {
    pub fn new(obj: Arc<Obj>) -> Revision {
        let view = obj.view(|obj| View::read(&runtime::tree(obj)));
        Revision { obj, view }
    }
    pub fn name(&self) -> &str {
        self.obj.name()
    }
    pub fn number(&self) -> i64 {
        self.view.number
    }
    pub fn data(&self) -> &[u8] {
        &self.view.data
    }
}

impl View {
    fn read(tree: &Value) -> View {
        let created = tree.str_at(&["metadata", "creationTimestamp"]).and_then(time::parse);
        View {
            number: tree.get("revision").and_then(Value::as_int).unwrap_or(0),
            created: created.map_or(0, |(seconds, _)| seconds),
            data: tree.get("data").map(codec::json::to_vec).unwrap_or_default().into(),
        }
    }
}

/// By number; those of one number by age, then by name.
pub(crate) fn sort(revisions: &mut [Revision]) {
    revisions.sort_by(|a, b| {
        let key = |revision: &Revision| (revision.view.number, revision.view.created);
        key(a).cmp(&key(b)).then_with(|| a.name().cmp(b.name()))
    });
}

/// What one controller keeps of its owners' pasts.
pub(crate) struct History {
    env: Env,
    client: Arc<dyn Client>,
    revisions: Arc<Informer>,
}

impl History {
    pub fn new(context: &Context, client: Arc<dyn Client>) -> History {
        let revisions = context.informers.of(&CONTROLLER_REVISIONS);
        index_orphans(&revisions);
        History { env: context.env.clone(), client, revisions }
    }

    /// To wait for: who has not seen its own revisions makes them twice.
    pub fn informer(&self) -> &Arc<Informer> {
        &self.revisions
    }

    /// The owner's, and those of nobody that its selector means, sorted.
    pub fn list(&self, owner: &Obj, selector: &Selector) -> Vec<Revision> {
        let mut all = candidates(&self.revisions, owner, selector);
        all.retain(|obj| matches(selector, obj));
        let mut all: Vec<Revision> = all.into_iter().map(Revision::new).collect();
        sort(&mut all);
        all
    }
}
