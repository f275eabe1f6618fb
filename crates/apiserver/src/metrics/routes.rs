//! One slot a route: what a request is counted under is looked up by position, never by name.
//!
//! Only what the catalogue serves has a slot, so the number of series is bounded; a slot is made when its route is used first.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use catalog::{Catalog, Resource};
use parking_lot::Mutex;

use metrics::{Histogram, header};

use super::bounds::{EVENT, LATENCY, RESPONSE, SLI_FROM};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    at: u32,
    verb: Verb,
    extent: Extent,
}

impl Route {
    pub fn is_read(self) -> bool {
        matches!(self.verb, Verb::Get | Verb::List)
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

pub struct Routes {
    /// By resource: where its slots begin in `slots`, one for itself and one for each subresource.
    first: Box<[u32]>,
    slots: Box<[OnceLock<Box<Slots>>]>,
    /// By resource.
    events: Box<[OnceLock<Box<Events>>]>,
    /// By resource.
    lists: Box<[Lists]>,
}

impl Routes {
    pub fn new(catalog: &Catalog) -> Routes {
        let mut first = Vec::with_capacity(catalog.resources().len());
        let mut next = 0;
        for resource in catalog.resources() {
            first.push(next);
            next += 1 + resource.subresources.len() as u32;
        }
        let slots = (0..next as usize + PATHS.len()).map(|_| OnceLock::new()).collect();
        let events = first.iter().map(|_| OnceLock::new()).collect();
        let lists = first.iter().map(|_| Lists::default()).collect();
        Routes { first: first.into(), slots, events, lists }
    }

    /// `subresource` is one the resource has, or empty.
    pub fn of(&self, resource: &Resource, subresource: &str, verb: Verb, extent: Extent) -> Route {
        let sub = resource.subresources.iter().position(|s| s.name == *subresource);
        let at = self.first[resource.id.0 as usize] + sub.map_or(0, |at| at as u32 + 1);
        Route { at, verb, extent }
    }

    /// Of a path that is no resource.
    pub fn of_path(&self, path: &str) -> Route {
        let known = PATHS.iter().position(|p| *p == path).unwrap_or(PATHS.len() - 1);
        let at = (self.slots.len() - PATHS.len() + known) as u32;
        Route { at, verb: Verb::Get, extent: Extent::Cluster }
    }

    /// One of the paths that nobody counts.
    pub fn is_other(&self, route: Route) -> bool {
        route.at as usize + 1 == self.slots.len()
    }

    fn series(&self, route: Route) -> &Series {
        let slots =
            self.slots[route.at as usize].get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        slots[route.verb as usize * EXTENTS.len() + route.extent as usize].get_or_init(Box::default)
    }

    pub fn answered(&self, route: Route, dry_run: DryRun, code: u16, took: Duration) {
        let answered = self.series(route).answered(dry_run);
        answered.count(code);
        answered.latency.took(&LATENCY, took);
    }

    /// Refused before its verb: counted, but its time says nothing about the verb.
    pub fn dropped(&self, route: Route, dry_run: DryRun, code: u16) {
        self.series(route).answered(dry_run).count(code);
    }

    pub fn terminated(&self, route: Route, code: u16) {
        if let Some(at) = TERMINATIONS.iter().position(|c| *c == code) {
            self.series(route).terminated[at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How much a read was answered with.
    pub fn sent(&self, route: Route, bytes: u64) {
        self.series(route).sizes.get_or_init(Box::default).observe(&RESPONSE, bytes);
    }

    /// A request that stays: +1 when it comes, -1 when it goes.
    pub fn running(&self, route: Route, change: i64) {
        let series = self.series(route);
        series.ran.get_or_init(|| ());
        series.running.fetch_add(change, Ordering::Relaxed);
    }

    pub fn event(&self, resource: catalog::ResourceId, bytes: u64) {
        self.events[resource.0 as usize].get_or_init(Box::default).sizes.observe(&EVENT, bytes);
    }

    /// A list, and how many objects it had.
    pub fn listed(&self, resource: catalog::ResourceId, objects: usize) {
        let lists = &self.lists[resource.0 as usize];
        lists.count.fetch_add(1, Ordering::Relaxed);
        lists.returned.fetch_add(objects as u64, Ordering::Relaxed);
    }

    fn write_lists(&self, out: &mut String, catalog: &Catalog) {
        // Versions of one resource are one to these families.
        let mut all: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for (resource, lists) in catalog.resources().iter().zip(&self.lists) {
            let count = lists.count.load(Ordering::Relaxed);
            if count > 0 {
                let sum = all.entry((&resource.group, &resource.plural)).or_default();
                *sum = (sum.0 + count, sum.1 + lists.returned.load(Ordering::Relaxed));
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
    fn write_deprecated(&self, out: &mut String, catalog: &Catalog) {
        let name = "apiserver_requested_deprecated_apis";
        header(out, name, "gauge", "Deprecated APIs that have been asked for.");
        for (resource, first) in catalog.resources().iter().zip(&self.first) {
            if resource.deprecation.is_none() {
                continue;
            }
            let subs = resource.subresources.iter().map(|s| s.name.as_str());
            for (sub, at) in [""].into_iter().chain(subs).zip(*first as usize..) {
                if self.slots[at].get().is_some() {
                    let (group, plural, version) = (&resource.group, &resource.plural, &resource.version);
                    let _ = writeln!(
                        out,
                        "{name}{{group=\"{group}\",removed_release=\"\",resource=\"{plural}\",subresource=\"{sub}\",version=\"{version}\"}} 1"
                    );
                }
            }
        }
    }

    pub fn write(&self, out: &mut String, catalog: &Catalog) {
        self.write_deprecated(out, catalog);
        self.write_lists(out, catalog);
        let all = self.all(catalog);
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
        let watched: Vec<(String, &Events)> = (catalog.resources().iter().zip(&self.events))
            .filter_map(|(resource, events)| {
                let (group, plural, version) = (&resource.group, &resource.plural, &resource.version);
                let labels = format!("group=\"{group}\",resource=\"{plural}\",version=\"{version}\"");
                Some((labels, &**events.get()?))
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

    /// Every route that was used, in the catalogue's order.
    fn all<'a>(&'a self, catalog: &'a Catalog) -> Vec<(Labels<'a>, &'a Series)> {
        let mut all = Vec::new();
        let mut collect = |at: usize, group: &'a str, version: &'a str, resource: &'a str, sub: &'a str| {
            let Some(slots) = self.slots[at].get() else { return };
            for (place, slot) in slots.iter().enumerate() {
                let Some(series) = slot.get() else { continue };
                let (verb, scope) = (VERBS[place / EXTENTS.len()].1, EXTENTS[place % EXTENTS.len()]);
                let scope = if resource.is_empty() { "" } else { scope };
                all.push((Labels { group, version, resource, sub, verb, scope }, &**series));
            }
        };
        for (resource, first) in catalog.resources().iter().zip(&self.first) {
            let subs = resource.subresources.iter().map(|s| s.name.as_str());
            for (sub, at) in [""].into_iter().chain(subs).zip(*first as usize..) {
                collect(at, &resource.group, &resource.version, &resource.plural, sub);
            }
        }
        for (path, at) in PATHS.iter().zip(self.slots.len() - PATHS.len()..) {
            collect(at, "", "", "", path);
        }
        all
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
