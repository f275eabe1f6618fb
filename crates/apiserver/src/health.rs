//! /healthz, /livez, /readyz: all checks, or one of them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::api::Api;
use crate::request_info::Query;
use crate::respond::{self, Answer};
use metrics::header;

/// The state of the checks.
#[derive(Default)]
pub struct Health {
    bootstrapped: AtomicBool,
    /// Guards which bootstrap objects are missing, and why, once that was found.
    incomplete: Mutex<Option<String>>,
    /// By endpoint and check.
    results: [[Results; CHECKS.len()]; ENDPOINTS.len()],
}

/// How a check went, for `/metrics/slis`.
#[derive(Default)]
struct Results {
    successes: AtomicU64,
    errors: AtomicU64,
    /// The last result.
    well: AtomicBool,
}

const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

struct Check {
    name: &'static str,
    /// Only part of /readyz.
    ready_only: bool,
    run: fn(&Api) -> Result<(), String>,
}

/// A full disk is reported, but does not fail readiness: everything can be read, and deletes free space.
// Differs from kube-apiserver: it has no such check, and stays ready too while its etcd has no space.
const REPORTED_ONLY: &str = "disk-space";

const CHECKS: [Check; 11] = [
    Check { name: "ping", ready_only: false, run: |_| Ok(()) },
    // Upstream checks that its log is flushed; ours has no buffer.
    Check { name: "log", ready_only: false, run: |_| Ok(()) },
    // Upstream's name for the store's check is etcd: probes and dashboards ask for it.
    Check { name: "etcd", ready_only: false, run: |api| api.registry.engine().health() },
    Check { name: "etcd-readiness", ready_only: true, run: |api| api.registry.engine().health() },
    // The table takes the place of upstream's caches, and is in sync as long as the store is healthy.
    Check { name: "informer-sync", ready_only: true, run: |api| api.registry.engine().health() },
    Check {
        name: REPORTED_ONLY,
        ready_only: true,
        run: |api| api.registry.engine().full().map_or(Ok(()), Err),
    },
    Check { name: "poststarthook/start-system-namespaces-controller", ready_only: false, run: bootstrapped },
    Check { name: "poststarthook/rbac/bootstrap-roles", ready_only: false, run: bootstrapped },
    Check {
        name: "poststarthook/scheduling/bootstrap-system-priority-classes",
        ready_only: false,
        run: bootstrapped,
    },
    // The APIServices of what is served here.
    Check { name: "autoregister-completion", ready_only: false, run: bootstrapped },
    Check {
        name: "shutdown",
        ready_only: true,
        run: |api| if api.shutdown.has_begun() { Err("process is shutting down".into()) } else { Ok(()) },
    },
];

fn bootstrapped(api: &Api) -> Result<(), String> {
    let done = api.health.bootstrapped.load(Ordering::Acquire);
    match (done, &*api.health.incomplete.lock()) {
        (true, _) => Ok(()),
        (false, None) => Err("the bootstrap objects are not created yet".into()),
        (false, Some(why)) => Err(format!("bootstrap objects are missing: {why}")),
    }
}

impl Health {
    pub fn set_bootstrapped(&self) {
        *self.incomplete.lock() = None;
        self.bootstrapped.store(true, Ordering::Release);
    }

    pub fn set_incomplete(&self, why: &str) {
        *self.incomplete.lock() = Some(why.to_owned());
    }

    /// `None` when the path is no health endpoint.
    pub fn serve(&self, api: &Api, path: &str, query: &Query<'_>) -> Option<Answer> {
        let path = path.strip_prefix('/')?;
        let (endpoint, single) = match path.split_once('/') {
            Some((endpoint, single)) => (endpoint, Some(single)),
            None => (path, None),
        };
        let results = &self.results[ENDPOINTS.iter().position(|e| *e == endpoint)?];
        let checks = CHECKS.iter().zip(results).filter(|(c, _)| !c.ready_only || endpoint == "readyz");
        if let Some(single) = single {
            let Some((check, results)) = checks.into_iter().find(|(c, _)| c.name == single) else {
                return Some(respond::page_not_found());
            };
            return Some(match results.run(check, api) {
                Ok(()) => respond::text(200, "ok"),
                Err(why) => respond::text(500, format!("internal server error: {why}\n")),
            });
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut out = String::new();
        let mut failed = false;
        for (check, results) in checks {
            let verdict = if excluded.contains(&check.name) {
                format!("[+]{} excluded: ok\n", check.name)
            } else {
                match results.run(check, api) {
                    Ok(()) => format!("[+]{} ok\n", check.name),
                    Err(_) if check.name == REPORTED_ONLY => {
                        format!("[-]{} failed (not fatal): reason withheld\n", check.name)
                    }
                    Err(why) => {
                        failed = true;
                        tracing::debug!(check = check.name, why, "health check failed");
                        format!("[-]{} failed: reason withheld\n", check.name)
                    }
                }
            };
            out.push_str(&verdict);
        }
        Some(if failed {
            respond::text(500, format!("{out}{endpoint} check failed\n"))
        } else if query.find("verbose").is_some() {
            respond::text(200, format!("{out}{endpoint} check passed\n"))
        } else {
            respond::text(200, "ok")
        })
    }

    /// How each check went, in Prometheus' text form.
    pub fn write(&self, out: &mut String) {
        let mut all: Vec<(&str, &str, &Results)> = Vec::new();
        for (endpoint, results) in ENDPOINTS.iter().zip(&self.results) {
            for (check, results) in CHECKS.iter().zip(results) {
                all.push((check.name, *endpoint, results));
            }
        }
        all.retain(|(_, _, results)| results.times() > 0);
        all.sort_by_key(|(check, endpoint, _)| (*check, *endpoint));
        let name = "kubernetes_healthcheck";
        header(out, name, "gauge", "Result of the last run of a health check: 1 if it passed.");
        for (check, endpoint, results) in &all {
            let well = u8::from(results.well.load(Ordering::Relaxed));
            let _ = writeln!(out, "{name}{{name=\"{check}\",type=\"{endpoint}\"}} {well}");
        }
        let name = "kubernetes_healthchecks_total";
        header(out, name, "counter", "Number of runs of a health check, by result.");
        for (check, endpoint, results) in &all {
            for (status, count) in [("error", &results.errors), ("success", &results.successes)] {
                let count = count.load(Ordering::Relaxed);
                if count > 0 {
                    let labels = format!("name=\"{check}\",status=\"{status}\",type=\"{endpoint}\"");
                    let _ = writeln!(out, "{name}{{{labels}}} {count}");
                }
            }
        }
    }
}

impl Results {
    fn run(&self, check: &Check, api: &Api) -> Result<(), String> {
        let verdict = (check.run)(api);
        let count = if verdict.is_ok() { &self.successes } else { &self.errors };
        count.fetch_add(1, Ordering::Relaxed);
        self.well.store(verdict.is_ok(), Ordering::Relaxed);
        verdict
    }

    fn times(&self) -> u64 {
        self.successes.load(Ordering::Relaxed) + self.errors.load(Ordering::Relaxed)
    }
}
