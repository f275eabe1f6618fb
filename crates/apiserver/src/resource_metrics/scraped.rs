//! What real nodes told last and before that: CPU is what was used in between. The rules are metrics-server's.

use std::collections::BTreeMap;

use object::quantity::{Format, Quantity};
use object::{Map, Value};
use parking_lot::Mutex;

use super::points::{PodName, Point, Scrape};

const SECOND: i64 = 1_000_000_000;
/// How often nodes are asked.
pub const RESOLUTION: i64 = 15 * SECOND;
/// A container that started since the last time is measured from its start, if that is long enough ago.
const FRESH: i64 = 10 * SECOND;

#[derive(Default)]
pub struct Scraped {
    /// Guards the points of nodes by name; held to put or read those of one.
    nodes: Mutex<BTreeMap<String, Told>>,
}

#[derive(Default)]
struct Told {
    node: Option<Pair>,
    pods: BTreeMap<PodName, BTreeMap<String, Pair>>,
}

#[derive(Clone, Copy)]
struct Pair {
    last: Point,
    /// None: only told once.
    before: Option<Point>,
}

/// What was used within a window that ended then.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    /// Unix nanoseconds.
    pub at: i64,
    pub window_nanos: i64,
    cpu_nano_cores: u64,
    memory_bytes: u64,
}

impl Used {
    pub fn usage(&self) -> Map {
        let cpu = Quantity::from_parts(i128::from(self.cpu_nano_cores), -9, Format::DecimalSi);
        let memory = Quantity::from_parts(i128::from(self.memory_bytes), 0, Format::BinarySi);
        let mut usage = Map::with_capacity(2);
        usage.set("cpu", cpu.to_string());
        usage.set("memory", memory.to_string());
        usage
    }
}

/// Of a pod: the window of the container that was measured first, and all containers.
pub struct PodUsed {
    pub at: i64,
    pub window_nanos: i64,
    pub containers: Vec<Value>,
}

impl Scraped {
    pub fn put(&self, node: &str, scrape: Scrape) {
        let mut nodes = self.nodes.lock();
        let told = nodes.entry(node.to_owned()).or_default();
        let old = std::mem::take(told);
        told.node = scrape.node.map(|point| Pair::new(point, old.node));
        let of_pod = |(pod, containers): (PodName, BTreeMap<String, Point>)| {
            let before = old.pods.get(&pod);
            let pair = |(name, point): (String, Point)| {
                let before = before.and_then(|containers| containers.get(&name)).copied();
                (name, Pair::new(point, before))
            };
            let containers = containers.into_iter().map(pair).collect();
            (pod, containers)
        };
        told.pods = scrape.pods.into_iter().map(of_pod).collect();
    }

    /// One that did not answer has nothing to tell.
    pub fn remove(&self, node: &str) {
        self.nodes.lock().remove(node);
    }

    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.nodes.lock().retain(|node, _| exists(node));
    }

    /// Whether a node answered when it was asked last.
    pub fn has(&self, node: &str) -> bool {
        self.nodes.lock().contains_key(node)
    }

    pub fn node(&self, node: &str) -> Option<Used> {
        self.nodes.lock().get(node)?.node?.used()
    }

    /// None: a container of it was told only once, or none at all.
    pub fn pod(&self, node: &str, namespace: &str, name: &str) -> Option<PodUsed> {
        let nodes = self.nodes.lock();
        let containers = nodes.get(node)?.pods.get(&(namespace.to_owned(), name.to_owned()))?;
        let used: Option<Vec<(&String, Used)>> =
            containers.iter().map(|(name, pair)| Some((name, pair.used()?))).collect();
        let used = used?;
        let (_, first) = used.iter().min_by_key(|(_, used)| used.at)?;
        let (at, window_nanos) = (first.at, first.window_nanos);
        let container = |(name, used): (&String, Used)| {
            let mut container = Map::with_capacity(2);
            container.set("name", name.as_str());
            container.set("usage", used.usage());
            Value::Map(container)
        };
        Some(PodUsed { at, window_nanos, containers: used.into_iter().map(container).collect() })
    }
}

