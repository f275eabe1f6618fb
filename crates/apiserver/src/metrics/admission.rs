//! Durations of admission: each plugin, and each of the two phases.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use admission::{Observer, Operation, Phase};

use metrics::{Histogram, header};

use super::bounds::ADMISSION;

const PHASES: [&str; 2] = ["admit", "validate"];
const OPERATIONS: [Operation; 4] =
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
const SERIES: usize = PHASES.len() * OPERATIONS.len() * 2;

/// By phase, operation and whether it was refused.
type Series = [OnceLock<Box<Histogram<6>>>; SERIES];

fn series() -> Series {
    std::array::from_fn(|_| OnceLock::new())
}

/// Shared by the admission chain, which fills it, and the scrape.
#[derive(Clone)]
pub struct AdmissionMetrics {
    inner: Arc<Inner>,
}

struct Inner {
    steps: Series,
    plugins: Vec<(&'static str, OnceLock<Box<Series>>)>,
}

impl AdmissionMetrics {
    /// `names`: the plugins, in the order the chain has them.
    pub fn new(names: Vec<&'static str>) -> AdmissionMetrics {
        let plugins = names.into_iter().map(|name| (name, OnceLock::new())).collect();
        AdmissionMetrics { inner: Arc::new(Inner { steps: series(), plugins }) }
    }

    pub fn write(&self, out: &mut String) {
        let name = "apiserver_admission_controller_admission_duration_seconds";
        let help = "Latency of each admission plugin in seconds, by operation and type (admit or validate).";
        header(out, name, "histogram", help);
        for (plugin, series) in &self.inner.plugins {
            let Some(series) = series.get() else { continue };
            for (labels, histogram) in observed(series) {
                histogram.write(out, name, &format!("name=\"{plugin}\",{labels}"), &ADMISSION, 0);
            }
        }
        let name = "apiserver_admission_step_admission_duration_seconds";
        let help = "Latency of all admission plugins in seconds, by operation and type (admit or validate).";
        header(out, name, "histogram", help);
        for (labels, histogram) in observed(&self.inner.steps) {
            histogram.write(out, name, &labels, &ADMISSION, 0);
        }
        let name = "apiserver_admission_step_admission_duration_seconds_summary";
        header(out, name, "summary", help);
        for (labels, histogram) in observed(&self.inner.steps) {
            histogram.write_summary(out, name, &labels, &ADMISSION);
        }
    }
}

/// Those that have something to show, each with its labels.
fn observed(series: &Series) -> impl Iterator<Item = (String, &Histogram<6>)> {
    series.iter().enumerate().filter_map(|(at, histogram)| {
        let histogram = histogram.get()?;
        let (rejected, operation) = (at % 2 == 1, OPERATIONS[at / 2 % OPERATIONS.len()].name());
        let phase = PHASES[at / 2 / OPERATIONS.len()];
        let labels = format!("operation=\"{operation}\",rejected=\"{rejected}\",type=\"{phase}\"");
        Some((labels, &**histogram))
    })
}

fn observe(series: &Series, phase: Phase, operation: Operation, took: Duration, refused: bool) {
    let at = (phase as usize * OPERATIONS.len() + operation as usize) * 2 + usize::from(refused);
    series[at].get_or_init(Box::default).took(&ADMISSION, took);
}

impl Observer for AdmissionMetrics {
    fn plugin(&self, at: usize, phase: Phase, operation: Operation, took: Duration, refused: bool) {
        // Rules that cannot be disabled follow the plugins; they are no plugins upstream.
        if let Some((_, series)) = self.inner.plugins.get(at) {
            let series = series.get_or_init(|| Box::new(self::series()));
            observe(series, phase, operation, took, refused);
        }
    }

    fn step(&self, phase: Phase, operation: Operation, took: Duration, refused: bool) {
        observe(&self.inner.steps, phase, operation, took, refused);
    }
}
