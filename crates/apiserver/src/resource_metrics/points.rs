//! What a node tells of itself at `/metrics/resource`: the few series metrics-server reads.

use std::collections::BTreeMap;

/// What was used until a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Unix nanoseconds.
    pub at: i64,
    /// Since it started.
    pub cpu_nanos: u64,
    pub memory_bytes: u64,
    /// Unix seconds; 0: not told.
    pub started: f64,
}

/// Namespace and name of a pod.
pub type PodName = (String, String);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scrape {
    pub node: Option<Point>,
    /// By container.
    pub pods: BTreeMap<PodName, BTreeMap<String, Point>>,
}

/// Not all of a point has come yet.
#[derive(Default)]
struct Parts {
    cpu: Option<(f64, i64)>,
    memory: Option<(f64, i64)>,
    started: f64,
}

impl Parts {
    fn whole(&self) -> Option<Point> {
        let ((cpu_seconds, at), (memory_bytes, _)) = (self.cpu?, self.memory?);
        let cpu_nanos = (cpu_seconds * 1e9).round() as u64;
        Some(Point { at, cpu_nanos, memory_bytes: memory_bytes as u64, started: self.started })
    }
}

/// Lines that make no sense are skipped. A pod of which a container is not told completely is left out.
pub fn parse(text: &str) -> Scrape {
    let mut node = Parts::default();
    let mut pods: BTreeMap<PodName, BTreeMap<String, Parts>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels, value, at)) = sample(line) else { continue };
        let told = Some((value, at));
        match name {
            "node_cpu_usage_seconds_total" => node.cpu = told,
            "node_memory_working_set_bytes" => node.memory = told,
            "container_cpu_usage_seconds_total"
            | "container_memory_working_set_bytes"
            | "container_start_time_seconds" => {
                let label = |name: &str| label(labels, name).unwrap_or_default();
                let pod = pods.entry((label("namespace"), label("pod"))).or_default();
                let parts = pod.entry(label("container")).or_default();
                match name {
                    "container_cpu_usage_seconds_total" => parts.cpu = told,
                    "container_memory_working_set_bytes" => parts.memory = told,
                    _ => parts.started = value,
                }
            }
            _ => {}
        }
    }
    let whole = |(pod, containers): (PodName, BTreeMap<String, Parts>)| {
        let containers = containers.into_iter().map(|(name, parts)| Some((name, parts.whole()?)));
        Some((pod, containers.collect::<Option<_>>()?))
    };
    Scrape { node: node.whole(), pods: pods.into_iter().filter_map(whole).collect() }
}

/// `name{labels} value milliseconds`: name, labels, value, nanoseconds (0: not told).
fn sample(line: &str) -> Option<(&str, &str, f64, i64)> {
    // Values of labels may hold anything; behind the last brace there are numbers only.
    let (name, labels, numbers) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, numbers) = rest.rsplit_once('}')?;
            (name, labels, numbers)
        }
        None => {
            let (name, numbers) = line.split_once(' ')?;
            (name, "", numbers)
        }
    };
    let mut numbers = numbers.split_ascii_whitespace();
    let value = numbers.next()?.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)?;
    let millis: i64 = numbers.next().map_or(Some(0), |millis| millis.parse().ok())?;
    Some((name.trim(), labels, value, millis.checked_mul(1_000_000)?))
}

/// The value of a label; none of those that are read holds what must be escaped.
fn label(labels: &str, name: &str) -> Option<String> {
    let mut rest = labels;
    loop {
        let (found, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        if found.trim_start_matches([',', ' ']) == name {
            return Some(value.to_owned());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_node_is_read() {
        let text = "# HELP node_cpu_usage_seconds_total [STABLE] Cumulative\n\
            node_cpu_usage_seconds_total 1.5e+03 1700000000123\n\
            node_memory_working_set_bytes 2.048e+06 1700000000123\n\
            container_cpu_usage_seconds_total{container=\"c\",namespace=\"n\",pod=\"p\"} 2.5 1700000000000\n\
            container_memory_working_set_bytes{container=\"c\",namespace=\"n\",pod=\"p\"} 4096 1700000000000\n\
            container_start_time_seconds{container=\"c\",namespace=\"n\",pod=\"p\"} 1699999999.5\n\
            container_cpu_usage_seconds_total{container=\"half\",namespace=\"n\",pod=\"q\"} 2.5 1700000000000\n\
            pod_cpu_usage_seconds_total{namespace=\"n\",pod=\"p\"} 2.5 1700000000000\n\
            container_cpu_usage_seconds_total{container=\"x\",namespace=\"n\",pod=\"r\"} NaN\n\
            }{\n\
            resource_scrape_error 0\n";
        let scrape = parse(text);
        let node = scrape.node.unwrap();
        assert_eq!(
            (node.cpu_nanos, node.memory_bytes, node.at),
            (1_500_000_000_000, 2_048_000, 1_700_000_000_123_000_000)
        );
        assert_eq!(scrape.pods.len(), 1, "{:?}", scrape.pods);
        let point = scrape.pods[&("n".to_owned(), "p".to_owned())]["c"];
        assert_eq!(
            (point.cpu_nanos, point.memory_bytes, point.started),
            (2_500_000_000, 4096, 1_699_999_999.5)
        );
    }
}
