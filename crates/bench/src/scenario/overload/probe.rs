//! Latency probes: requests at a fixed interval over connections opened before the load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::nodes::Node;
use super::users::text_after;
use crate::client::{Answer, Client, shorten};
use crate::endpoint::Endpoint;
use crate::error::BenchError;
use crate::histogram::Histogram;
use crate::tally::BROKEN;

const INTERVAL: Duration = Duration::from_millis(25);
const LEASE_INTERVAL: Duration = Duration::from_millis(50);

pub struct Probe {
    /// Opened before the load; `None` once the probe is over.
    client: Option<Client>,
    what: What,
    interval: Duration,
    pub seen: Seen,
}

enum What {
    Get(String),
    Lease { node: Box<Node>, version: Option<String> },
}

/// The results.
#[derive(Clone)]
pub struct Seen {
    pub name: &'static str,
    pub latency: Histogram,
    pub answered: u64,
    pub refused: u64,
    /// By status code.
    pub failed: BTreeMap<u16, u64>,
    pub first_failure: Option<String>,
}

impl Probe {
    pub fn readyz(endpoint: &Endpoint) -> Result<Probe, BenchError> {
        Probe::open("/readyz", endpoint.for_bearer(None), What::Get("/readyz".to_owned()), INTERVAL)
    }

    pub fn administrator(endpoint: &Endpoint, path: String) -> Result<Probe, BenchError> {
        Probe::open("an administrator's GET", endpoint.clone(), What::Get(path), INTERVAL)
    }

    pub fn lease(node: &Node) -> Result<Probe, BenchError> {
        let what = What::Lease { node: Box::new(node.clone()), version: None };
        Probe::open("a node's Lease", node.endpoint.clone(), what, LEASE_INTERVAL)
    }

    /// Sends the request once, uncounted: opens the connection, and checks that the request is allowed.
    fn open(
        name: &'static str,
        endpoint: Endpoint,
        what: What,
        interval: Duration,
    ) -> Result<Probe, BenchError> {
        let seen = Seen {
            name,
            latency: Histogram::new(),
            answered: 0,
            refused: 0,
            failed: BTreeMap::new(),
            first_failure: None,
        };
        let server = endpoint.server.clone();
        let mut probe = Probe { client: Some(Client::new(endpoint)), what, interval, seen };
        let answer = probe.ask()?;
        if !(200..300).contains(&answer.status) {
            let doing = format!("the first probe of {name}");
            return Err(BenchError::Refused {
                server,
                doing,
                status: answer.status,
                body: shorten(&answer.body),
            });
        }
        Ok(probe)
    }

    pub fn run(&mut self, stop: &AtomicBool) {
        let clock = Instant::now();
        let mut due = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let sent = clock.elapsed();
            let answer = self.ask();
            let took = (clock.elapsed() - sent).as_nanos() as u64;
            let seen = &mut self.seen;
            match answer {
                Ok(answer) if (200..300).contains(&answer.status) => {
                    seen.answered += 1;
                    seen.latency.record_with_missed(took, self.interval.as_nanos() as u64);
                }
                Ok(answer) if answer.status == 429 => seen.refused += 1,
                Ok(answer) => {
                    seen.fail(answer.status, format!("{}: {}", answer.status, shorten(&answer.body)))
                }
                Err(error) => seen.fail(BROKEN, error.to_string()),
            }
            due = (due + self.interval).max(clock.elapsed());
            std::thread::sleep(due.saturating_sub(clock.elapsed()));
        }
    }

    /// Gives the connection back.
    pub fn close(&mut self) {
        self.client = None;
    }

    fn ask(&mut self) -> Result<Answer, BenchError> {
        let Some(client) = &mut self.client else {
            return Err(BenchError::Usage("the probe is over".to_owned()));
        };
        match &mut self.what {
            What::Get(path) => client.call("GET", path, None),
            What::Lease { node, version } => {
                if version.is_none() {
                    let answer = node.send(client, "GET", &node.lease_path(), "")?;
                    *version = text_after(&answer.body, b"\"resourceVersion\":\"");
                }
                let body = node.lease(version.as_deref());
                let answer = node.send(client, "PUT", &node.lease_path(), &body)?;
                match answer.status {
                    200 => *version = text_after(&answer.body, b"\"resourceVersion\":\""),
                    // Refused, it was not written.
                    429 => {}
                    _ => *version = None,
                }
                Ok(answer)
            }
        }
    }
}

impl Seen {
    fn fail(&mut self, status: u16, text: String) {
        *self.failed.entry(status).or_default() += 1;
        self.first_failure.get_or_insert(text);
    }

    /// Of several probes of one name.
    pub fn merge(&mut self, other: &Seen) {
        self.latency.merge(&other.latency);
        self.answered += other.answered;
        self.refused += other.refused;
        for (status, count) in &other.failed {
            *self.failed.entry(*status).or_default() += count;
        }
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
    }
}
