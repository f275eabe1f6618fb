//! statefulset, daemonset, jobs, cronjobs, claims: how fast one controller does what many objects ask of it, over the HTTP API.
//!
//! Nodes are as in `deploy`: without a kubelet, unless the server has some, so that only the control plane is measured.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::schedule::{TEMPLATE, make_nodes, number_after, remove_nodes, sum_of, wait};
use super::{Scenario, Settings};
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::meters::thread_cpu;
use crate::request::SLOT;
use crate::site::Site;
use crate::tally::Tally;

const TIME_LIMIT: Duration = Duration::from_secs(600);
/// CronJobs are created so long before the minute they are due in.
const BEFORE_DUE: u64 = 15;

/// What is created, and what is waited for.
pub enum What {
    /// 100 sets of 10 pods, all at once, until every pod is there.
    StatefulSets,
    /// One on all nodes, until every pod is there.
    DaemonSet,
    /// 500 Jobs of 10 pods, until all are active.
    Jobs,
    /// 1,000 that are due in the same minute, until every Job is there.
    CronJobs,
    /// 2,000 claims, until each is bound to a volume that is there.
    Claims,
}

pub struct Workloads {
    pub what: What,
}

impl What {
    fn resource(&self) -> &'static str {
        match self {
            What::StatefulSets => "apps/v1/statefulsets",
            What::DaemonSet => "apps/v1/daemonsets",
            What::Jobs => "batch/v1/jobs",
            What::CronJobs => "batch/v1/cronjobs",
            What::Claims => "persistentvolumeclaims",
        }
    }

    fn objects(&self) -> u64 {
        match self {
            What::StatefulSets => 100,
            What::DaemonSet => 1,
            What::Jobs => 500,
            What::CronJobs => 1_000,
            What::Claims => 2_000,
        }
    }

    /// One object, with a [`SLOT`] in its name.
    fn object(&self) -> String {
        let metadata = format!(r#""metadata":{{"name":"w-{SLOT}"}}"#);
        let pods = |template: &str| {
            format!(
                r#""selector":{{"matchLabels":{{"app":"w-{SLOT}"}}}},"template":{{"metadata":{{"labels":{{"app":"w-{SLOT}"}}}},"spec":{{{template}}}}}"#
            )
        };
        let job = format!(
            r#""template":{{"metadata":{{"labels":{{"app":"w"}}}},"spec":{{"restartPolicy":"Never",{TEMPLATE}}}}}"#
        );
        match self {
            What::StatefulSets => format!(
                r#"{{"apiVersion":"apps/v1","kind":"StatefulSet",{metadata},"spec":{{"serviceName":"w","replicas":10,"podManagementPolicy":"Parallel",{}}}}}"#,
                pods(TEMPLATE)
            ),
            What::DaemonSet => format!(
                r#"{{"apiVersion":"apps/v1","kind":"DaemonSet",{metadata},"spec":{{{}}}}}"#,
                pods(TEMPLATE)
            ),
            What::Jobs => format!(
                r#"{{"apiVersion":"batch/v1","kind":"Job",{metadata},"spec":{{"parallelism":10,"completions":10,{job}}}}}"#
            ),
            What::CronJobs => format!(
                r#"{{"apiVersion":"batch/v1","kind":"CronJob",{metadata},"spec":{{"schedule":"* * * * *","concurrencyPolicy":"Forbid","jobTemplate":{{"spec":{{{job}}}}}}}}}"#
            ),
            What::Claims => format!(
                r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim",{metadata},"spec":{{"storageClassName":"","accessModes":["ReadWriteOnce"],"resources":{{"requests":{{"storage":"1Gi"}}}}}}}}"#
            ),
        }
    }

    /// How many of what is counted are to come.
    fn wanted(&self, nodes: u64) -> u64 {
        match self {
            What::StatefulSets => 1_000,
            What::DaemonSet => nodes,
            What::Jobs => 5_000,
            What::CronJobs | What::Claims => self.objects(),
        }
    }

    /// How many have come.
    fn count(&self, site: &mut Site<'_>) -> Result<u64, BenchError> {
        let path = site.path(self.resource());
        Ok(match self {
            What::StatefulSets => sum_of(&site.get(&path)?, b"\"replicas\":", b"\"status\":"),
            What::DaemonSet => sum_of(&site.get(&path)?, b"\"currentNumberScheduled\":", b"\"status\":"),
            What::Jobs => sum_of(&site.get(&path)?, b"\"active\":", b"\"status\":{"),
            What::CronJobs => {
                let jobs = site.get(&format!("{}?limit=1", site.path("batch/v1/jobs")))?;
                let first = u64::from(memchr::memmem::find(&jobs, b"\"uid\"").is_some());
                first + number_after(&jobs, b"\"remainingItemCount\":").unwrap_or(0)
            }
            What::Claims => {
                memchr::memmem::find_iter(&site.get(&path)?, b"\"phase\":\"Bound\"").count() as u64
            }
        })
    }

    fn needs_nodes(&self) -> bool {
        matches!(self, What::StatefulSets | What::DaemonSet | What::Jobs)
    }

    /// What the objects leave behind is deleted with their namespace, which waits for no node.
    fn leaves_pods(&self) -> bool {
        !matches!(self, What::Claims)
    }
}

