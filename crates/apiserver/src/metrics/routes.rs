//! One slot per route: the series of a request is found by id and position, never by name.
//!
//! Only what the catalogue serves has a slot, so the number of series is bounded; a slot is created on first use.

mod exposition;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use catalog::{Catalog, Name, Resource};
use parking_lot::Mutex;

use metrics::Histogram;

use super::bounds::{EVENT, LATENCY, RESPONSE};
use super::by_id::ById;

/// Upstream's words for verbs: `APPLY` is a patch, `DELETE` a collection's too, `CONNECT` reaches into a pod or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    List,
    Watch,
    Post,
    Put,
    Patch,
    Apply,
    Delete,
    Connect,
}

const VERBS: [(Verb, &str); 9] = [
    (Verb::Get, "GET"),
    (Verb::List, "LIST"),
    (Verb::Watch, "WATCH"),
    (Verb::Post, "POST"),
    (Verb::Put, "PUT"),
    (Verb::Patch, "PATCH"),
    (Verb::Apply, "APPLY"),
    (Verb::Delete, "DELETE"),
    (Verb::Connect, "CONNECT"),
];

/// The label `scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    Cluster,
    Namespace,
    Resource,
}

const EXTENTS: [&str; 3] = ["cluster", "namespace", "resource"];

/// The label `dry_run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    No,
    All,
    Invalid,
}

/// Non-resource paths that are counted; the last stands for all others, of which only dropped requests count.
pub const PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", ""];

/// Where a request is counted.
#[derive(Clone)]
pub struct Route {
    of: Arc<OfResource>,
    /// The index of the subresource, or of the path, among the slots.
    at: usize,
    verb: Verb,
    extent: Extent,
}

impl Route {
    pub fn is_read(&self) -> bool {
        matches!(self.verb, Verb::Get | Verb::List)
    }

    fn series(&self) -> &Series {
        let slots = self.of.slots[self.at].get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        slots[self.verb as usize * EXTENTS.len() + self.extent as usize].get_or_init(Box::default)
    }

    /// `waited` of that time: for seats and webhooks, which is not what this server is measured by.
    pub fn answered(&self, dry_run: DryRun, code: u16, took: Duration, waited: Duration) {
        let series = self.series();
        let answered = series.answered(dry_run);
        answered.count(code);
        answered.latency.took(&LATENCY, took);
        if dry_run == DryRun::No {
            series.own.took(&LATENCY, took.saturating_sub(waited));
        }
    }

    /// Dropped before its verb: counted without a duration.
    pub fn dropped(&self, dry_run: DryRun, code: u16) {
        self.series().answered(dry_run).count(code);
    }

