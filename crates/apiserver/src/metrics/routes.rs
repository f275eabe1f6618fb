//! One slot a route: what a request is counted under is looked up by number and position, never by name.
//!
//! Only what the catalogue serves has a slot, so the number of series is bounded; a slot is made when its route is used first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use catalog::{Catalog, Name, Resource};
use parking_lot::Mutex;

use metrics::{Histogram, header};

use super::bounds::{EVENT, LATENCY, RESPONSE, SLI_FROM};
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

/// How much of the cluster a request is about.
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

/// Paths that are counted though they are no resource; the last stands for all others, where only refusals count.
pub const PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", ""];

/// Where a request is counted.
#[derive(Clone)]
pub struct Route {
    of: Arc<OfResource>,
    /// The place of the subresource, or of the path, among the slots.
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

    pub fn answered(&self, dry_run: DryRun, code: u16, took: Duration) {
        let answered = self.series().answered(dry_run);
        answered.count(code);
        answered.latency.took(&LATENCY, took);
    }

    /// Refused before its verb: counted, but its time says nothing about the verb.
    pub fn dropped(&self, dry_run: DryRun, code: u16) {
        self.series().answered(dry_run).count(code);
    }

    pub fn terminated(&self, code: u16) {
        if let Some(at) = TERMINATIONS.iter().position(|c| *c == code) {
            self.series().terminated[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How much a read was answered with.
    pub fn sent(&self, bytes: u64) {
        self.series().sizes.get_or_init(Box::default).observe(&RESPONSE, bytes);
    }

    /// A request that stays: +1 when it comes, -1 when it goes.
    pub fn running(&self, change: i64) {
        let series = self.series();
        series.ran.get_or_init(|| ());
        series.running.fetch_add(change, Ordering::Relaxed);
    }

    /// An event that was sent to a watcher.
    pub fn event(&self, bytes: u64) {
        self.of.events.get_or_init(Box::default).sizes.observe(&EVENT, bytes);
    }
}

/// Codes that have a place of their own, the frequent ones first.
const CODES: [u16; 24] = [
    200, 201, 404, 409, 422, 202, 204, 101, 304, 400, 401, 403, 405, 406, 410, 413, 415, 429, 500, 501, 502,
    503, 504, 507,
];

/// Requests of one route with one value of `dry_run`.
#[derive(Default)]
struct Answered {
    codes: [AtomicU64; CODES.len()],
    /// Guards the codes that have no place of their own: what a pod answered through a proxy.
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

/// Everything counted of one route.
#[derive(Default)]
struct Series {
    answered: Answered,
    dry: OnceLock<Box<Answered>>,
    invalid: OnceLock<Box<Answered>>,
    sizes: OnceLock<Box<Histogram<7>>>,
    running: AtomicI64,
    /// Whether `running` was ever used: a gauge that is 0 now is shown, one that never moved is not.
    ran: OnceLock<()>,
    terminated: [AtomicU64; TERMINATIONS.len()],
}

/// What a server in need answers: too many requests, and not in time.
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

/// Lists of one resource. All come from memory, which is what upstream calls its watch cache.
#[derive(Default)]
struct Lists {
    count: AtomicU64,
    returned: AtomicU64,
}

/// Everything counted of one resource in one version.
struct OfResource {
    group: Name,
    version: Name,
    plural: Name,
    /// What the slots are for: the resource itself (""), then its subresources. Of paths: the paths.
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

    /// One of the paths that nobody counts.
    pub fn is_other(&self, route: &Route) -> bool {
        Arc::ptr_eq(&route.of, &self.paths) && route.at + 1 == PATHS.len()
    }

    /// A list, and how many objects it had.
    pub fn listed(&self, resource: &Resource, objects: usize) {
        let of = self.resource(resource);
        of.lists.count.fetch_add(1, Ordering::Relaxed);
        of.lists.returned.fetch_add(objects as u64, Ordering::Relaxed);
    }

    /// Everything that was used, in the catalogue's order; what is served no longer is forgotten.
    fn used(&self, catalog: &Catalog) -> Vec<Arc<OfResource>> {
        let mut ids: Vec<u32> = catalog.resources().iter().map(|resource| resource.id.0).collect();
        let used = ids.iter().filter_map(|id| self.resources.find(*id)).collect();
        ids.sort_unstable();
        self.resources.keep(ids.into_iter());
        used
    }

    fn write_lists(out: &mut String, used: &[Arc<OfResource>]) {
        // Versions of one resource are one to these families.
        let mut all: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for of in used {
            let count = of.lists.count.load(Ordering::Relaxed);
            if count > 0 {
                let sum = all.entry((&of.group, &of.plural)).or_default();
                *sum = (sum.0 + count, sum.1 + of.lists.returned.load(Ordering::Relaxed));
            }
        }
        let name = "apiserver_cache_list_total";
        header(out, name, "counter", "Lists answered from memory.");
        for ((group, plural), (count, _)) in &all {
            let _ = writeln!(out, "{name}{{group=\"{group}\",index=\"\",resource=\"{plural}\"}} {count}");
        }
        let name = "apiserver_cache_list_returned_objects_total";
        header(out, name, "counter", "Objects in lists that were answered from memory.");
        for ((group, plural), (_, returned)) in &all {
            let _ = writeln!(out, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {returned}");
        }
    }

    /// Which of the APIs that are on their way out somebody used.
    fn write_deprecated(out: &mut String, catalog: &Catalog, used: &[Arc<OfResource>]) {
        let name = "apiserver_requested_deprecated_apis";
        header(out, name, "gauge", "Deprecated APIs that have been asked for.");
        for of in used {
            let resource = catalog.find(&of.group, &of.version, &of.plural);
            if resource.is_none_or(|resource| resource.deprecation.is_none()) {
                continue;
            }
            for (sub, _) in of.names.iter().zip(&of.slots).filter(|(_, slots)| slots.get().is_some()) {
                let (group, plural, version) = (&of.group, &of.plural, &of.version);
                let _ = writeln!(
                    out,
                    "{name}{{group=\"{group}\",removed_release=\"\",resource=\"{plural}\",subresource=\"{sub}\",version=\"{version}\"}} 1"
                );
            }
        }
    }

    pub fn write(&self, out: &mut String, catalog: &Catalog) {
        let used = self.used(catalog);
        Routes::write_deprecated(out, catalog, &used);
        Routes::write_lists(out, &used);
        let all: Vec<_> = used.iter().chain([&self.paths]).flat_map(|of| of.all()).collect();
        let dry_runs = |series: &'_ Series, each: &mut dyn FnMut(&str, &Answered)| {
            each("", &series.answered);
            series.dry.get().into_iter().for_each(|answered| each("All", answered));
            series.invalid.get().into_iter().for_each(|answered| each("invalid", answered));
        };
        let name = "apiserver_request_total";
        header(out, name, "counter", "Requests answered, by verb, resource, scope, dry run and HTTP code.");
        for (labels, series) in &all {
            dry_runs(series, &mut |dry_run, answered| {
                for (code, count) in answered.codes() {
                    let labels = labels.with(&[("code", &code.to_string()), ("dry_run", dry_run)]);
                    let _ = writeln!(out, "{name}{{{labels}}} {count}");
                }
            });
        }
        let name = "apiserver_request_duration_seconds";
        header(out, name, "histogram", "How long requests took.");
        for (labels, series) in &all {
            dry_runs(series, &mut |dry_run, answered| {
                if answered.latency.count() > 0 {
                    answered.latency.write(out, name, &labels.with(&[("dry_run", dry_run)]), &LATENCY, 0);
                }
            });
        }
        let name = "apiserver_request_sli_duration_seconds";
        header(out, name, "histogram", "How long requests took, without what the server waited for others.");
        for (labels, series) in &all {
            let latency = &series.answered.latency;
            if latency.count() > 0 && labels.is_resource() {
                latency.write(out, name, &labels.with(&[]), &LATENCY, SLI_FROM);
            }
        }
        let name = "apiserver_response_sizes";
        header(out, name, "histogram", "How many bytes reads were answered with.");
        for (labels, series) in &all {
            if let Some(sizes) = series.sizes.get() {
                sizes.write(out, name, &labels.with(&[]), &RESPONSE, 0);
            }
        }
        let name = "apiserver_longrunning_requests";
        header(out, name, "gauge", "Watches open now.");
        for (labels, series) in all.iter().filter(|(_, series)| series.ran.get().is_some()) {
            let running = series.running.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}{{{}}} {running}", labels.with(&[]));
        }
        let name = "apiserver_request_terminations_total";
        header(out, name, "counter", "Requests this server refused or gave up in self-defence.");
        for (labels, series) in &all {
            for (code, count) in TERMINATIONS.iter().zip(&series.terminated) {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = labels.with(&[("code", &code.to_string())]);
                    let _ = writeln!(out, "{name}{{{labels}}} {count}");
                }
            }
        }
        let watched: Vec<(String, &Events)> = (used.iter())
            .filter_map(|of| {
                let (group, plural, version) = (&of.group, &of.plural, &of.version);
                let labels = format!("group=\"{group}\",resource=\"{plural}\",version=\"{version}\"");
                Some((labels, &**of.events.get()?))
            })
            .collect();
        let name = "apiserver_watch_events_total";
        header(out, name, "counter", "Events sent to watchers.");
        for (labels, events) in &watched {
            let _ = writeln!(out, "{name}{{{labels}}} {}", events.sizes.count());
        }
        let name = "apiserver_watch_events_sizes";
        header(out, name, "histogram", "How many bytes the events sent to watchers had.");
        for (labels, events) in &watched {
            events.sizes.write(out, name, labels, &EVENT, 0);
        }
    }
}

impl OfResource {
    /// Every route that was used.
    fn all(&self) -> impl Iterator<Item = (Labels<'_>, &Series)> {
        let (group, version, resource) = (&*self.group, &*self.version, &*self.plural);
        self.names.iter().zip(&self.slots).flat_map(move |(sub, slots)| {
            let slots = slots.get().into_iter().flat_map(|slots| slots.iter().enumerate());
            slots.filter_map(move |(place, slot)| {
                let (verb, scope) = (VERBS[place / EXTENTS.len()].1, EXTENTS[place % EXTENTS.len()]);
                let scope = if resource.is_empty() { "" } else { scope };
                Some((Labels { group, version, resource, sub, verb, scope }, &**slot.get()?))
            })
        })
    }
}

struct Labels<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    sub: &'a str,
    verb: &'static str,
    scope: &'static str,
}

impl Labels<'_> {
    fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// All labels in alphabetical order, as Prometheus' own libraries write them.
    fn with(&self, more: &[(&str, &str)]) -> String {
        let component = if self.is_resource() { "apiserver" } else { "" };
        let mut all = vec![
            ("component", component),
            ("group", self.group),
            ("resource", self.resource),
            ("scope", self.scope),
            ("subresource", self.sub),
            ("verb", self.verb),
            ("version", self.version),
        ];
        all.extend(more);
        all.sort_unstable();
        let all: Vec<String> = all.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        all.join(",")
    }
}
