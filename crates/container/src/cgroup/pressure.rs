//! How long processes waited for what others had: the kernel's pressure stall information.

use super::{Cgroup, Version};

/// Of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one process waited.
    pub some: Stall,
    /// All of them did.
    pub full: Stall,
}

/// Averages are percents of the last 10, 60 and 300 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    pub total_micros: u64,
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
}

impl Pressure {
    /// `None`: the kernel does not count it.
    pub fn parse(text: &str) -> Option<Pressure> {
        let line = |kind: &str| text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
        // Kernels before 5.13 have no second line for processors.
        Some(Pressure {
            some: Stall::parse(line("some")?)?,
            full: line("full").and_then(Stall::parse).unwrap_or_default(),
        })
    }
}

impl Stall {
    fn parse(line: &str) -> Option<Stall> {
        let value = |name: &str| {
            line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        Some(Stall {
            total_micros: value("total")?.parse().ok()?,
            avg10: value("avg10")?.parse().ok()?,
            avg60: value("avg60")?.parse().ok()?,
            avg300: value("avg300")?.parse().ok()?,
        })
    }
}

impl Cgroup {
    /// Of `cpu`, `memory` or `io`; version 1 has none.
    pub fn pressure(&self, resource: &str) -> Option<Pressure> {
        if self.version == Version::V1 {
            return None;
        }
        Pressure::parse(&self.read("", &format!("{resource}.pressure"))?)
    }
}
