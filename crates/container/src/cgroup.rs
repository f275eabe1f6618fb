//! Limits and accounts of processes: cgroups, version 2 and, where a machine still has it, version 1.
//!
//! Both are trees of directories with small files. Version 2 is one tree; version 1 is one for each controller, and a group is a
//! directory in each of them.

pub mod devices;
mod end;
mod limits;
mod pressure;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use pressure::{Pressure, Stall};

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
const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

/// The controllers that are limited or counted; of version 1 each has a tree of its own.
const CONTROLLERS: [&str; 8] =
    ["cpu", "cpuacct", "memory", "pids", "freezer", "hugetlb", "cpuset", "devices"];

/// Of version 1, which has no word for it; no machine has so much.
const UNLIMITED: u64 = 1 << 62;

/// A group of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    version: Version,
    /// One directory, or one for each controller.
    directories: Vec<(&'static str, PathBuf)>,
    root: PathBuf,
    /// Below the root, or below that of each tree.
    path: PathBuf,
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
        Cgroup { version, directories, root: root.to_owned(), path: path.to_owned() }
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

    /// Puts a process where `other` is, if that is in this group or below: of version 2 a group with groups below it may not
    /// hold processes itself.
    pub fn add_beside(&self, pid: i32, other: i32) -> io::Result<()> {
        let failed = match self.add(pid) {
            Err(error) if self.version == Version::V2 && error.raw_os_error() == Some(BUSY) => error,
            other => return other,
        };
        let text = std::fs::read_to_string(format!("/proc/{other}/cgroup"))?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::/")).map(Path::new);
        match path.filter(|path| path.starts_with(&self.path)) {
            Some(path) => Cgroup::at(&self.root, path).add(pid),
            None => Err(failed),
        }
    }

    /// Who is in it, below not counted.
    pub fn processes(&self) -> Vec<i32> {
        let Some((_, directory)) = self.directories.first() else { return Vec::new() };
        let text = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// How often the kernel ended a process of it for want of memory.
    pub fn oom_kills(&self) -> u64 {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.read("memory", file).and_then(|text| field(&text, "oom_kill")).unwrap_or(0)
    }

    /// Bytes; `None`: not limited, or not known.
    pub fn memory_limit(&self) -> Option<u64> {
        let file = match self.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        let limit = self.read("memory", file)?.trim().parse().ok()?;
        // Version 1 has a number for no limit.
        (limit < UNLIMITED).then_some(limit)
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

    /// What is swapped out, and how much of it may be. `None`: the kernel does not count it.
    pub fn swap(&self) -> Option<(u64, Option<u64>)> {
        let limit = |text: String| text.trim().parse::<u64>().ok().filter(|limit| *limit < UNLIMITED);
        match self.version {
            Version::V1 => {
                let used = field(&self.read("memory", "memory.stat")?, "total_swap")?;
                // Memory and swap together.
                let both = self.read("memory", "memory.memsw.limit_in_bytes").and_then(limit);
                let memory = self.read("memory", "memory.limit_in_bytes").and_then(limit);
                Some((used, both.map(|both| both.saturating_sub(memory.unwrap_or(0)))))
            }
            Version::V2 => {
                let used = self.read("memory", "memory.swap.current")?.trim().parse().ok()?;
                Some((used, self.read("memory", "memory.swap.max").and_then(limit)))
            }
        }
    }

    /// When it was made, in Unix nanoseconds.
    pub fn made_at(&self) -> Option<i64> {
        let made = self.directories.iter().filter_map(|(_, path)| {
            use std::os::unix::fs::MetadataExt;
            let metadata = std::fs::metadata(path).ok()?;
            Some(metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()))
        });
        made.min()
    }

    /// One without a name, or one for each controller.
    pub(crate) fn directories(&self) -> &[(&'static str, PathBuf)] {
        &self.directories
    }

    /// Of version 1: in the trees of other controllers, where another runtime may have made it as well.
    fn others(&self) -> Vec<PathBuf> {
        if self.version == Version::V2 {
            return Vec::new();
        }
        let is_ours = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| CONTROLLERS.contains(&name));
        let trees = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let others = trees.filter(|tree| !is_ours(&tree.file_name()));
        others.map(|tree| tree.path().join(&self.path)).filter(|group| group.is_dir()).collect()
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
