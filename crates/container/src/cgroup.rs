//! Limits and accounts of processes: cgroups, version 2 and, where a machine still has it, version 1.
//!
//! Both are trees of directories with small files. Version 2 is one tree; version 1 is one for each controller, and a group is a
//! directory in each of them.

pub mod devices;

use std::io;
use std::path::{Path, PathBuf};

use crate::config::Resources;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

impl Version {
    pub fn of_host() -> Version {
        Version::at(Path::new(ROOT))
    }
    /// The unified tree has this file at its root.
    pub fn at(root: &Path) -> Version {
        if root.join("cgroup.controllers").exists() { Version::V2 } else { Version::V1 }
    }
}

pub const ROOT: &str = "/sys/fs/cgroup";

/// The controllers that are limited or counted; of version 1 each has a tree of its own.
const CONTROLLERS: [&str; 8] =
    ["cpu", "cpuacct", "memory", "pids", "freezer", "hugetlb", "cpuset", "devices"];
/// So many rounds are tried to end all processes of a group that goes on forking.
const KILL_ROUNDS: usize = 100;

/// A group of processes.
#[derive(Clone, Debug)]
pub struct Cgroup {
    version: Version,
    /// One directory, or one for each controller.
    directories: Vec<(&'static str, PathBuf)>,
}

/// What a group has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_nanos: u64,
    pub memory: u64,
    /// Without what can be given up at once.
    pub working_set: u64,
    pub processes: u64,
}

impl Cgroup {
    /// Below the host's root.
    pub fn at_host(path: &Path) -> Cgroup {
        Cgroup::at(Path::new(ROOT), path)
    }

    /// `root` holds the tree, or the trees; `path` may begin with a slash, which means the root.
    pub fn at(root: &Path, path: &Path) -> Cgroup {
        let path = path.strip_prefix("/").unwrap_or(path);
        let version = Version::at(root);
        let directories = match version {
            Version::V2 => vec![("", root.join(path))],
            Version::V1 => {
                let there = CONTROLLERS.into_iter().filter(|name| root.join(name).is_dir());
                there.map(|name| (name, root.join(name).join(path))).collect()
            }
        };
        Cgroup { version, directories }
    }

    /// Makes the group and all above it.
    pub fn create(&self) -> io::Result<()> {
        for (controller, directory) in &self.directories {
            std::fs::create_dir_all(directory)?;
            if *controller == "cpuset" {
                inherit_cpuset(directory)?;
            }
            if self.version == Version::V2 {
                delegate(directory)?;
            }
        }
        Ok(())
    }

    pub fn set(&self, resources: &Resources) -> io::Result<()> {
        match self.version {
            Version::V1 => self.set_v1(resources),
            Version::V2 => self.set_v2(resources),
        }
    }

    /// Lets its processes use these devices and no other; for a group that is new. It is an error if nothing can see to that.
    pub fn restrict_devices(&self, lines: &[String]) -> io::Result<()> {
        let directory = self.directory("devices").ok_or_else(|| {
            io::Error::new(io::ErrorKind::Unsupported, "this machine has no controller for devices")
        })?;
        let done = match self.version {
            Version::V1 => devices::restrict_v1(directory, lines),
            Version::V2 => devices::restrict_v2(directory, lines),
        };
        done.map_err(|error| io::Error::new(error.kind(), format!("failed to restrict devices: {error}")))
    }

