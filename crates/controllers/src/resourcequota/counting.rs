//! The book and the caches it is filled from: only of resources that some quota counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use catalog::{Catalog, Verbs};
use client::Gvr;
use client::resources::{DEVICE_CLASSES, PODS, RESOURCE_CLAIMS};
use env::Env;
use kinds::resourcequota::usage::{Evaluator, List, Lookup, Quota};
use object::{Obj, Revision, Value};
use parking_lot::Mutex;
use runtime::{BY_CONTROLLER, Informer, InformerEvent, Informers, Key, WorkQueue, tree};
use tokio::time::Instant;

use super::book::{self, Books, Moved};

/// Many deletions are written as one.
const GATHER: Duration = Duration::from_millis(10);
/// What was created is looked at after this: a write that did not see a new quota yet is not charged to it.
const CREATED: Duration = Duration::from_secs(1);

/// A plain count: `count/configmaps`, `count/widgets.example.com`.
const COUNT: &str = "count/";

/// What objects of another server must be able to do, as upstream wants it.
fn countable() -> Verbs {
    Verbs::CREATE | Verbs::LIST | Verbs::WATCH | Verbs::DELETE
}

/// What charges of resource claims depend on.
static LOOKED_UP: [&Gvr; 3] = [&DEVICE_CLASSES, &PODS, &RESOURCE_CLAIMS];

pub struct Counting {
    env: Env,
    informers: Arc<Informers>,
    queue: Arc<WorkQueue<Key>>,
    /// Guards the sums; never held while waiting.
    books: Mutex<Books>,
    /// Guards which resources are followed.
    followed: Mutex<BTreeMap<Gvr, Arc<Informer>>>,
}

/// A resource a quota counts.
pub struct Counted {
    pub resource: Gvr,
    pub evaluator: Evaluator,
    pub informer: Arc<Informer>,
}

/// A resource whose cache has not seen what was charged, and since when that is known.
pub struct Behind<'r> {
    pub of: &'r Counted,
    pub since: Instant,
}

impl Counting {
    pub fn new(env: &Env, informers: &Arc<Informers>, queue: Arc<WorkQueue<Key>>) -> Counting {
        let (env, informers) = (env.clone(), informers.clone());
        Counting { env, informers, queue, books: Mutex::default(), followed: Mutex::default() }
    }

    /// Our own writes, and charges, do not change what is counted.
    pub fn quota_changed(&self, event: &InformerEvent<'_>) -> Vec<Key> {
        let obj = event.obj();
        if let InformerEvent::Deleted { .. } = event {
            self.books.lock().forget(obj.namespace(), obj.name());
            return Vec::new();
        }
        let again = matches!(event, InformerEvent::Updated { sync: true, .. });
        if self.observe(obj) || again { vec![Key::of(obj)] } else { Vec::new() }
    }

    /// Whether the quota has to be counted.
    pub fn observe(&self, obj: &Obj) -> bool {
        let (quota, catalog) = (Quota::of(tree(obj)), self.informers.catalog());
        let (mut aggregated, now) = (self.aggregated(&quota, &catalog), self.env.monotonic());
        // Until its objects were read, a server says nothing about how many there are.
        aggregated.retain(|(resource, _)| self.followed.lock().get(resource).is_some_and(|i| i.has_synced()));
        let mut books = self.books.lock();
        books.observe(&quota, obj.revision(), &catalog, &aggregated, now) || quota.is_unsettled(&catalog)
    }

    /// Watches what other servers have and the quota counts, as metadata. `false`: some of it is not read yet.
    pub fn follow_aggregated(self: &Arc<Counting>, obj: &Obj) -> bool {
        let resources = self.aggregated(&Quota::of(tree(obj)), &self.informers.catalog());
        let informers = resources.iter().map(|(resource, _)| {
            let informer = self.informers.metadata_of(resource);
            self.hear_of(resource, &informer);
            informer
        });
        // All of them are started before any is waited for.
        informers.collect::<Vec<_>>().iter().all(|informer| informer.has_synced())
    }

    /// The resources of other servers that a quota counts, each in its preferred version.
    fn aggregated(&self, quota: &Quota, catalog: &Catalog) -> Vec<(Gvr, Evaluator)> {
        let names = || quota.wanted.keys().filter(|name| name.starts_with(COUNT));
        // Few quotas have such a name: nobody is asked what is served for the others.
        if names().next().is_none() {
            return Vec::new();
        }
        let found = self.informers.aggregated();
        let countable =
            found.resources.iter().filter(|found| found.namespaced && found.verbs.contains(countable()));
        let followed = self.followed.lock();
        // Whose server cannot be asked is counted on.
        let unreachable = followed.keys().filter(|resource| found.is_stale(resource));
        let mut all: Vec<(Gvr, Evaluator)> = Vec::new();
        for resource in unreachable.chain(countable.map(|found| &found.resource)) {
            let name = format!("{COUNT}{}.{}", resource.plural, resource.group);
            let is_here = || catalog.find_storage(&resource.group, &resource.plural).is_some();
            let same = |(other, _): &(Gvr, Evaluator)| {
                (&other.group, &other.plural) == (&resource.group, &resource.plural)
            };
            if names().any(|wanted| *wanted == name) && !all.iter().any(same) && !is_here() {
                all.push((resource.clone(), Evaluator::Count(vec![name])));
            }
        }
        all
    }

    /// Whether the quota has the name of a resource that nobody serves, as far as is known.
    pub fn misses_a_resource(&self, obj: &Obj) -> bool {
        let quota = Quota::of(tree(obj));
        let counted = self.books.lock().counted_by(obj.namespace(), obj.name());
        let mut names = quota.wanted.keys().filter(|name| name.starts_with(COUNT));
        names.any(|name| !counted.iter().any(|(_, evaluator, _)| evaluator.counts(name)))
    }

