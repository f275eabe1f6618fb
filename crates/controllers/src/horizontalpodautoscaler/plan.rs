//! How many replicas a target gets, and what is said about it.
//!
//! ```text
//! scale ─ 0? disabled ─ out of bounds? back into them ─ else: the most any metric asks for ─ stabilised ─ limited
//! ```

use super::behavior::{Bounds, History, limit};
use super::pods::Pod;
use super::replicas::{PodMetrics, Proposal, Scene, Startup, Tolerances};
use super::spec::{Metric, Source, Spec};
use super::status::{Status, measured, unmeasured};

/// What was fetched for a metric; in thousandths.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    Pods(PodMetrics),
    Object(i64),
    External(Vec<i64>),
}

/// Parameters of all autoscalers: `--horizontal-pod-autoscaler-*`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    pub tolerance: f64,
    pub downscale_window_millis: i64,
    pub startup: Startup,
}

/// What the scale subresource of the target says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    pub spec: i32,
    pub status: i32,
}

/// The state a decision is made of. Of the clocks the second never jumps, and counts from anywhere.
pub struct World<'a> {
    pub spec: &'a Spec,
    pub scale: Scale,
    pub pods: &'a [Pod],
    pub parameters: &'a Parameters,
    pub now_millis: i64,
    pub ticks_millis: i64,
}

/// An event for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

impl Note {
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Note {
        Note { is_warning: true, reason, message: message.into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Somebody scaled the target to zero: it is left alone.
    Disabled,
    /// Outside of its bounds.
    Bound { to: i32, reason: &'static str },
    /// Metrics are needed.
    Measure,
}

pub fn stage(spec: &Spec, current: i32) -> Stage {
    if current == 0 {
        Stage::Disabled
    } else if current > spec.max {
        Stage::Bound { to: spec.max, reason: "Current number of replicas above Spec.MaxReplicas" }
    } else if current < spec.min {
        Stage::Bound { to: spec.min, reason: "Current number of replicas below Spec.MinReplicas" }
    } else {
        Stage::Measure
    }
}

/// What the metrics say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// `None`: nothing can be said, and nothing is done.
    pub desired: Option<i32>,
    /// Why, if it is another number.
    pub reason: String,
    pub measured: Vec<object::Value>,
    /// What went wrong with some metrics, or all.
    pub error: Option<String>,
    pub notes: Vec<Note>,
}

impl World<'_> {
    fn scene(&self) -> Scene<'_> {
        let behavior = self.spec.behavior.as_ref();
        let or_default = |own: Option<f64>| own.unwrap_or(self.parameters.tolerance);
        let tolerances = Tolerances {
            down: or_default(behavior.and_then(|b| b.down.tolerance)),
            up: or_default(behavior.and_then(|b| b.up.tolerance)),
        };
        Scene {
            pods: self.pods,
            current: self.scale.spec,
            tolerances,
            startup: self.parameters.startup,
            now_millis: self.now_millis,
        }
    }

    /// The decision by what was fetched for each metric, in the order of the spec; conditions go into `status`.
    pub fn decide(
        &self,
        samples: Vec<Result<Samples, String>>,
        history: &mut History,
        status: &mut Status,
    ) -> Decision {
        let now = self.now_millis / 1000;
        let (current, metrics) = (self.scale.spec, &self.spec.metrics);
        let mut decision = Decision::default();
        let (mut most, mut name) = (0, String::new());
        let mut refused: Vec<Refused> = Vec::new();
        for (metric, samples) in metrics.iter().zip(samples) {
            match self.propose(metric, samples) {
                Ok(proposal) => {
                    let measured = measured(metric, &proposal);
                    decision.measured.push(measured.status);
                    if most == 0 || proposal.replicas > most {
                        (most, name) = (proposal.replicas, measured.name);
                    }
                }
                Err(why) => {
                    decision.measured.push(unmeasured());
                    decision.notes.push(Note::warning(why.reason, why.message.clone()));
                    refused.push(why);
                }
            }
        }
        if let Some(first) = refused.first() {
            decision.error = Some(format!(
                "invalid metrics ({} invalid out of {}), first error is: {}",
                refused.len(),
                metrics.len(),
                first.error
            ));
        }
        // With a metric missing the target may grow, never shrink.
        if refused.len() >= metrics.len() || !refused.is_empty() && most < current {
            let (reason, why) = refused.first().map_or(("", ""), |first| (first.reason, &first.message));
            let message = match reason {
                "" => String::new(),
                _ => format!("the HPA was unable to compute the replica count: {why}"),
            };
            status.set("ScalingActive", false, reason, message, now);
            return decision;
        }
        let message = format!("the HPA was able to successfully calculate a replica count from {name}");
        status.set("ScalingActive", true, "ValidMetricFound", message, now);
        let wanted = most.max(0);
        decision.reason = match wanted {
            wanted if wanted > current => format!("{name} above target"),
            wanted if wanted < current => "All metrics below target".to_owned(),
            _ => String::new(),
        };
        decision.desired = Some(self.normalize(wanted, history, status));
        decision
    }

