//! Prometheus' text form, and histograms of atomics. What is counted is its owner's business.

pub mod histogram;

use std::fmt::Write as _;

pub use histogram::{Bounds, Histogram};

/// The two lines above a family.
pub fn header(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A family of one series without labels.
pub fn single(out: &mut String, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
    header(out, name, kind, help);
    let _ = writeln!(out, "{name} {value}");
}
