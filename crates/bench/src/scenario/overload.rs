//! overload: many users list, create and watch without pause; measures the latency of requests the cluster depends on.
//!
//! ```text
//!  600 connections of 40 users, each in a namespace of its own          meanwhile, on connections opened before
//!  ├ a third list its ConfigMaps (gzip, as client-go asks)              ├ GET /readyz          every 25 ms, anonymous
//!  ├ a third create, and delete what they made 20 creates ago           ├ GET a namespace      every 25 ms, as the administrator
//!  └ a third watch, for 5 s each time, from where the last one ended    ├ PUT their Lease      every 50 ms, as three nodes
//!                                                                       └ GET nodes, memory    are they Ready, what is resident
//! ```
//! A 429 is obeyed as client-go does: wait for Retry-After, at most ten times, then give up. The state stays as large as it
//! is, so a fast server does not get longer lists than a slow one.

mod figures;
mod flood;
mod monitor;
mod nodes;
mod probe;
mod users;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::meters::thread_cpu;
use crate::site::Site;
use crate::tally::Tally;
use figures::Figures;
use flood::Flood;
use monitor::Monitor;
use nodes::Nodes;
use probe::Probe;
use users::Users;

/// When memory must be back.
const AFTER: Duration = Duration::from_secs(60);

pub struct Overload;

impl Scenario for Overload {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let mut users = Users::new(site, &settings.overload)?;
        let result = measure(site, settings, &mut users);
        // Clean up whatever happened; the first error is the one to report.
        let closed = users.close(site);
        result.and_then(|tally| closed.map(|()| tally))
    }
}

fn measure(site: &mut Site<'_>, settings: &Settings, users: &mut Users<'_>) -> Result<Tally, BenchError> {
    let nodes = Nodes::register(site, users.take_nodes())?;
    site.progress.show("opening connections");
    let resident_before = site.rss()?;
    // Probes first: their connections are open before the load starts.
    let own = format!("/api/v1/namespaces/{}", site.namespace);
    let mut probes = vec![Probe::readyz(site.endpoint())?, Probe::administrator(site.endpoint(), own)?];
    for node in &nodes.all {
        probes.push(Probe::lease(node)?);
    }
    let mut monitor = Monitor::new(site)?;
    let mut flood = Flood::new(users, settings.overload.connections)?;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(probes.len() + 2));
    let (cpu, own_cpu, began) = (site.cpu()?, thread_cpu(), Instant::now());
    let flooded = std::thread::scope(|scope| {
        for probe in &mut probes {
            scope.spawn(|| {
                start.wait();
                probe.run(&stop);
            });
        }
        scope.spawn(|| {
            start.wait();
            monitor.run(&stop);
        });
        start.wait();
        let flooded = flood.run(settings.measured, site.progress);
        stop.store(true, Ordering::Relaxed);
        flooded
    });
    flooded?;
    let seconds = began.elapsed().as_secs_f64();
    let server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after.saturating_sub(before));
    let generator_cpu = thread_cpu().saturating_sub(own_cpu);
    let kinds = flood.into_kinds();
    drop(probes.iter_mut().map(Probe::close).collect::<Vec<_>>());
    // A short run is a trial: it does not wait for memory to be returned.
    let after = AFTER.min(settings.measured);
    let mut resident_after = None;
    if resident_before.is_some() {
        site.progress.show("waiting for the memory to come back");
        std::thread::sleep(after);
        resident_after = site.rss()?;
    }
    let figures = Figures {
        who: users.describe(),
        lease_holders: nodes.describe(),
        connections: settings.overload.connections,
        seconds,
        probes: probes.into_iter().map(|probe| probe.seen).collect(),
        kinds,
        nodes: monitor.nodes,
        resident_before,
        resident_peak: monitor.resident_peak,
        resident_after,
        after,
        objects_grown_bytes: users.grown_bytes(settings.overload.connections),
    };
    nodes.remove(site)?;
    let mut tally = figures.into_tally();
    tally.server_cpu = server_cpu;
    tally.generator_cpu = generator_cpu;
    Ok(tally)
}