impl Pair {
    fn new(last: Point, old: Option<Pair>) -> Pair {
        let started = (last.started * SECOND as f64) as i64;
        let age = last.at.saturating_sub(started);
        let fresh = started > 0 && (FRESH..RESOLUTION).contains(&age);
        let before = match old {
            _ if fresh => Some(Point { at: started, cpu_nanos: 0, memory_bytes: 0, started: last.started }),
            // The node measures less often than it is asked.
            Some(old) if old.last.at == last.at => old.before,
            Some(old) => Some(old.last),
            None => None,
        };
        Pair { last, before }
    }

    fn used(&self) -> Option<Used> {
        let Pair { last, before } = self;
        let before = (*before)?;
        let window_nanos = last.at.checked_sub(before.at).filter(|window| *window > 0)?;
        // One that started anew: less was used than before, or it says so.
        let used = last.cpu_nanos.checked_sub(before.cpu_nanos).filter(|_| last.started <= before.started)?;
        let nano_cores = u128::from(used) * 1_000_000_000 / u128::from(window_nanos.unsigned_abs());
        Some(Used {
            at: last.at,
            window_nanos,
            cpu_nano_cores: u64::try_from(nano_cores).unwrap_or(u64::MAX),
            memory_bytes: last.memory_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: f64 = 1_700_000_000.0;

    /// Seconds after the start of the container.
    fn scrape(after: i64, cpu_seconds: f64, started: f64) -> Scrape {
        let at = (START as i64 + after) * SECOND;
        let cpu_nanos = (cpu_seconds * 1e9) as u64;
        let point = Point { at, cpu_nanos, memory_bytes: 1 << 20, started };
        let pod = ("ns".to_owned(), "p".to_owned());
        let containers = BTreeMap::from([("c".to_owned(), point)]);
        Scrape { node: Some(Point { started: 0.0, ..point }), pods: BTreeMap::from([(pod, containers)]) }
    }

    fn cpu(scraped: &Scraped) -> Option<String> {
        let pod = scraped.pod("n", "ns", "p")?;
        pod.containers[0].str_at(&["usage", "cpu"]).map(str::to_owned)
    }

    #[test]
    fn cpu_is_what_was_used_between_two_scrapes() {
        let scraped = Scraped::default();
        scraped.put("n", scrape(100, 10.0, START));
        assert_eq!(cpu(&scraped), None, "told once");
        assert!(scraped.has("n") && scraped.node("n").is_none());
        scraped.put("n", scrape(120, 15.0, START));
        assert_eq!(cpu(&scraped).as_deref(), Some("250m"));
        let used = scraped.node("n").unwrap();
        assert_eq!(used.window_nanos, 20 * SECOND);
        assert_eq!(used.usage().get("memory").unwrap().as_str(), Some("1Mi"));
        // The same again: the node has not measured since.
        scraped.put("n", scrape(120, 15.0, START));
        assert_eq!(cpu(&scraped).as_deref(), Some("250m"));
        scraped.put("n", scrape(130, 15.000_001, START));
        assert_eq!(cpu(&scraped).as_deref(), Some("100n"));
        scraped.remove("n");
        assert!(!scraped.has("n") && cpu(&scraped).is_none());
    }

    #[test]
    fn a_new_container_is_measured_from_its_start() {
        let scraped = Scraped::default();
        scraped.put("n", scrape(5, 1.0, START));
        assert_eq!(cpu(&scraped), None, "too short");
        let scraped = Scraped::default();
        scraped.put("n", scrape(12, 6.0, START));
        assert_eq!(cpu(&scraped).as_deref(), Some("500m"));
    }

    #[test]
    fn a_restarted_container_is_not_measured_across_its_restart() {
        let scraped = Scraped::default();
        scraped.put("n", scrape(100, 10.0, START));
        scraped.put("n", scrape(120, 1.0, START + 115.0));
        assert_eq!(cpu(&scraped), None);
        scraped.put("n", scrape(140, 3.0, START + 115.0));
        assert_eq!(cpu(&scraped).as_deref(), Some("100m"));
    }
}