impl Scenario for Workloads {
    fn measure(&self, site: &mut Site<'_>, _settings: &Settings) -> Result<Tally, BenchError> {
        let what = &self.what;
        let made_nodes = what.needs_nodes() && make_nodes(site)?;
        let nodes = memchr::memmem::find_iter(&site.get("/api/v1/nodes")?, b"\"uid\"").count() as u64;
        if matches!(what, What::Claims) {
            site.create_all_at("/api/v1/persistentvolumes", &volume(), what.objects())?;
        }
        if matches!(what, What::CronJobs) {
            wait_for(site, "waiting for the end of the minute", |second| {
                (second + BEFORE_DUE).is_multiple_of(60)
            })?;
        }
        let (mut began, mut cpu, mut own) = (Instant::now(), site.cpu()?, thread_cpu());
        site.create_all(what.resource(), &what.object(), what.objects())?;
        if matches!(what, What::CronJobs) {
            wait_for(site, "waiting for the minute in which the jobs are due", |second| {
                second.is_multiple_of(60)
            })?;
            (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
        }
        let wanted = what.wanted(nodes);
        wait(site, "waiting for the controller", (began, TIME_LIMIT), &mut |site| {
            Ok(what.count(site)? >= wanted)
        })?;
        let mut tally = Tally::new();
        tally.seconds = began.elapsed().as_secs_f64();
        tally.requests = wanted;
        tally.latency = Histogram::new();
        tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
        tally.generator_cpu = thread_cpu() - own;
        tally.server_rss_peak = site.rss()?;
        self.clean_up(site)?;
        if made_nodes {
            remove_nodes(site)?;
        }
        Ok(tally)
    }
}

impl Workloads {
    fn clean_up(&self, site: &mut Site<'_>) -> Result<(), BenchError> {
        let (what, limit) = (&self.what, (Instant::now(), TIME_LIMIT));
        let all = site.path(what.resource());
        for number in 0..what.objects() {
            site.delete(&format!("{all}/w-{number:06}?propagationPolicy=Background"))?;
        }
        if what.leaves_pods() {
            let (pods, jobs) = (site.path("pods"), site.path("batch/v1/jobs"));
            wait(site, "waiting for the pods to go", limit, &mut |site| {
                site.delete(&format!("{jobs}?propagationPolicy=Background"))?;
                // Without grace: the made-up nodes have no kubelet that would finish the deletion.
                site.delete(&format!("{pods}?gracePeriodSeconds=0"))?;
                let none = |list: Vec<u8>| memchr::memmem::find(&list, b"\"uid\"").is_none();
                Ok(none(site.get(&format!("{pods}?limit=1"))?) && none(site.get(&format!("{jobs}?limit=1"))?))
            })?;
        } else {
            for number in 0..what.objects() {
                site.delete(&format!("/api/v1/persistentvolumes/bench-{number:06}"))?;
            }
        }
        Ok(())
    }
}

/// Waits for a second of the wall clock.
fn wait_for(site: &mut Site<'_>, what: &str, is_it: impl Fn(u64) -> bool) -> Result<(), BenchError> {
    wait(site, what, (Instant::now(), TIME_LIMIT), &mut |_| {
        Ok(is_it(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())))
    })
}

fn volume() -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"bench-{SLOT}"}},"spec":{{"capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Retain","hostPath":{{"path":"/tmp/bench"}}}}}}"#
    )
}
