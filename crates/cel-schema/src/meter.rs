//! How long rules take to compile and to run, in kube-apiserver's metrics.

use std::fmt;

use env::Env;
use metrics::{Bounds, Histogram, header};

/// Prometheus' own.
const DURATIONS: Bounds<11> = Bounds {
    values: [
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        5_000_000_000,
        10_000_000_000,
    ],
    labels: ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10"],
    per_unit: 1_000_000_000,
};

/// Measures where there are rules; where there are none it costs nothing.
pub struct Meter {
    env: Env,
    /// Of all rules of a node.
    compilations: Histogram<11>,
    /// Of all rules of an object. Differs from kube-apiserver, which counts those of each node with all below it once more.
    evaluations: Histogram<11>,
}

impl Meter {
    pub fn new(env: &Env) -> Meter {
        Meter { env: env.clone(), compilations: Histogram::default(), evaluations: Histogram::default() }
    }

    pub(crate) fn compilation<T>(meter: Option<&Meter>, work: impl FnOnce() -> T) -> T {
        Meter::measure(meter, |meter| &meter.compilations, work)
    }

    pub(crate) fn evaluation<T>(meter: Option<&Meter>, work: impl FnOnce() -> T) -> T {
        Meter::measure(meter, |meter| &meter.evaluations, work)
    }

    fn measure<T>(
        meter: Option<&Meter>,
        histogram: fn(&Meter) -> &Histogram<11>,
        work: impl FnOnce() -> T,
    ) -> T {
        let Some(meter) = meter else { return work() };
        let begun = meter.env.monotonic();
        let done = work();
        histogram(meter).took(&DURATIONS, meter.env.monotonic() - begun);
        done
    }

    pub fn write(&self, out: &mut String) {
        let families = [
            (
                "apiserver_cel_compilation_duration_seconds",
                "CEL compilation time in seconds.",
                &self.compilations,
            ),
            (
                "apiserver_cel_evaluation_duration_seconds",
                "CEL evaluation time in seconds.",
                &self.evaluations,
            ),
        ];
        for (name, help, histogram) in families {
            header(out, name, "histogram", help);
            histogram.write(out, name, "", &DURATIONS, 0);
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").finish_non_exhaustive()
    }
}
