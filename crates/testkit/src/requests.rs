//! Records which user makes which writes, and finds status writes to the wrong endpoint or without a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use client::{Answer, Client, Clients, Patch, Target, WriteOptions};
use object::{Obj, Status, Value};
use parking_lot::Mutex;
use store::Revision;
use table::Table;

use crate::TestCluster;
use crate::forward::{Forward, Forwarding, Verb};

/// Clients that record their requests.
pub struct Requests {
    inner: Arc<dyn Clients>,
    table: Arc<Table>,
    seen: Arc<Mutex<Seen>>,
}

/// The requests so far.
#[derive(Clone, Default, Debug)]
pub struct Seen {
    /// Counts by user, verb, and `resource` or `resource/subresource`. Rejected ones count.
    pub writes: BTreeMap<(String, String, String), usize>,
    /// Status written through the main resource, and status writes that changed nothing.
    pub wrongs: Vec<String>,
}

impl Seen {
    /// The number of writes of a user to a resource; `what` as in [`Seen::writes`], `who` a full user name.
    pub fn count(&self, who: &str, what: &str) -> usize {
        let its = self.writes.iter().filter(|((name, _, resource), _)| name == who && resource == what);
        its.map(|(_, count)| count).sum()
    }
    /// The number of writes of a user, except for Events and Leases.
    pub fn all_of(&self, who: &str) -> usize {
        let tells = |what: &str| what == "events" || what == "leases";
        let its = self.writes.iter().filter(|((name, _, resource), _)| name == who && !tells(resource));
        its.map(|(_, count)| count).sum()
    }
}

impl Requests {
    pub fn new(cluster: &TestCluster, inner: Arc<dyn Clients>) -> Arc<Requests> {
        let table = cluster.api().registry().table().clone();
        Arc::new(Requests { inner, table, seen: Arc::default() })
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    fn wrap(&self, who: &str, inner: Arc<dyn Client>) -> Arc<dyn Client> {
        let (who, table, seen) = (who.to_owned(), self.table.clone(), self.seen.clone());
        Arc::new(Forwarding(Noted { who, inner, table, seen }))
    }
}

impl Clients for Requests {
    fn controller(&self, name: &str) -> Arc<dyn Client> {
        self.wrap(name, self.inner.controller(name))
    }
    fn user(&self, name: &str, groups: &[&str]) -> Arc<dyn Client> {
        self.wrap(name, self.inner.user(name, groups))
    }
}

struct Noted {
    who: String,
    inner: Arc<dyn Client>,
    table: Arc<Table>,
    seen: Arc<Mutex<Seen>>,
}

impl Noted {
    fn wrong(&self, target: Target<'_>, what: &str) {
        let Target { resource, namespace, name, subresource, .. } = target;
        let line = format!("{}: {}/{subresource} {namespace}/{name}: {what}", self.who, resource.plural);
        self.seen.lock().wrongs.push(line);
    }

    /// The object as stored.
    fn stored(&self, target: Target<'_>) -> Option<Arc<Obj>> {
        let catalog = self.table.catalog();
        let storage = catalog.find_storage(&target.resource.group, &target.resource.plural)?;
        self.table.get(storage.id, &storage.key(target.namespace, target.name))
    }

    /// A write that changed something has a newer resourceVersion; one that changed nothing has not.
    async fn changes(&self, target: Target<'_>, call: Answer<'_, Arc<Obj>>) -> Result<Arc<Obj>, Status> {
        let before: Revision = self.table.revision();
        let answer = call.await?;
        if target.subresource == "status" && answer.revision() <= before {
            self.wrong(target, "a status was written that had not changed");
        }
        Ok(answer)
    }
}

impl Forward for Noted {
    fn inner(&self) -> &dyn Client {
        &*self.inner
    }
    fn update<'a>(
        &'a self,
        target: Target<'a>,
        body: Value,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        let stored = self.stored(target).map(|stored| runtime::tree(&stored));
        let version = &["metadata", "resourceVersion"];
        let status = |tree: &Value| tree.at(&["status"]).cloned();
        if target.subresource.is_empty()
            && let Some(stored) = stored
            && stored.str_at(version) == body.str_at(version)
            && status(&stored) != status(&body)
        {
            self.wrong(target, "an update of the resource brings another status");
        }
        let call = self.changes(target, self.inner.update(target, body, options));
        self.write(Verb::Update, target, Box::pin(call))
    }
    fn patch<'a>(
        &'a self,
        target: Target<'a>,
        patch: Patch,
        options: WriteOptions<'a>,
    ) -> Answer<'a, Arc<Obj>> {
        let about_status = match &patch {
            Patch::Merge(tree) | Patch::Strategic(tree) | Patch::Apply(tree) => {
                tree.at(&["status"]).is_some()
            }
            Patch::Json(patch) => {
                let operations = patch.clone().into_value();
                let mut paths =
                    operations.as_list().unwrap_or_default().iter().map(|op| op.str_at(&["path"]));
                paths.any(|path| path.is_some_and(|at| at.starts_with("/status")))
            }
        };
        if target.subresource.is_empty() && about_status {
            self.wrong(target, "a patch of the resource brings a status");
        }
        let call = self.changes(target, self.inner.patch(target, patch, options));
        self.write(Verb::Patch, target, Box::pin(call))
    }
    fn write<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        target: Target<'a>,
        call: Answer<'a, T>,
    ) -> Answer<'a, T> {
        let Target { resource, subresource, .. } = target;
        let what = match subresource {
            "" => resource.plural.to_string(),
            subresource => format!("{}/{subresource}", resource.plural),
        };
        *self.seen.lock().writes.entry((self.who.clone(), format!("{verb:?}"), what)).or_default() += 1;
        call
    }
}
