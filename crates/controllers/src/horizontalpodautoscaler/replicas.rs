//! How many replicas a metric asks for.
//!
//! ```text
//! pods ─ ignored (going, failed) ─ unready (pending; of CPU: not ready yet) ─ missing (no metric) ─ ready
//! ratio = usage / target, of those with metrics; then once more, with 0 (up) or the target (down) for those without
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::pods::Pod;

/// What one pod uses, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodMetric {
    pub at_millis: i64,
    pub window_millis: i64,
    pub value: i64,
}

pub type PodMetrics = BTreeMap<String, PodMetric>;

/// How far usage may be from its target before anything is done: 0.1 is ten percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    pub fn contains(&self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// How long pods may take to become what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Startup {
    /// CPU of a pod that started less than this ago counts only if it is ready.
    pub cpu_initialization_millis: i64,
    /// Unready within this time after its start: it was never ready.
    pub initial_readiness_millis: i64,
}

/// What a computation is about.
pub struct Scene<'a> {
    pub pods: &'a [Pod],
    pub current: i32,
    pub tolerances: Tolerances,
    pub startup: Startup,
    pub now_millis: i64,
}

/// A number of replicas, and what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub replicas: i32,
    /// In percent of what is requested.
    pub utilization: i32,
    /// The average of a pod, or the value of the metric; in thousandths.
    pub value: i64,
}

impl Scene<'_> {
    /// By the percentage of what pods request.
    pub fn utilization(
        &self,
        resource: &str,
        container: Option<&str>,
        mut metrics: PodMetrics,
        target_percent: i32,
    ) -> Result<Proposal, String> {
        let groups = self.group(&mut metrics, resource)?;
        let requests = self.requests(resource, container)?;
        let measure = |metrics: &PodMetrics| utilization_ratio(metrics, &requests, target_percent);
        let (ratio, utilization, value) = measure(&metrics)?;
        let fallback = i64::from(target_percent.max(100));
        let fill = |pod: &str| {
            let request = requests.get(pod).copied().unwrap_or(0);
            (i128::from(request) * i128::from(fallback) / 100) as i64
        };
        let again = |metrics: &PodMetrics| measure(metrics).map(|(ratio, ..)| ratio);
        let replicas = self.settle(metrics, &groups, ratio, &fill, &again)?;
        Ok(Proposal { replicas, utilization, value })
    }

    /// By an amount for each pod.
    pub fn average(&self, resource: &str, mut metrics: PodMetrics, target: i64) -> Result<Proposal, String> {
        let groups = self.group(&mut metrics, resource)?;
        let (ratio, value) = usage_ratio(&metrics, target);
        let again = |metrics: &PodMetrics| Ok(usage_ratio(metrics, target).0);
        let replicas = self.settle(metrics, &groups, ratio, &|_| target, &again)?;
        Ok(Proposal { replicas, utilization: 0, value })
    }

    /// By one value for all pods together.
    pub fn total(&self, value: i64, target: i64) -> Result<Proposal, String> {
        let ratio = value as f64 / target as f64;
        let replicas = if self.current == 0 {
            ceil(ratio)
        } else if self.tolerances.contains(ratio) {
            self.current
        } else {
            if self.pods.is_empty() {
                return Err(format!("unable to calculate ready pods: {NO_PODS}"));
            }
            let ready = self.pods.iter().filter(|pod| pod.runs && pod.is_ready()).count();
            ceil(ratio * ready as f64)
        };
        Ok(Proposal { replicas, utilization: 0, value })
    }

    /// By one value, divided by the pods there are.
    pub fn per_pod(&self, value: i64, target: i64, pods: i32) -> Proposal {
        let ratio = value as f64 / (target as f64 * f64::from(pods));
        let replicas =
            if self.tolerances.contains(ratio) { pods } else { ceil(value as f64 / target as f64) };
        let each = (value as f64 / f64::from(pods)).ceil();
        // Without pods there is no average.
        Proposal { replicas, utilization: 0, value: if each.is_nan() { 0 } else { each as i64 } }
    }

    /// Takes the metrics of pods that do not count out of `metrics`.
    fn group(&self, metrics: &mut PodMetrics, resource: &str) -> Result<Groups, String> {
        if self.pods.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let mut groups = Groups::default();
        for pod in self.pods {
            if pod.ignored {
                metrics.remove(&pod.name);
                continue;
            }
            let metric = metrics.get(&pod.name);
            let unready = match metric {
                _ if pod.pending => true,
                None => {
                    groups.missing.insert(pod.name.clone());
                    continue;
                }
                Some(metric) => resource == "cpu" && self.is_unready(pod, metric),
            };
            if unready {
                metrics.remove(&pod.name);
                groups.unready.insert(pod.name.clone());
            } else {
                groups.ready += 1;
            }
        }
        if metrics.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        Ok(groups)
    }

    /// Its CPU says nothing yet.
    fn is_unready(&self, pod: &Pod, metric: &PodMetric) -> bool {
        let (Some(ready), Some(started)) = (pod.ready, pod.started_millis) else { return true };
        if started + self.startup.cpu_initialization_millis > self.now_millis {
            // A whole window since it became ready must have been measured.
            ready.is_false || metric.at_millis < ready.changed_millis + metric.window_millis
        } else {
            ready.is_false && started + self.startup.initial_readiness_millis > ready.changed_millis
        }
    }

    /// The replicas for a ratio; pods without metrics never make the change larger, or turn it around.
    fn settle(
        &self,
        mut metrics: PodMetrics,
        groups: &Groups,
        ratio: f64,
        fill: &dyn Fn(&str) -> i64,
        measure: &dyn Fn(&PodMetrics) -> Result<f64, String>,
    ) -> Result<i32, String> {
        let up_with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !up_with_unready && groups.missing.is_empty() {
            let stays = self.tolerances.contains(ratio);
            return Ok(if stays { self.current } else { ceil(ratio * groups.ready as f64) });
        }
        let assumed = |value| PodMetric { value, ..PodMetric::default() };
        for pod in &groups.missing {
            if ratio < 1.0 {
                metrics.insert(pod.clone(), assumed(fill(pod)));
            } else if ratio > 1.0 {
                metrics.insert(pod.clone(), assumed(0));
            }
        }
        if up_with_unready {
            metrics.extend(groups.unready.iter().map(|pod| (pod.clone(), assumed(0))));
        }
        let new = measure(&metrics)?;
        let turned = ratio < 1.0 && new > 1.0 || ratio > 1.0 && new < 1.0;
        if self.tolerances.contains(new) || turned {
            return Ok(self.current);
        }
        let replicas = ceil(new * metrics.len() as f64);
        let turned = new < 1.0 && replicas > self.current || new > 1.0 && replicas < self.current;
        Ok(if turned { self.current } else { replicas })
    }

    fn requests(&self, resource: &str, container: Option<&str>) -> Result<BTreeMap<String, i64>, String> {
        self.pods.iter().map(|pod| Ok((pod.name.clone(), pod.request(resource, container)?))).collect()
    }
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

