//! schedule, deploy: how fast the whole control plane brings pods onto nodes, over its HTTP API.
//!
//! A server without nodes gets a thousand Node objects without a kubelet: pods are bound to them and stay Pending, so that only the
//! control plane is measured. One that has nodes (`setpoint up --simulated-nodes 1000`) is measured with those.

use std::time::{Duration, Instant};

use super::{Scenario, Settings};
use crate::drive::{Load, Phase};
use crate::error::BenchError;
use crate::meters::thread_cpu;
use crate::request::{Body, NUMBER, SLOT};
use crate::site::Site;
use crate::tally::Tally;

const NODES: u64 = 1_000;
const DEPLOYMENTS: u64 = 10;
const REPLICAS: u64 = 500;
const PODS: u64 = DEPLOYMENTS * REPLICAS;
/// Upstream takes half a minute; a server that takes longer than this has stopped.
const TIME_LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(20);

/// What is created.
pub enum What {
    /// Pods, over all connections.
    Pods,
    /// Deployments: the pods come from their controllers.
    Deployments,
}

pub struct Schedule {
    pub what: What,
}

impl Scenario for Schedule {
    fn measure(&self, site: &mut Site<'_>, settings: &Settings) -> Result<Tally, BenchError> {
        let made_nodes = make_nodes(site)?;
        let before = decisions(&site.get("/metrics")?);
        let (began, cpu, own) = (Instant::now(), site.cpu()?, thread_cpu());
        let (mut tally, made) = match self.what {
            What::Pods => {
                let path = site.path("pods");
                let body = pod(&format!("s-{NUMBER}"));
                let template = site.template("POST", &path, Some(Body::json(&body)), 1);
                let load = Load { max_requests: PODS, ..site.load(&template, settings.connections) };
                let phase = Phase { name: "creating pods", warmup: Duration::ZERO, measured: TIME_LIMIT };
                let outcome = site.drive(&load, phase)?;
                (outcome.tally, outcome.numbers)
            }
            What::Deployments => {
                let made = site.next_number..site.next_number + DEPLOYMENTS;
                site.next_number = made.end;
                for number in made.clone() {
                    let path = site.path("apps/v1/deployments");
                    site.post(&path, &deployment(&format!("d-{number}"), REPLICAS))?;
                }
                wait(site, "waiting for the deployments' pods", (began, TIME_LIMIT), &mut |site| {
                    let path = site.path("apps/v1/deployments");
                    Ok(sum_of(&site.get(&path)?, b"\"replicas\":", b"\"status\":") >= PODS)
                })?;
                (Tally::new(), made)
            }
        };
        wait(site, "waiting for the last pod to be bound", (began, TIME_LIMIT), &mut |site| {
            let path = format!("{}?fieldSelector=spec.nodeName%3D&limit=1", site.path("pods"));
            let rest = site.get(&path)?;
            Ok(memchr::memmem::find(&rest, b"\"uid\"").is_none())
        })?;
        tally.seconds = began.elapsed().as_secs_f64();
        tally.requests = PODS;
        tally.latency = crate::histogram::Histogram::new();
        tally.server_cpu = site.cpu()?.zip(cpu).map(|(after, before)| after - before);
        tally.generator_cpu = thread_cpu() - own;
        tally.server_rss_peak = site.rss()?;
        if let Some(cpu) = tally.server_cpu {
            tally
                .notes
                .push(format!("{:.0} us of the server's CPU a pod", cpu.as_micros() as f64 / PODS as f64));
        }
        if let (Some(before), Some(after)) = (before, decisions(&site.get("/metrics")?))
            && after.1 > before.1
        {
            let each = (after.0 - before.0) / (after.1 - before.1);
            tally.notes.push(format!("{:.1} us a scheduling decision, by the server's metrics", each * 1e6));
        }
        match self.what {
            What::Pods => site.delete_numbers("pods", "s-", made)?,
            What::Deployments => {
                for number in made {
                    let path = format!(
                        "{}/d-{number}?propagationPolicy=Background",
                        site.path("apps/v1/deployments")
                    );
                    site.delete(&path)?;
                }
                wait(
                    site,
                    "waiting for the deployments' pods to go",
                    (Instant::now(), TIME_LIMIT),
                    &mut |site| {
                        let path = format!("{}?limit=1", site.path("pods"));
                        // Without grace: the made-up nodes have no kubelet that would finish the deletion.
                        site.delete(&format!("{}?gracePeriodSeconds=0", site.path("pods")))?;
                        Ok(memchr::memmem::find(&site.get(&path)?, b"\"uid\"").is_none())
                    },
                )?;
            }
        }
        if made_nodes {
            remove_nodes(site)?;
        }
        Ok(tally)
    }
}

