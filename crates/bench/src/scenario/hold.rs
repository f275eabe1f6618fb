//! hold: starts many pods and keeps them running: the resident memory of the server, the latency of single calls meanwhile, and
//! the writes while nothing changes.
//!
//! ```text
//! idle ── Deployments of 500 ──> all pods Ready ── settle ── a minute without a change ── single calls ── all deleted
//!  └ resident                     └ seconds         └ resident  └ writes that are no leases  └ p50, p99     └ seconds
//! ```
//! The pods need nodes: `scripts/scale` starts a server with simulated ones.

use std::time::{Duration, Instant};

use super::objects::{LABEL, config_map, create_pods};
use super::schedule::{deployment, number_after, sum_of, wait};
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::meters::thread_cpu;
use crate::request::{Body, NUMBER, SLOT};
use crate::site::Site;
use crate::tally::Tally;

const REPLICAS: u64 = 500;
/// 150,000 pods take a minute or two.
const TIME_LIMIT: Duration = Duration::from_secs(1800);
/// Time for a server to settle after a burst of writes before its memory is measured.
const SETTLE: Duration = Duration::from_secs(15);
/// Shorter than any lease is renewed in, so that each counts once.
const WINDOW: Duration = Duration::from_millis(1900);
const WINDOWS: u32 = 30;
/// Unless `--pods` says otherwise.
const PODS: u64 = 10_000;
/// Of each call.
const OBJECTS: u64 = 1_000;
const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";

pub struct Hold;

impl Scenario for Hold {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let mut tally = Tally::new();
        let pods = settings.pods.unwrap_or(PODS);
        let idle = site.rss()?;
        let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
        let sizes: Vec<u64> = (0..pods).step_by(REPLICAS as usize).map(|n| REPLICAS.min(pods - n)).collect();
        for (number, replicas) in sizes.iter().enumerate() {
            let path = site.path("apps/v1/deployments");
            site.post(&path, &deployment(&format!("h-{number}"), *replicas))?;
        }
        wait(site, "waiting for all pods to be ready", (began, TIME_LIMIT), &mut |site| {
            let path = site.path("apps/v1/deployments");
            Ok(sum_of(&site.get(&path)?, b"\"readyReplicas\":", b"\"status\":") >= pods)
        })?;
        tally.seconds = began.elapsed().as_secs_f64();
        tally.requests = pods;
        tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
        tally.generator_cpu = thread_cpu() - own;
        tally.server_rss_peak = site.rss()?;

        site.progress.show("letting it settle");
        std::thread::sleep(SETTLE);
        let mega =
            |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), |b| format!("{} MB", b / 1_000_000));
        let mut note = |text: String| tally.notes.push(text);
        note(format!(
            "{pods} pods Ready after {:.1} s",
            began.elapsed().as_secs_f64() - SETTLE.as_secs_f64()
        ));
        note(format!(
            "resident: {} idle, {} {} s after the last pod",
            mega(idle),
            mega(site.rss()?),
            SETTLE.as_secs()
        ));
        note(quiet(site)?);
        for (name, call) in calls(site, settings)? {
            let ms = |fraction: f64| call.latency.quantile(fraction).unwrap_or(0) as f64 / 1e6;
            let failed = call.failed();
            note(format!(
                "{name}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, {failed} failed",
                call.requests as f64 / call.seconds.max(0.001),
                ms(0.5),
                ms(0.99)
            ));
        }

        let began = Instant::now();
        for number in 0..sizes.len() {
            let path =
                format!("{}/h-{number}?propagationPolicy=Background", site.path("apps/v1/deployments"));
            site.delete(&path)?;
        }
        wait(site, "waiting for the pods to go", (began, TIME_LIMIT), &mut |site| {
            // Not those of the single calls, whose app is web.
            let path = format!("{}?labelSelector=app%21%3Dweb&limit=1", site.path("pods"));
            Ok(memchr::memmem::find(&site.get(&path)?, b"\"uid\"").is_none())
        })?;
        note(format!("all gone {:.1} s after the Deployments were deleted", began.elapsed().as_secs_f64()));
        Ok(tally)
    }
}

/// What is written while nothing changes. A revision is a write; of the leases, those with a newer one were renewed.
pub(super) fn quiet(site: &mut Site<'_>) -> Result<String, BenchError> {
    site.progress.show("a minute without a change");
    let (mut writes, mut renewed) = (0, 0);
    let (began, cpu) = (Instant::now(), site.cpu()?);
    let mut before = number_after(&site.get(LEASES)?, b"\"resourceVersion\":\"").unwrap_or(0);
    for _ in 0..WINDOWS {
        std::thread::sleep(WINDOW);
        let leases = site.get(LEASES)?;
        let versions = memchr::memmem::find_iter(&leases, b"\"resourceVersion\":\"");
        let mut versions = versions.filter_map(|at| number_after(&leases[at..], b"\"resourceVersion\":\""));
        // The list's own comes first.
        let now = versions.next().unwrap_or(before);
        renewed += versions.filter(|version| *version > before && *version <= now).count() as u64;
        writes += now - before;
        before = now;
    }
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    let busy = site.cpu()?.zip(cpu).map_or(0.0, |(after, before)| (after - before).as_secs_f64());
    Ok(format!(
        "while nothing changes: {:.0} writes/min other than leases, {:.0} leases/min, {:.2} s of CPU a second",
        writes.saturating_sub(renewed) as f64 / minutes,
        renewed as f64 / minutes,
        busy / (60.0 * minutes)
    ))
}

/// Single calls, each kind by itself: a ConfigMap created, a pod read, a pod's label patched.
fn calls(site: &mut Site<'_>, settings: &Settings) -> Result<Vec<(&'static str, Tally)>, BenchError> {
    create_pods(site, OBJECTS)?;
    let (maps, pod) = (site.path("configmaps"), format!("{}/pod-{SLOT}", site.path("pods")));
    let map = config_map(&format!("h-{NUMBER}"));
    let mut done = Vec::new();
    for (name, method, path, body, slots) in [
        ("create a ConfigMap", "POST", &maps, Some(Body::json(&map)), 1),
        ("get a pod", "GET", &pod, None, OBJECTS),
        ("patch a pod", "PATCH", &pod, Some(LABEL), OBJECTS),
    ] {
        let template = site.template(method, path, body, slots);
        let load = site.load(&template, settings.connections);
        done.push((name, site.drive(&load, settings.phase())?.tally));
    }
    Ok(done)
}