#[derive(Default)]
struct Groups {
    ready: usize,
    unready: BTreeSet<String>,
    missing: BTreeSet<String>,
}

/// The ratio of usage to its target, the percentage used, and the average in thousandths.
fn utilization_ratio(
    metrics: &PodMetrics,
    requests: &BTreeMap<String, i64>,
    target_percent: i32,
) -> Result<(f64, i32, i64), String> {
    let (mut used, mut requested, mut count) = (0i128, 0i128, 0i128);
    for (pod, metric) in metrics {
        // Metrics of pods that are not ours.
        let Some(request) = requests.get(pod) else { continue };
        used += i128::from(metric.value);
        requested += i128::from(*request);
        count += 1;
    }
    if requested == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    let percent = narrow(used * 100 / requested);
    let percent = super::spec::clamp(percent);
    Ok((f64::from(percent) / f64::from(target_percent), percent, narrow(used / count.max(1))))
}

fn usage_ratio(metrics: &PodMetrics, target: i64) -> (f64, i64) {
    let used: i128 = metrics.values().map(|metric| i128::from(metric.value)).sum();
    let average = narrow(used / (metrics.len() as i128).max(1));
    (average as f64 / target as f64, average)
}

fn narrow(wide: i128) -> i64 {
    wide.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// The next whole number of replicas.
// Differs from kube-controller-manager: what is too large stays the largest there is; there most of it becomes negative, and the
// target shrinks.
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