/// Seconds spent on scheduling decisions so far, and how many those were; of a scheduler in the API server's process.
fn decisions(metrics: &[u8]) -> Option<(f64, f64)> {
    let value = |name: &str| {
        let line = metrics.split(|byte| *byte == b'\n').find(|line| line.starts_with(name.as_bytes()))?;
        let text = std::str::from_utf8(line).ok()?;
        text.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let name = "scheduler_scheduling_algorithm_duration_seconds";
    Some((value(&format!("{name}_sum"))?, value(&format!("{name}_count"))?))
}

/// Whether nodes had to be created.
pub(super) fn make_nodes(site: &mut Site<'_>) -> Result<bool, BenchError> {
    let there = site.get("/api/v1/nodes?limit=1")?;
    if memchr::memmem::find(&there, b"\"uid\"").is_some() {
        return Ok(false);
    }
    site.create_all_at("/api/v1/nodes", &node(&format!("bench-{SLOT}")), NODES)?;
    // Admission taints what is new; a node lifecycle controller, if there is one, takes the taint off when it looks. We do
    // it at once: all servers start with the same nodes.
    for number in 0..NODES {
        site.merge(&format!("/api/v1/nodes/bench-{number:06}"), r#"{"spec":{"taints":null}}"#)?;
    }
    Ok(true)
}

pub(super) fn remove_nodes(site: &mut Site<'_>) -> Result<(), BenchError> {
    (0..NODES).try_for_each(|number| site.delete(&format!("/api/v1/nodes/bench-{number:06}")))
}

pub(super) fn wait(
    site: &mut Site<'_>,
    what: &str,
    (began, limit): (Instant, Duration),
    done: &mut dyn FnMut(&mut Site<'_>) -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    site.progress.show(what);
    while !done(site)? {
        if began.elapsed() > limit {
            return Err(site.too_slow(what.to_owned(), limit));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The sum of a number that stands behind `name` after each `section` of a list.
pub(super) fn sum_of(body: &[u8], name: &[u8], section: &[u8]) -> u64 {
    let mut sum = 0;
    for at in memchr::memmem::find_iter(body, section) {
        let rest = &body[at + section.len()..];
        let end = memchr::memmem::find(rest, section).unwrap_or(rest.len());
        sum += number_after(&rest[..end], name).unwrap_or(0);
    }
    sum
}

/// The number behind the first `name`.
pub(super) fn number_after(body: &[u8], name: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(body, name)?;
    let digits = body[at + name.len()..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn node(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","labels":{{"kubernetes.io/hostname":"{name}","kubernetes.io/os":"linux"}}}},"status":{{"capacity":{{"cpu":"32","memory":"256Gi","pods":"110"}},"allocatable":{{"cpu":"32","memory":"256Gi","pods":"110"}},"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"made by setpoint bench"}}]}}}}"#
    )
}

pub(super) const TEMPLATE: &str = r#""automountServiceAccountToken":false,"terminationGracePeriodSeconds":0,"containers":[{"name":"web","image":"registry.example/web:1.2.3","resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]"#;

fn pod(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{{TEMPLATE}}}}}"#
    )
}

pub(super) fn deployment(name: &str, replicas: u64) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"{name}"}}}},"template":{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{{{TEMPLATE}}}}}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_read_from_metrics_where_there_are_any() {
        let name = "scheduler_scheduling_algorithm_duration_seconds";
        let page = format!(
            "# TYPE {name} histogram\n{name}_bucket{{le=\"1\"}} 4\n{name}_sum 0.002\n{name}_count 4\n"
        );
        assert_eq!(decisions(page.as_bytes()), Some((0.002, 4.0)));
        assert_eq!(decisions(b"apiserver_requests_total 1\n"), None);
    }

    #[test]
    fn replicas_are_summed_over_the_statuses_of_a_list() {
        let body = br#"{"items":[{"spec":{"replicas":500},"status":{"observedGeneration":1,"replicas":12}},{"spec":{"replicas":500},"status":{}},{"status":{"replicas":30}}]}"#;
        assert_eq!(sum_of(body, b"\"replicas\":", b"\"status\":"), 42);
        assert_eq!(number_after(body, b"\"observedGeneration\":"), Some(1));
        assert_eq!(number_after(body, b"\"nothing\":"), None);
    }
}
