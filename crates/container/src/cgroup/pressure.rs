//! How long processes waited for what others had: pressure stall information. Only of version 2, and of kernels that count it.

use super::{Cgroup, Version};

/// Of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one process waited.
    pub some: Stall,
    /// All did.
    pub full: Stall,
}

/// Averages are in percent, over so many seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    pub avg10: f64,
    pub avg60: f64,
    pub avg300: f64,
    pub total_micros: u64,
}

impl Cgroup {
    /// `resource`: `cpu`, `memory` or `io`.
    pub fn pressure(&self, resource: &str) -> Option<Pressure> {
        if self.version == Version::V1 {
            return None;
        }
        let text = self.read(resource, &format!("{resource}.pressure"))?;
        let line = |name: &str| text.lines().find_map(|line| stall(line.strip_prefix(name)?));
        // Older kernels do not say of processors when all waited.
        Some(Pressure { some: line("some ")?, full: line("full ").unwrap_or_default() })
    }

    /// Bytes that are swapped out, and how many may be if that is limited.
    pub fn swap(&self) -> Option<(u64, Option<u64>)> {
        if self.version == Version::V1 {
            return None;
        }
        let number = |file: &str| self.read("memory", file)?.trim().parse().ok();
        Some((number("memory.swap.current")?, number("memory.swap.max")))
    }
}

fn stall(text: &str) -> Option<Stall> {
    let field = |name: &str| text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    Some(Stall {
        avg10: field("avg10")?.parse().ok()?,
        avg60: field("avg60")?.parse().ok()?,
        avg300: field("avg300")?.parse().ok()?,
        total_micros: field("total")?.trim().parse().ok()?,
    })
}
