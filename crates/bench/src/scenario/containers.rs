//! pod-start, pod-churn, node-idle: how fast a node brings pods up and takes them away, as a client of the API sees it, and what it
//! costs while they run. The image must be on the nodes already: pulls are not measured.

use std::time::{Duration, Instant};

use super::hold::quiet;
use super::schedule::wait;
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::meters::thread_cpu;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

pub(super) const TIME_LIMIT: Duration = Duration::from_secs(300);
/// Between two looks at a pod: less than what is measured.
pub(super) const LOOK: Duration = Duration::from_millis(2);
/// One after the other, unless `--pods` says otherwise.
const STARTS: u64 = 40;
/// At once, unless `--pods` says otherwise.
const CHURN: u64 = 100;
/// With some grace a pod is gone from the API when its node has said that nothing of it runs any more, and without when it is deleted.
/// An image that does not end on SIGTERM takes all of it.
const GRACE_SECONDS: u64 = 2;
/// Time for a node to settle after a burst of starts.
const SETTLE: Duration = Duration::from_secs(15);

pub enum What {
    /// One pod after the other, from its creation until it is Running.
    Start,
    /// Pods at once until all are Running, then all deleted until none is left.
    Churn,
    /// A minute with pods that run.
    Idle,
}

pub struct Containers {
    pub what: What,
}

pub(super) fn pod(name: &str, image: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"terminationGracePeriodSeconds":{GRACE_SECONDS},"containers":[{{"name":"c","image":{image:?},"imagePullPolicy":"IfNotPresent"}}]}}}}"#
    )
}

pub(super) fn is_running(pod: &[u8]) -> bool {
    memchr::memmem::find(pod, b"\"phase\":\"Running\"").is_some()
}

impl Scenario for Containers {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        match self.what {
            What::Start => start(site, settings),
            What::Churn => churn(site, settings),
            What::Idle => idle(site, settings),
        }
    }
}

fn start(site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
    let pods = site.path("pods");
    let starts = settings.pods.unwrap_or(STARTS);
    for number in 0..starts {
        let name = format!("start-{number}");
        let created = Instant::now();
        site.post(&pods, &pod(&name, &settings.image))?;
        let path = format!("{pods}/{name}");
        while !is_running(&site.get(&path)?) {
            if created.elapsed() > TIME_LIMIT {
                return Err(site.too_slow(format!("waiting for pod {name} to run"), TIME_LIMIT));
            }
            std::thread::sleep(LOOK);
        }
        tally.latency.record(u64::try_from(created.elapsed().as_nanos()).unwrap_or(u64::MAX));
        site.delete(&format!("{path}?gracePeriodSeconds=0"))?;
    }
    finish(site, &mut tally, began, starts)?;
    tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
    tally.generator_cpu = thread_cpu() - own;
    Ok(tally)
}

fn churn(site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
    let count = settings.pods.unwrap_or(CHURN);
    let pods = run_all(site, settings, count, began)?;
    let up = began.elapsed();
    let gone = Instant::now();
    site.delete(&pods)?;
    wait(site, "waiting for the pods to go", (gone, TIME_LIMIT), &mut |site| {
        Ok(memchr::memmem::find(&site.get(&format!("{pods}?limit=1"))?, b"\"uid\"").is_none())
    })?;
    tally.notes.push(format!(
        "{count} pods Running after {:.2} s, gone {:.2} s after they were deleted",
        up.as_secs_f64(),
        gone.elapsed().as_secs_f64()
    ));
    finish(site, &mut tally, began, count)?;
    tally.seconds = up.as_secs_f64();
    tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
    tally.generator_cpu = thread_cpu() - own;
    Ok(tally)
}

/// All of them, and their collection.
fn run_all(
    site: &mut Site<'_>,
    settings: &Settings,
    count: u64,
    began: Instant,
) -> Result<String, BenchError> {
    site.create_all("pods", &pod(&format!("churn-{SLOT}"), &settings.image), count)?;
    let pods = site.path("pods");
    wait(site, "waiting for all pods to run", (began, TIME_LIMIT), &mut |site| {
        let listed = site.get(&pods)?;
        Ok(memchr::memmem::find_iter(&listed, b"\"phase\":\"Running\"").count() as u64 >= count)
    })?;
    Ok(pods)
}

fn idle(site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    let before = site.processes().pss()?;
    let began = Instant::now();
    let count = settings.pods.unwrap_or(CHURN);
    run_all(site, settings, count, began)?;
    finish(site, &mut tally, began, count)?;
    site.progress.show("letting it settle");
    std::thread::sleep(SETTLE);
    let (measured, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
    let writes = quiet(site)?;
    let seconds = measured.elapsed().as_secs_f64();
    tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
    tally.generator_cpu = thread_cpu() - own;
    let share = tally
        .server_cpu
        .map_or("unknown".to_owned(), |cpu| format!("{:.2} %", 100.0 * cpu.as_secs_f64() / seconds));
    let mega = |bytes: Option<u64>| {
        bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6))
    };
    tally.notes.push(format!(
        "with {count} pods for {seconds:.0} s: {share} of a core, {} PSS ({} before the pods) of the processes in --pids",
        mega(site.processes().pss()?),
        mega(before)
    ));
    tally.notes.push(writes);
    Ok(tally)
}

fn finish(site: &mut Site<'_>, tally: &mut Tally, began: Instant, pods: u64) -> Result<(), BenchError> {
    tally.seconds = began.elapsed().as_secs_f64();
    tally.requests = pods;
    tally.server_rss_peak = site.rss()?;
    Ok(())
}
