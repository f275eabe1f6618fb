//! The limits of a group, in the files of either version.

use std::io;

use super::{Cgroup, Version};
use crate::config::Resources;

impl Cgroup {
    /// What is not limited by `resources` stays as it is.
    pub fn set(&self, resources: &Resources) -> io::Result<()> {
        match self.version {
            Version::V1 => self.set_v1(resources),
            Version::V2 => self.set_v2(resources),
        }
    }

    fn set_v1(&self, resources: &Resources) -> io::Result<()> {
        if let Some(shares) = resources.cpu_shares {
            self.write("cpu", "cpu.shares", shares)?;
        }
        if let Some(quota) = resources.cpu_quota {
            self.write("cpu", "cpu.cfs_period_us", resources.cpu_period.unwrap_or(100_000))?;
            self.write("cpu", "cpu.cfs_quota_us", quota)?;
        }
        if let Some(memory) = resources.memory {
            self.set_memory_v1(memory, resources.memory_and_swap.unwrap_or(memory))?;
        }
        if let Some(pids) = resources.pids {
            self.write("pids", "pids.max", limit(pids))?;
        }
        for (size, bytes) in &resources.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.limit_in_bytes"), bytes)?;
        }
        Ok(())
    }

    /// The kernel keeps memory below memory and swap, so the order depends on which way they go.
    fn set_memory_v1(&self, memory: i64, with_swap: i64) -> io::Result<()> {
        const MEMORY: &str = "memory.limit_in_bytes";
        const WITH_SWAP: &str = "memory.memsw.limit_in_bytes";
        // A kernel that does not count swap limits none.
        let Some(now) = self.read("memory", WITH_SWAP).and_then(|text| text.trim().parse::<i64>().ok())
        else {
            return self.write("memory", MEMORY, memory);
        };
        let grows = with_swap <= 0 || with_swap > now;
        let mut steps = [(MEMORY, memory), (WITH_SWAP, with_swap)];
        if grows {
            steps.reverse();
        }
        steps.into_iter().try_for_each(|(file, value)| self.write("memory", file, value))
    }

    fn set_v2(&self, resources: &Resources) -> io::Result<()> {
        if let Some(weight) = resources.cpu_weight.or(resources.cpu_shares.map(weight_of_shares)) {
            self.write("cpu", "cpu.weight", weight)?;
        }
        if let Some(quota) = resources.cpu_quota {
            self.write(
                "cpu",
                "cpu.max",
                format!("{} {}", limit(quota), resources.cpu_period.unwrap_or(100_000)),
            )?;
        }
        if let Some(memory) = resources.memory {
            let swap = match resources.memory_and_swap {
                Some(both) if both <= 0 => "max".to_owned(),
                Some(both) => both.saturating_sub(memory).max(0).to_string(),
                None => "0".to_owned(),
            };
            self.write_if_there("memory.swap.max", swap)?;
            self.write("memory", "memory.max", limit(memory))?;
        }
        if let Some(pids) = resources.pids {
            self.write("pids", "pids.max", limit(pids))?;
        }
        for (size, bytes) in &resources.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.max"), bytes)?;
            // What is reserved is refused at mmap; without it, a page too many is SIGBUS.
            self.write_if_there(&format!("hugetlb.{size}.rsvd.max"), bytes)?;
        }
        for (file, value) in &resources.unified {
            if file.contains('/') || !file.contains('.') {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("{file:?} is no file of a cgroup"),
                ));
            }
            self.write("", file, value)?;
        }
        Ok(())
    }

    /// Memory that runs out ends all processes of the group instead of one: a container with half of its processes serves nobody.
    /// Only version 2 can do that.
    pub fn end_together(&self) -> io::Result<()> {
        if self.version == Version::V2 { self.write_if_there("memory.oom.group", 1) } else { Ok(()) }
    }

    /// Of version 2: older kernels have not all files.
    fn write_if_there(&self, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
        let is_there = self.directory("memory").is_some_and(|directory| directory.join(file).exists());
        if is_there { self.write("memory", file, value) } else { Ok(()) }
    }
}

fn limit(value: i64) -> String {
    if value <= 0 { "max".to_owned() } else { value.to_string() }
}

/// Version 1 counts 2 to 262144, version 2 from 1 to 10000. As runc has it: a curve through both ends and the defaults, 1024 and 100.
pub(super) fn weight_of_shares(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        _ => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}
