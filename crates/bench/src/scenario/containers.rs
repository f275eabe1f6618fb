//! pod-start, pod-churn: how fast a node brings pods up and takes them away, as a client of the API sees it. The image must be on
//! the nodes already: pulls are not measured.

use std::time::{Duration, Instant};

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
/// One after the other.
const STARTS: usize = 40;
/// At once.
const CHURN: u64 = 100;

pub enum What {
    /// One pod after the other, from its creation until it is Running.
    Start,
    /// 100 pods at once until all are Running, then all deleted until none is left.
    Churn,
}

pub struct Containers {
    pub what: What,
}

pub(super) fn pod(name: &str, image: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"terminationGracePeriodSeconds":0,"containers":[{{"name":"c","image":{image:?},"imagePullPolicy":"IfNotPresent"}}]}}}}"#
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
        }
    }
}

fn start(site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
    let pods = site.path("pods");
    for number in 0..STARTS {
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
    finish(site, &mut tally, began, STARTS as u64)?;
    tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
    tally.generator_cpu = thread_cpu() - own;
    Ok(tally)
}

fn churn(site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
    site.create_all("pods", &pod(&format!("churn-{SLOT}"), &settings.image), CHURN)?;
    let pods = site.path("pods");
    wait(site, "waiting for all pods to run", (began, TIME_LIMIT), &mut |site| {
        let listed = site.get(&pods)?;
        Ok(memchr::memmem::find_iter(&listed, b"\"phase\":\"Running\"").count() as u64 >= CHURN)
    })?;
    let up = began.elapsed();
    let gone = Instant::now();
    site.delete(&pods)?;
    wait(site, "waiting for the pods to go", (gone, TIME_LIMIT), &mut |site| {
        Ok(memchr::memmem::find(&site.get(&format!("{pods}?limit=1"))?, b"\"uid\"").is_none())
    })?;
    tally.notes.push(format!(
        "{CHURN} pods Running after {:.2} s, gone {:.2} s after they were deleted",
        up.as_secs_f64(),
        gone.elapsed().as_secs_f64()
    ));
    finish(site, &mut tally, began, CHURN)?;
    tally.seconds = up.as_secs_f64();
    tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
    tally.generator_cpu = thread_cpu() - own;
    Ok(tally)
}

fn finish(site: &mut Site<'_>, tally: &mut Tally, began: Instant, pods: u64) -> Result<(), BenchError> {
    tally.seconds = began.elapsed().as_secs_f64();
    tally.requests = pods;
    tally.server_rss_peak = site.rss()?;
    Ok(())
}