    /// What the quota counts, each with a handler on it.
    pub fn follow(self: &Arc<Counting>, quota: &Obj) -> Vec<Counted> {
        let counted = self.books.lock().counted_by(quota.namespace(), quota.name());
        let follow = |(resource, evaluator, aggregated): (Gvr, Evaluator, bool)| {
            let informer = match aggregated {
                true => self.informers.metadata_of(&resource),
                false => self.informers.of(&resource),
            };
            self.hear_of(&resource, &informer);
            Counted { resource, evaluator, informer }
        };
        counted.into_iter().map(follow).collect()
    }

    fn hear_of(self: &Arc<Counting>, resource: &Gvr, informer: &Arc<Informer>) {
        // Held until the handler is there: nobody may take it for followed before.
        let mut followed = self.followed.lock();
        let known = followed.insert(resource.clone(), informer.clone());
        if !known.is_some_and(|known| Arc::ptr_eq(&known, informer)) {
            // Served again, as something else: what the other one told is void.
            self.books.lock().forget_resource(resource);
            let (told, of) = (self.clone(), resource.clone());
            informer.add_resyncing_handler(Box::new(move |event| told.object_changed(&of, event)));
        }
    }

    /// Is anything that is counted, or looked up for it, not read yet?
    pub fn is_unread(&self, resources: &[Counted]) -> bool {
        let looked_up = |counted: &Counted| match counted.evaluator {
            Evaluator::DeviceClaims => LOOKED_UP.map(|resource| self.informers.of(resource)).to_vec(),
            _ => Vec::new(),
        };
        let mut all = resources.iter().flat_map(|c| looked_up(c).into_iter().chain([c.informer.clone()]));
        all.any(|informer| !informer.has_synced())
    }

    fn object_changed(&self, resource: &Gvr, event: &InformerEvent<'_>) {
        let obj = event.obj();
        let mut books = self.books.lock();
        let Some(evaluator) = books.evaluator(obj.namespace(), resource) else { return };
        let moved = if let InformerEvent::Deleted { .. } = event {
            books.remove(resource, obj)
        } else {
            let usage = book::measure(evaluator, obj, self.env.now_seconds() as i64, self);
            books.put(resource, obj, usage)
        };
        drop(books);
        for (quota, moved) in moved {
            let wait = if moved == Moved::Down { GATHER } else { CREATED };
            self.queue.add_after(Key::new(obj.namespace(), &quota), wait, None);
        }
    }

    /// Brings the book in line with the caches: for a resource nobody counted before, and for all of them when the period is over.
    pub fn load(&self, quota: &Obj, resources: &[Counted], period: Option<Duration>) {
        let (namespace, now) = (quota.namespace(), self.env.now_seconds() as i64);
        let begun = self.env.monotonic();
        let due = |last: Instant| period.is_some_and(|period| begun >= last + period);
        let recount = self.books.lock().recount(namespace, quota.name(), due, begun);
        for Counted { resource, evaluator, informer } in resources {
            if !recount && self.books.lock().evaluator(namespace, resource).is_some() {
                continue;
            }
            // Most of it is measured without the lock.
            let known = self.books.lock().usages(namespace, resource);
            let usages =
                book::measure_all(evaluator, &informer.store().list_namespace(namespace), &known, now, self);
            let mut books = self.books.lock();
            // And what changed meanwhile with it: from here on the handler tells.
            let objects = informer.store().list_namespace(namespace);
            let usages = book::measure_all(evaluator, &objects, &usages, now, self);
            books.replace(namespace, resource, evaluator, usages);
        }
    }

    /// The resources whose caches have not seen what was charged.
    pub fn behind<'r>(&self, quota: &Obj, resources: &'r [Counted]) -> Vec<Behind<'r>> {
        let books = self.books.lock();
        let behind = |of: &'r Counted| {
            let charged = books.charged(quota.namespace(), quota.name(), &of.resource)?;
            (of.informer.revision() < charged.at).then_some(Behind { of, since: charged.heard })
        };
        resources.iter().filter_map(behind).collect()
    }

    /// Counts what the server has.
    pub fn read(&self, quota: &Obj, counted: &Counted, objects: &[Arc<Obj>], revision: Revision) {
        let (namespace, now) = (quota.namespace(), self.env.now_seconds() as i64);
        let Counted { resource, evaluator, .. } = counted;
        let mut books = self.books.lock();
        let usages = book::measure_all(evaluator, objects, &books.usages(namespace, resource), now, self);
        books.replace(namespace, resource, evaluator, usages);
        books.has_seen(namespace, resource, revision);
    }

    pub fn used(&self, quota: &Obj) -> Option<List> {
        self.books.lock().used(quota.namespace(), quota.name())
    }
}

impl Lookup for Counting {
    fn device_class(&self, name: &str) -> Option<Value> {
        self.informers.of(&DEVICE_CLASSES).store().get("", name).map(|obj| tree(&obj))
    }
    fn pod(&self, namespace: &str, name: &str) -> Option<Value> {
        self.informers.of(&PODS).store().get(namespace, name).map(|obj| tree(&obj))
    }
    fn claims_of_pod(&self, namespace: &str, uid: &str) -> Vec<Value> {
        let claims = self.informers.of(&RESOURCE_CLAIMS).store().by_index(BY_CONTROLLER, uid);
        claims.iter().filter(|obj| obj.namespace() == namespace).map(|obj| tree(obj)).collect()
    }
}