    pub fn terminated(&self, code: u16) {
        if let Some(at) = TERMINATIONS.iter().position(|c| *c == code) {
            self.series().terminated[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The size of the answer to a read.
    pub fn sent(&self, bytes: u64) {
        self.series().sizes.get_or_init(Box::default).observe(&RESPONSE, bytes);
    }

    /// A long-running request: +1 when it starts, -1 when it ends.
    pub fn running(&self, change: i64) {
        let series = self.series();
        series.ran.get_or_init(|| ());
        series.running.fetch_add(change, Ordering::Relaxed);
    }

    /// An event was sent to a watcher.
    pub fn event(&self, bytes: u64) {
        self.of.events.get_or_init(Box::default).sizes.observe(&EVENT, bytes);
    }
}

/// Codes with a counter of their own, the frequent ones first.
const CODES: [u16; 24] = [
    200, 201, 404, 409, 422, 202, 204, 101, 304, 400, 401, 403, 405, 406, 410, 413, 415, 429, 500, 501, 502,
    503, 504, 507,
];

/// Requests of one route with one value of `dry_run`.
#[derive(Default)]
struct Answered {
    codes: [AtomicU64; CODES.len()],
    /// Guards the other codes: what a pod answered through a proxy.
    others: Mutex<BTreeMap<u16, u64>>,
    latency: Histogram<23>,
}

impl Answered {
    fn count(&self, code: u16) {
        match CODES.iter().position(|c| *c == code) {
            Some(at) => {
                self.codes[at].fetch_add(1, Ordering::Relaxed);
            }
            None => *self.others.lock().entry(code).or_default() += 1,
        }
    }

    fn codes(&self) -> BTreeMap<u16, u64> {
        let own = CODES.iter().zip(&self.codes).map(|(code, count)| (*code, count.load(Ordering::Relaxed)));
        let mut all: BTreeMap<u16, u64> = own.filter(|(_, count)| *count > 0).collect();
        all.extend(self.others.lock().iter());
        all
    }
}

/// The series of one route.
#[derive(Default)]
struct Series {
    answered: Answered,
    /// The latency without waiting, for service levels.
    own: Histogram<23>,
    dry: OnceLock<Box<Answered>>,
    invalid: OnceLock<Box<Answered>>,
    sizes: OnceLock<Box<Histogram<7>>>,
    running: AtomicI64,
    /// Whether `running` was ever used: a gauge that went back to 0 is shown, one that never moved is not.
    ran: OnceLock<()>,
    terminated: [AtomicU64; TERMINATIONS.len()],
}

/// Codes of self-defence: too many requests, and timeouts.
const TERMINATIONS: [u16; 2] = [429, 504];

impl Series {
    fn answered(&self, dry_run: DryRun) -> &Answered {
        match dry_run {
            DryRun::No => &self.answered,
            DryRun::All => self.dry.get_or_init(Box::default),
            DryRun::Invalid => self.invalid.get_or_init(Box::default),
        }
    }
}

type Slots = [OnceLock<Box<Series>>; VERBS.len() * EXTENTS.len()];

/// Events sent to watchers of one resource.
#[derive(Default)]
struct Events {
    sizes: Histogram<8>,
}

/// Lists of one resource. All come from the table, which takes the place of upstream's watch cache.
#[derive(Default)]
struct Lists {
    count: AtomicU64,
    returned: AtomicU64,
}

/// The series of one resource in one version.
struct OfResource {
    group: Name,
    version: Name,
    plural: Name,
    /// The names of the slots: "" for the resource itself, then its subresources. Of paths: the paths.
    names: Vec<Name>,
    slots: Box<[OnceLock<Box<Slots>>]>,
    events: OnceLock<Box<Events>>,
    lists: Lists,
}

impl OfResource {
    fn new(group: Name, version: Name, plural: Name, names: Vec<Name>) -> OfResource {
        let slots = names.iter().map(|_| OnceLock::new()).collect();
        OfResource { group, version, plural, names, slots, events: OnceLock::new(), lists: Lists::default() }
    }

    fn of(resource: &Resource) -> OfResource {
        let Resource { group, version, plural, .. } = resource;
        OfResource::new(group.clone(), version.clone(), plural.clone(), names(resource).cloned().collect())
    }

    fn is(&self, resource: &Resource) -> bool {
        let Resource { group, version, plural, .. } = resource;
        (&self.group, &self.version, &self.plural) == (group, version, plural)
            && self.names.iter().eq(names(resource))
    }
}

fn names(resource: &Resource) -> impl Iterator<Item = &Name> {
    std::iter::once(&Name::EMPTY).chain(resource.subresources.iter().map(|sub| &sub.name))
}

pub struct Routes {
    paths: Arc<OfResource>,
    resources: ById<OfResource>,
}

impl Default for Routes {
    fn default() -> Routes {
        let paths = PATHS.iter().map(|path| Name::Static(path)).collect();
        let paths = OfResource::new(Name::EMPTY, Name::EMPTY, Name::EMPTY, paths);
        Routes { paths: Arc::new(paths), resources: ById::default() }
    }
}

impl Routes {
    fn resource(&self, resource: &Resource) -> Arc<OfResource> {
        self.resources.get(resource.id.0, |of| of.is(resource), || OfResource::of(resource))
    }

    /// `subresource` is one the resource has, or empty.
    pub fn of(&self, resource: &Resource, subresource: &str, verb: Verb, extent: Extent) -> Route {
        let sub = resource.subresources.iter().position(|s| s.name == *subresource);
        Route { of: self.resource(resource), at: sub.map_or(0, |at| at + 1), verb, extent }
    }

    /// Of a path that is no resource.
    pub fn of_path(&self, path: &str) -> Route {
        let at = PATHS.iter().position(|p| *p == path).unwrap_or(PATHS.len() - 1);
        Route { of: self.paths.clone(), at, verb: Verb::Get, extent: Extent::Cluster }
    }

    /// One of the paths that are not counted.
    pub fn is_other(&self, route: &Route) -> bool {
        Arc::ptr_eq(&route.of, &self.paths) && route.at + 1 == PATHS.len()
    }

    /// A list with that many objects.
    pub fn listed(&self, resource: &Resource, objects: usize) {
        let of = self.resource(resource);
        of.lists.count.fetch_add(1, Ordering::Relaxed);
        of.lists.returned.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// The series in use, in the catalogue's order; those of resources no longer served are dropped.
    fn used(&self, catalog: &Catalog) -> Vec<Arc<OfResource>> {
        self.resources.retain(catalog.resources().iter().map(|resource| resource.id.0))
    }
}
