//! /healthz, /livez, /readyz: is the server well, alive, ready; each check by itself or all of them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::chain::Api;
use crate::info::Query;
use crate::respond::{self, Answer};

/// What becomes true once and stays so.
#[derive(Default)]
pub struct Health {
    bootstrapped: AtomicBool,
}

struct Check {
    name: &'static str,
    /// Only readiness asks.
    ready_only: bool,
    run: fn(&Api) -> Result<(), String>,
}

const CHECKS: [Check; 4] = [
    Check { name: "ping", ready_only: false, run: |_| Ok(()) },
    // Upstream's name for the store's check is etcd: probes and dashboards ask for it.
    Check { name: "etcd", ready_only: false, run: |api| api.registry.engine().health() },
    Check {
        name: "poststarthook/rbac/bootstrap-roles",
        ready_only: false,
        run: |api| {
            let done = api.health.bootstrapped.load(Ordering::Acquire);
            if done { Ok(()) } else { Err("the default roles are not written yet".into()) }
        },
    },
    Check {
        name: "shutdown",
        ready_only: true,
        run: |api| if api.shutdown.has_begun() { Err("process is shutting down".into()) } else { Ok(()) },
    },
];

impl Health {
    pub fn set_bootstrapped(&self) {
        self.bootstrapped.store(true, Ordering::Release);
    }

    /// `None` when the path is no health endpoint.
    pub fn serve(&self, api: &Api, path: &str, query: &Query<'_>) -> Option<Answer> {
        let (endpoint, single) = match path.trim_start_matches('/').split_once('/') {
            Some((endpoint, single)) => (endpoint, Some(single)),
            None => (path.trim_start_matches('/'), None),
        };
        if !matches!(endpoint, "healthz" | "livez" | "readyz") {
            return None;
        }
        let checks = CHECKS.iter().filter(|c| !c.ready_only || endpoint == "readyz");
        if let Some(single) = single {
            let Some(check) = checks.into_iter().find(|c| c.name == single) else {
                return Some(respond::page_not_found());
            };
            return Some(match (check.run)(api) {
                Ok(()) => respond::text(200, "ok"),
                Err(why) => respond::text(500, format!("internal server error: {why}\n")),
            });
        }
        let excluded: Vec<&str> = query.all("exclude").collect();
        let mut out = String::new();
        let mut failed = false;
        for check in checks {
            let verdict = if excluded.contains(&check.name) {
                format!("[+]{} excluded: ok\n", check.name)
            } else {
                match (check.run)(api) {
                    Ok(()) => format!("[+]{} ok\n", check.name),
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
}
