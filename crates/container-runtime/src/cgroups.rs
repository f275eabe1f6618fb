//! The cgroups of containers, as far as they are not their helper's to make and remove.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use container::cgroup::{Cgroup, ROOT, Version};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

const KILL_TIMEOUT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Ends all processes of a group, waits until they have, and removes it; one that is not there is removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let group = Cgroup::at_host(path);
    let ends: Vec<_> = group
        .processes()
        .into_iter()
        .filter_map(Pid::from_raw)
        .filter_map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok())
        .collect();
    if !ends.is_empty() {
        group.kill();
    }
    for end in &ends {
        // Killed, it is gone when it was scheduled once more.
        let _ = poll(&mut [PollFd::new(end, PollFlags::IN)], Some(&KILL_TIMEOUT));
    }
    group.remove()
}

/// What is resident, and how often a page was missing, or had to be read from a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    pub faults: u64,
    pub major_faults: u64,
}

pub fn memory(path: &Path) -> Memory {
    let file = directory(path, "memory").join("memory.stat");
    memory_of(&std::fs::read_to_string(file).unwrap_or_default(), Version::of_host())
}

fn memory_of(text: &str, version: Version) -> Memory {
    let names = match version {
        Version::V1 => ["total_rss", "total_pgfault", "total_pgmajfault"],
        Version::V2 => ["anon", "pgfault", "pgmajfault"],
    };
    let [resident, faults, major_faults] = names.map(|name| {
        let of_line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
        text.lines().find_map(of_line).unwrap_or(0)
    });
    Memory { resident, faults, major_faults }
}

/// Sets what `container` does not know: processors, and files of version 2 by their name.
pub fn set_more(path: &Path, resources: &cri::LinuxContainerResources) -> io::Result<()> {
    let unified = version_2_only(&resources.unified);
    let cpusets = [("cpuset.cpus", &resources.cpuset_cpus), ("cpuset.mems", &resources.cpuset_mems)];
    if unified.is_empty() && cpusets.iter().all(|(_, value)| value.is_empty()) {
        return Ok(());
    }
    Cgroup::at_host(path).create()?;
    for (file, value) in cpusets.into_iter().filter(|(_, value)| !value.is_empty()) {
        write(&directory(path, "cpuset"), file, value)?;
    }
    for (file, value) in unified {
        // A name of a file, and of no other.
        if file.contains('/') || !file.contains('.') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid cgroup file {file:?}")));
        }
        write(&directory(path, ""), file, value)?;
    }
    Ok(())
}

fn version_2_only(unified: &BTreeMap<String, String>) -> Vec<(&String, &String)> {
    if Version::of_host() == Version::V2 { unified.iter().collect() } else { Vec::new() }
}

fn directory(path: &Path, controller: &str) -> PathBuf {
    let path = path.strip_prefix("/").unwrap_or(path);
    match Version::of_host() {
        Version::V1 => Path::new(ROOT).join(controller).join(path),
        Version::V2 => Path::new(ROOT).join(path),
    }
}

fn write(directory: &Path, file: &str, value: &str) -> io::Result<()> {
    let path = directory.join(file);
    std::fs::write(&path, value)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_of_both_versions() {
        let expected = Memory { resident: 1, faults: 2, major_faults: 3 };
        let text = "rss 9\ntotal_rss 1\ntotal_rss_huge 9\ntotal_pgfault 2\ntotal_pgmajfault 3\n";
        assert_eq!(memory_of(text, Version::V1), expected);
        assert_eq!(memory_of("anon 1\nanon_thp 9\npgfault 2\npgmajfault 3\n", Version::V2), expected);
        assert_eq!(memory_of("", Version::V2), Memory::default());
    }
}
