//! The Prometheus text format, and histograms of atomics. The metrics themselves are defined by their owners.

pub mod histogram;
mod process;

use std::fmt::Write as _;

pub use histogram::{Bounds, Histogram};
pub use process::process;

/// HELP and TYPE lines of a metric.
pub fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A metric with one series without labels.
pub fn single(out: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    header(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}
