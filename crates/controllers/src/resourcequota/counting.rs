//! The book and the caches it is filled from: only of resources that some quota counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

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
        let now = self.env.monotonic();
        self.books.lock().observe(&quota, obj.revision(), &catalog, now) || quota.is_unsettled(&catalog)
    }

    /// What the quota counts, each with a handler on it.
    pub fn follow(self: &Arc<Counting>, quota: &Obj) -> Vec<Counted> {
        let counted = self.books.lock().counted_by(quota.namespace(), quota.name());
        let follow = |(resource, evaluator): (Gvr, Evaluator)| {
            let informer = self.informers.of(&resource);
            // Held until the handler is there: nobody may take it for followed before.
            let mut followed = self.followed.lock();
            let known = followed.insert(resource.clone(), informer.clone());
            if !known.is_some_and(|known| Arc::ptr_eq(&known, &informer)) {
                // Served again, as something else: what the other one told is void.
                self.books.lock().forget_resource(&resource);
                let (told, of) = (self.clone(), resource.clone());
                informer.add_resyncing_handler(Box::new(move |event| told.object_changed(&of, event)));
            }
            Counted { resource, evaluator, informer }
        };
        counted.into_iter().map(follow).collect()
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
