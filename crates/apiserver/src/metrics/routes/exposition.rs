//! The series of all routes in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use catalog::Catalog;
use metrics::header;

use super::{Answered, EXTENTS, Events, OfResource, Routes, Series, TERMINATIONS, VERBS};
use crate::metrics::bounds::{EVENT, LATENCY, RESPONSE, SLI_FROM};

impl Routes {
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
        header(out, name, "counter", "Number of lists served from the cache.");
        for ((group, plural), (count, _)) in &all {
            let _ = writeln!(out, "{name}{{group=\"{group}\",index=\"\",resource=\"{plural}\"}} {count}");
        }
        let name = "apiserver_cache_list_returned_objects_total";
        header(out, name, "counter", "Number of objects returned by lists from the cache.");
        for ((group, plural), (_, returned)) in &all {
            let _ = writeln!(out, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {returned}");
        }
    }

    /// Which of the APIs that are on their way out somebody used.
    fn write_deprecated(out: &mut String, catalog: &Catalog, used: &[Arc<OfResource>]) {
        let name = "apiserver_requested_deprecated_apis";
        header(out, name, "gauge", "Deprecated APIs that have been requested.");
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
        let help = "Number of requests, by verb, resource, scope, dry run and HTTP status code.";
        header(out, name, "counter", help);
        for (labels, series) in &all {
            dry_runs(series, &mut |dry_run, answered| {
                for (code, count) in answered.codes() {
                    let labels = labels.with(&[("code", &code.to_string()), ("dry_run", dry_run)]);
                    let _ = writeln!(out, "{name}{{{labels}}} {count}");
                }
            });
        }
        let name = "apiserver_request_duration_seconds";
        header(out, name, "histogram", "Latency of requests in seconds.");
        for (labels, series) in &all {
            dry_runs(series, &mut |dry_run, answered| {
                if answered.latency.count() > 0 {
                    answered.latency.write(out, name, &labels.with(&[("dry_run", dry_run)]), &LATENCY, 0);
                }
            });
        }
        let name = "apiserver_request_sli_duration_seconds";
        header(
            out,
            name,
            "histogram",
            "Latency of requests to resources in seconds, without waiting for seats and webhooks.",
        );
        for (labels, series) in &all {
            let latency = &series.own;
            if latency.count() > 0 && labels.is_resource() {
                latency.write(out, name, &labels.with(&[]), &LATENCY, SLI_FROM);
            }
        }
        let name = "apiserver_response_sizes";
        header(out, name, "histogram", "Size of the responses to reads in bytes.");
        for (labels, series) in &all {
            if let Some(sizes) = series.sizes.get() {
                sizes.write(out, name, &labels.with(&[]), &RESPONSE, 0);
            }
        }
        let name = "apiserver_longrunning_requests";
        header(out, name, "gauge", "Number of long-running requests in flight.");
        for (labels, series) in all.iter().filter(|(_, series)| series.ran.get().is_some()) {
            let running = series.running.load(Ordering::Relaxed);
            let _ = writeln!(out, "{name}{{{}}} {running}", labels.with(&[]));
        }
        let name = "apiserver_request_terminations_total";
        header(
            out,
            name,
            "counter",
            "Number of requests rejected or timed out by the server in self-defence.",
        );
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
        header(out, name, "counter", "Number of watch events sent.");
        for (labels, events) in &watched {
            let _ = writeln!(out, "{name}{{{labels}}} {}", events.sizes.count());
        }
        let name = "apiserver_watch_events_sizes";
        header(out, name, "histogram", "Size of watch events in bytes.");
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