    /// A wish, stabilised and limited.
    fn normalize(&self, wanted: i32, history: &mut History, status: &mut Status) -> i32 {
        let (now, ticks) = (self.now_millis / 1000, self.ticks_millis);
        let window = self.parameters.downscale_window_millis;
        let bounds = Bounds { current: self.scale.spec, min: self.spec.min, max: self.spec.max };
        let (stable, limited) = match &self.spec.behavior {
            None => {
                let stable = history.stabilize(wanted, window, ticks);
                if stable != wanted {
                    let message = "recent recommendations were higher than current one, applying the highest recent recommendation";
                    status.set("AbleToScale", true, "ScaleDownStabilized", message, now);
                }
                (stable, limit(stable, bounds))
            }
            Some(behavior) => {
                let stable = history.stabilize_by(wanted, bounds.current, behavior, window, ticks);
                if stable.replicas != wanted {
                    status.set("AbleToScale", true, stable.reason, stable.message, now);
                }
                (stable.replicas, history.limit_by(stable.replicas, bounds, behavior, ticks))
            }
        };
        if stable == wanted {
            let message = "recommended size matches current size";
            status.set("AbleToScale", true, "ReadyForNewScale", message, now);
        }
        status.set("ScalingLimited", limited.replicas != stable, limited.reason, limited.message, now);
        limited.replicas
    }

    fn propose(&self, metric: &Metric, samples: Result<Samples, String>) -> Result<Proposal, Refused> {
        let scene = self.scene();
        let target = &metric.target;
        match &metric.source {
            Source::Resource { name, container } => {
                let container = container.as_deref();
                let result = match (target.average_value, target.average_utilization) {
                    (Some(average), _) => pods(samples)
                        .and_then(|metrics| scene.average(name, metrics, average))
                        .map_err(|why| format!("failed to get {name} usage: {why}")),
                    (None, Some(percent)) => pods(samples)
                        .and_then(|metrics| scene.utilization(name, container, metrics, percent))
                        .map_err(|why| format!("failed to get {name} utilization: {why}")),
                    (None, None) => Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned()),
                };
                result.map_err(|why| match container {
                    None => Refused::new(
                        "FailedGetResourceMetric",
                        &why,
                        format!("failed to get {name} resource metric value: {why}"),
                    ),
                    Some(container) => Refused::new(
                        "FailedGetContainerResourceMetric",
                        &why,
                        format!("failed to get {container} container metric value: {why}"),
                    ),
                })
            }
            Source::Pods(_) => {
                let average = target.average_value.unwrap_or(0);
                let result = pods(samples).and_then(|metrics| scene.average("", metrics, average));
                result.map_err(|why| {
                    Refused::new(
                        "FailedGetPodsMetric",
                        &why,
                        format!("failed to get pods metric value: {why}"),
                    )
                })
            }
            Source::Object { metric: id, .. } => {
                let refuse = |why: &str, within: String| {
                    Refused::new(
                        "FailedGetObjectMetric",
                        why,
                        format!("failed to get object metric value: {within}"),
                    )
                };
                match (target.kind.as_str(), target.value, target.average_value) {
                    ("Value", Some(target), _) => object(samples)
                        .and_then(|value| scene.total(value, target))
                        .map_err(|why| refuse(&why, why.clone())),
                    ("AverageValue", _, Some(target)) => {
                        object(samples).map(|value| scene.per_pod(value, target, self.scale.status)).map_err(
                            |why| refuse(&why, format!("failed to get {} object metric: {why}", id.name)),
                        )
                    }
                    _ => {
                        let why = "invalid object metric source: neither a value target nor an average value target was set";
                        Err(refuse(why, why.to_owned()))
                    }
                }
            }
            Source::External(id) => {
                let name = &id.name;
                let refuse = |why: &str, within: String| {
                    Refused::new(
                        "FailedGetExternalMetric",
                        why,
                        format!("failed to get {name} external metric value: {within}"),
                    )
                };
                match (target.average_value, target.value) {
                    (Some(target), _) => external(samples)
                        .map(|value| scene.per_pod(value, target, self.scale.status))
                        .map_err(|why| refuse(&why, format!("failed to get {name} external metric: {why}"))),
                    (None, Some(target)) => external(samples)
                        .and_then(|value| scene.total(value, target))
                        .map_err(|why| refuse(&why, format!("failed to get external metric {name}: {why}"))),
                    (None, None) => {
                        let why = "invalid external metric source: neither a value target nor an average value target was set";
                        Err(refuse(why, why.to_owned()))
                    }
                }
            }
            Source::Unknown(kind) => {
                let why = format!("unknown metric source type {kind:?}");
                Err(Refused::new("InvalidMetricSourceType", &why, why.clone()))
            }
        }
    }
}

/// A metric that says nothing.
struct Refused {
    reason: &'static str,
    message: String,
    /// The same, as it is told of all metrics together.
    error: String,
}

impl Refused {
    fn new(reason: &'static str, message: &str, error: String) -> Refused {
        Refused { reason, message: message.to_owned(), error }
    }
}

const MIXED: &str = "the samples are of another metric";

fn pods(samples: Result<Samples, String>) -> Result<PodMetrics, String> {
    match samples? {
        Samples::Pods(metrics) => Ok(metrics),
        _ => Err(MIXED.to_owned()),
    }
}

fn object(samples: Result<Samples, String>) -> Result<i64, String> {
    match samples? {
        Samples::Object(value) => Ok(value),
        _ => Err(MIXED.to_owned()),
    }
}

fn external(samples: Result<Samples, String>) -> Result<i64, String> {
    match samples? {
        Samples::External(values) => Ok(values.into_iter().fold(0, i64::saturating_add)),
        _ => Err(MIXED.to_owned()),
    }
}
