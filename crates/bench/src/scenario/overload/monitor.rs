//! Monitors resident memory and node readiness during the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::error::BenchError;
use crate::meters::Processes;
use crate::site::Site;

const SAMPLE: Duration = Duration::from_millis(200);
const NODES: Duration = Duration::from_secs(1);
/// The table of `kubectl get nodes`: the same words from every server.
const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

pub struct Monitor<'a> {
    client: Client,
    processes: &'a Processes,
    pub resident_peak: Option<u64>,
    pub nodes: NodesSeen,
}

#[derive(Default, Clone)]
pub struct NodesSeen {
    pub count: usize,
    pub samples: u64,
    /// Samples in which some node was not Ready.
    pub not_ready: u64,
    /// Samples that were not answered.
    pub unknown: u64,
}

impl<'a> Monitor<'a> {
    pub fn new(site: &Site<'a>) -> Result<Self, BenchError> {
        let client = Client::new(site.endpoint().clone());
        let mut monitor =
            Monitor { client, processes: site.processes(), resident_peak: None, nodes: NodesSeen::default() };
        monitor.look_at_nodes();
        monitor.nodes = NodesSeen { count: monitor.nodes.count, ..NodesSeen::default() };
        Ok(monitor)
    }

    pub fn run(&mut self, stop: &AtomicBool) {
        let (clock, mut next_nodes) = (Instant::now(), Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            // A server that went away is reported by the others.
            self.resident_peak = self.resident_peak.max(self.processes.rss().unwrap_or_default());
            if clock.elapsed() >= next_nodes {
                next_nodes = clock.elapsed() + NODES;
                self.look_at_nodes();
            }
            std::thread::sleep(SAMPLE);
        }
    }

    fn look_at_nodes(&mut self) {
        self.nodes.samples += 1;
        match self.client.exchange_raw("GET", "/api/v1/nodes", &[("Accept", AS_TABLE)], "") {
            Ok(answer) if answer.status == 200 => {
                let count = |what: &[u8]| memchr::memmem::find_iter(&answer.body, what).count();
                self.nodes.count = count(b"\"cells\":[");
                self.nodes.not_ready += u64::from(count(b"\"NotReady") > 0);
            }
            _ => self.nodes.unknown += 1,
        }
    }
}