    /// Puts a process in.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        for (_, directory) in &self.directories {
            std::fs::write(directory.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Who is in it, below not counted.
    pub fn processes(&self) -> Vec<i32> {
        let Some((_, directory)) = self.directories.first() else { return Vec::new() };
        let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Ends every process at once.
    pub fn kill(&self) {
        if let (Version::V2, Some((_, directory))) = (self.version, self.directories.first())
            && std::fs::write(directory.join("cgroup.kill"), "1").is_ok()
        {
            return;
        }
        // Frozen, nobody can fork away from the signal.
        let freezer = self.directory("freezer").map(|directory| directory.join("freezer.state"));
        for _ in 0..KILL_ROUNDS {
            if let Some(freezer) = &freezer {
                let _ = std::fs::write(freezer, "FROZEN");
            }
            let all = self.processes();
            for pid in &all {
                if let Some(pid) = rustix::process::Pid::from_raw(*pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            if let Some(freezer) = &freezer {
                let _ = std::fs::write(freezer, "THAWED");
            }
            if all.is_empty() {
                return;
            }
        }
    }

    /// How often the kernel ended a process of it for want of memory.
    pub fn oom_kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.read("memory", file).and_then(|text| field(&text, "oom_kill")).unwrap_or(0)
    }

    pub fn usage(&self) -> Usage {
        let number = |controller: &str, file: &str| -> u64 {
            self.read(controller, file).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let (cpu_nanos, memory, inactive) = match self.version {
            Version::V1 => {
                let stat = self.read("memory", "memory.stat").unwrap_or_default();
                let inactive = field(&stat, "total_inactive_file").unwrap_or(0);
                (number("cpuacct", "cpuacct.usage"), number("memory", "memory.usage_in_bytes"), inactive)
            }
            Version::V2 => {
                let stat = self.read("memory", "memory.stat").unwrap_or_default();
                let cpu =
                    self.read("cpu", "cpu.stat").and_then(|text| field(&text, "usage_usec")).unwrap_or(0);
                (cpu * 1000, number("memory", "memory.current"), field(&stat, "inactive_file").unwrap_or(0))
            }
        };
        let working_set = memory.saturating_sub(inactive);
        Usage { cpu_nanos, memory, working_set, processes: number("pids", "pids.current") }
    }

    /// Only when nothing is in it; what is not there is removed already.
    pub fn remove(&self) -> io::Result<()> {
        for (_, directory) in &self.directories {
            match std::fs::remove_dir(directory) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One without a name, or one for each controller.
    pub(crate) fn directories(&self) -> &[(&'static str, PathBuf)] {
        &self.directories
    }

    fn directory(&self, controller: &str) -> Option<&PathBuf> {
        let wanted = |name: &str| self.version == Version::V2 || name == controller;
        self.directories.iter().find(|(name, _)| wanted(name)).map(|(_, directory)| directory)
    }

    fn read(&self, controller: &str, file: &str) -> Option<String> {
        std::fs::read_to_string(self.directory(controller)?.join(file)).ok()
    }

    /// A controller that the machine has not cannot limit anything.
    fn write(&self, controller: &str, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
        let Some(directory) = self.directory(controller) else { return Ok(()) };
        let path = directory.join(file);
        std::fs::write(&path, value.to_string()).map_err(|error| {
            io::Error::new(error.kind(), format!("failed to write {value} to {}: {error}", path.display()))
        })
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
            self.write("memory", "memory.limit_in_bytes", memory)?;
        }
        if let Some(pids) = resources.pids {
            self.write("pids", "pids.max", if pids <= 0 { "max".to_owned() } else { pids.to_string() })?;
        }
        for (size, bytes) in &resources.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.limit_in_bytes"), bytes)?;
        }
        Ok(())
    }

    fn set_v2(&self, resources: &Resources) -> io::Result<()> {
        let limit = |value: i64| if value <= 0 { "max".to_owned() } else { value.to_string() };
        if let Some(shares) = resources.cpu_shares {
            self.write("cpu", "cpu.weight", weight_of_shares(shares))?;
        }
        if let Some(quota) = resources.cpu_quota {
            self.write(
                "cpu",
                "cpu.max",
                format!("{} {}", limit(quota), resources.cpu_period.unwrap_or(100_000)),
            )?;
        }
        if let Some(memory) = resources.memory {
            self.write("memory", "memory.max", limit(memory))?;
        }
        if let Some(pids) = resources.pids {
            self.write("pids", "pids.max", limit(pids))?;
        }
        for (size, bytes) in &resources.hugepages {
            self.write("hugetlb", &format!("hugetlb.{size}.max"), bytes)?;
        }
        Ok(())
    }
}

/// Version 1 counts 2 to 262144, version 2 from 1 to 10000.
fn weight_of_shares(shares: u64) -> u64 {
    let shares = shares.clamp(2, 262_144);
    1 + (shares - 2) * 9999 / 262_142
}

/// Of a file with a name and a number a line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// A new group of version 1 has no processors and takes no process before it does: it gets those of the one above.
fn inherit_cpuset(directory: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let path = directory.join(file);
        if !std::fs::read_to_string(&path)?.trim().is_empty() {
            continue;
        }
        let parent = directory.parent().filter(|parent| parent.join(file).exists());
        let Some(parent) = parent else { return Ok(()) };
        inherit_cpuset(parent)?;
        std::fs::write(&path, std::fs::read_to_string(parent.join(file))?.trim())?;
    }
    Ok(())
}

/// Of version 2: what is above hands its controllers down.
fn delegate(directory: &Path) -> io::Result<()> {
    let mut above: Vec<&Path> = directory.ancestors().skip(1).collect();
    above.retain(|at| at.join("cgroup.subtree_control").exists());
    for at in above.into_iter().rev() {
        let offered = std::fs::read_to_string(at.join("cgroup.controllers")).unwrap_or_default();
        let given = std::fs::read_to_string(at.join("cgroup.subtree_control")).unwrap_or_default();
        for name in offered.split_whitespace().filter(|name| !given.split_whitespace().any(|g| g == *name)) {
            // One that cannot be handed down is missing below, and nothing else.
            let _ = std::fs::write(at.join("cgroup.subtree_control"), format!("+{name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with version 2 in a directory: there is none here to ask.
    fn unified() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cgroup.controllers"), "cpu memory pids\n").unwrap();
        std::fs::write(root.path().join("cgroup.subtree_control"), "").unwrap();
        root
    }

    #[test]
    fn version_2_has_one_directory() {
        let root = unified();
        let group = Cgroup::at(root.path(), Path::new("/kubepods/pod1"));
        group.create().unwrap();
        group
            .set(&Resources {
                cpu_shares: Some(1024),
                cpu_quota: Some(50_000),
                memory: Some(1 << 20),
                pids: Some(-1),
                ..Resources::default()
            })
            .unwrap();
        group.add(42).unwrap();
        let read =
            |file: &str| std::fs::read_to_string(root.path().join("kubepods/pod1").join(file)).unwrap();
        assert_eq!(read("cpu.weight"), "39");
        assert_eq!(read("cpu.max"), "50000 100000");
        assert_eq!(read("memory.max"), "1048576");
        assert_eq!(read("pids.max"), "max");
        assert_eq!(group.processes(), [42]);
        std::fs::write(root.path().join("kubepods/pod1/memory.events"), "oom 3\noom_kill 2\n").unwrap();
        assert_eq!(group.oom_kills(), 2);
        let handed = std::fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap();
        assert!(handed.starts_with('+'), "{handed}");
    }

    #[test]
    fn version_1_has_a_directory_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        for name in ["cpu", "memory", "pids"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        let group = Cgroup::at(root.path(), Path::new("kubepods/pod1"));
        group.create().unwrap();
        group.set(&Resources { cpu_shares: Some(2), memory: Some(4096), ..Resources::default() }).unwrap();
        let read = |file: &str| std::fs::read_to_string(root.path().join(file)).unwrap();
        assert_eq!(read("cpu/kubepods/pod1/cpu.shares"), "2");
        assert_eq!(read("memory/kubepods/pod1/memory.limit_in_bytes"), "4096");
    }

    #[test]
    fn shares_become_weights() {
        assert_eq!([2, 1024, 262_144, 1].map(weight_of_shares), [1, 39, 10_000, 1]);
    }
}
