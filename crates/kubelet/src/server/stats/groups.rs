//! What only the kernel tells of a container or pod: the files of its cgroup, of either version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use container::cgroup::{Cgroup, Pressure};

/// Microseconds, where a version of cgroups has no other period.
const PERIOD: u64 = 100_000;

/// By the pod's uid, and by the container's id.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<String, Group>);

/// A group and what it says. What cannot be read is not told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// From the root of the hierarchies on.
    pub path: String,
    pub cache_bytes: Option<u64>,
    pub mapped_file_bytes: Option<u64>,
    pub max_usage_bytes: Option<u64>,
    pub swap_bytes: Option<u64>,
    /// 0: no limit.
    pub swap_limit_bytes: Option<u64>,
    pub failures: Option<u64>,
    pub oom_kills: Option<u64>,
    /// 0: none.
    pub memory_limit_bytes: Option<u64>,
    pub reservation_bytes: Option<u64>,
    pub user_nanos: Option<u64>,
    pub system_nanos: Option<u64>,
    pub period_micros: Option<u64>,
    /// None: as much as there is.
    pub quota_micros: Option<u64>,
    pub shares: Option<u64>,
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled_nanos: Option<u64>,
    /// For processors, memory and input or output.
    pub cpu_pressure: Option<Pressure>,
    pub memory_pressure: Option<Pressure>,
    pub io_pressure: Option<Pressure>,
}

impl Groups {
    /// `root`: where the hierarchies are; `pods`: the groups of pods below it, by uid.
    pub fn read(root: &Path, pods: BTreeMap<String, PathBuf>) -> Groups {
        let v2 = root.join("cgroup.controllers").exists();
        let mut all = BTreeMap::new();
        for (uid, path) in pods {
            let relative = path.strip_prefix("/").unwrap_or(&path);
            let place = |controller: &str| {
                if v2 { root.join(relative) } else { root.join(controller).join(relative) }
            };
            let inner = fs::read_dir(place("memory")).into_iter().flatten().flatten();
            for group in inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                let Ok(name) = group.file_name().into_string() else { continue };
                all.insert(name.clone(), Group::read(root, v2, &relative.join(name)));
            }
            all.insert(uid, Group::read(root, v2, relative));
        }
        Groups(all)
    }

    pub fn get(&self, id: &str) -> Option<&Group> {
        self.0.get(id)
    }
}

impl Group {
    fn read(root: &Path, v2: bool, path: &Path) -> Group {
        let text = |controller: &str, file: &str| {
            let folder = if v2 { root.join(path) } else { root.join(controller).join(path) };
            fs::read_to_string(folder.join(file)).ok()
        };
        let number = |controller: &str, file: &str| text(controller, file)?.trim().parse::<u64>().ok();
        let memory = text("memory", "memory.stat").unwrap_or_default();
        let cpu = text("cpu", "cpu.stat").unwrap_or_default();
        let own = Group { path: format!("/{}", path.display()), ..Group::default() };
        if v2 {
            let max = text("", "cpu.max").unwrap_or_default();
            let mut max = max.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
            let events = text("", "memory.events").unwrap_or_default();
            let weight = number("", "cpu.weight");
            let group = Cgroup::at(root, path);
            return Group {
                cpu_pressure: group.pressure("cpu"),
                memory_pressure: group.pressure("memory"),
                io_pressure: group.pressure("io"),
                cache_bytes: field(&memory, "file"),
                mapped_file_bytes: field(&memory, "file_mapped"),
                max_usage_bytes: number("", "memory.peak"),
                swap_bytes: number("", "memory.swap.current"),
                swap_limit_bytes: text("", "memory.swap.max").map(|text| text.trim().parse().unwrap_or(0)),
                failures: field(&events, "max"),
                oom_kills: field(&events, "oom_kill"),
                memory_limit_bytes: text("", "memory.max").map(|text| text.trim().parse().unwrap_or(0)),
                reservation_bytes: number("", "memory.min"),
                user_nanos: field(&cpu, "user_usec").map(|micros| micros * 1000),
                system_nanos: field(&cpu, "system_usec").map(|micros| micros * 1000),
                quota_micros: max.next().flatten(),
                period_micros: Some(max.next().flatten().unwrap_or(PERIOD)),
                // The other way round of how shares become a weight.
                shares: weight.map(|weight| 2 + weight.saturating_sub(1) * 262_142 / 9999),
                periods: field(&cpu, "nr_periods"),
                throttled_periods: field(&cpu, "nr_throttled"),
                throttled_nanos: field(&cpu, "throttled_usec").map(|micros| micros * 1000),
                ..own
            };
        }
        let used = text("cpuacct", "cpuacct.stat").unwrap_or_default();
        // Hundredths of a second.
        let ticks = |name: &str| field(&used, name).map(|ticks| ticks * 10_000_000);
        let limit = |file: &str| number("memory", file).map(|limit| if limit < 1 << 62 { limit } else { 0 });
        Group {
            cache_bytes: field(&memory, "total_cache"),
            mapped_file_bytes: field(&memory, "total_mapped_file"),
            max_usage_bytes: number("memory", "memory.max_usage_in_bytes"),
            swap_bytes: field(&memory, "total_swap"),
            failures: number("memory", "memory.failcnt"),
            oom_kills: text("memory", "memory.oom_control").and_then(|text| field(&text, "oom_kill")),
            memory_limit_bytes: limit("memory.limit_in_bytes"),
            reservation_bytes: limit("memory.soft_limit_in_bytes"),
            user_nanos: ticks("user"),
            system_nanos: ticks("system"),
            period_micros: number("cpu", "cpu.cfs_period_us"),
            quota_micros: number("cpu", "cpu.cfs_quota_us"),
            shares: number("cpu", "cpu.shares"),
            periods: field(&cpu, "nr_periods"),
            throttled_periods: field(&cpu, "nr_throttled"),
            throttled_nanos: field(&cpu, "throttled_time"),
            ..own
        }
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn pods() -> BTreeMap<String, PathBuf> {
        BTreeMap::from([("uid".to_owned(), PathBuf::from("/kubepods/poduid"))])
    }

    #[test]
    fn both_versions_tell_the_same() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(
            one.path(),
            &[
                (
                    "memory/kubepods/poduid/c1/memory.stat",
                    "cache 1\ntotal_cache 4096\ntotal_mapped_file 8192\n",
                ),
                ("memory/kubepods/poduid/c1/memory.limit_in_bytes", "65536\n"),
                ("memory/kubepods/poduid/memory.limit_in_bytes", "9223372036854771712\n"),
                ("cpu/kubepods/poduid/c1/cpu.cfs_quota_us", "5000\n"),
                ("cpu/kubepods/poduid/c1/cpu.cfs_period_us", "100000\n"),
                ("cpu/kubepods/poduid/cpu.cfs_quota_us", "-1\n"),
                ("cpu/kubepods/poduid/c1/cpu.shares", "2\n"),
                ("cpu/kubepods/poduid/c1/cpu.stat", "nr_periods 7\nnr_throttled 3\nthrottled_time 2000\n"),
                ("cpuacct/kubepods/poduid/c1/cpuacct.stat", "user 2\nsystem 1\n"),
            ],
        );
        write(
            two.path(),
            &[
                ("cgroup.controllers", "cpu memory\n"),
                ("kubepods/poduid/c1/memory.stat", "file 4096\nfile_mapped 8192\n"),
                ("kubepods/poduid/c1/memory.max", "65536\n"),
                ("kubepods/poduid/memory.max", "max\n"),
                ("kubepods/poduid/c1/cpu.max", "5000 100000\n"),
                ("kubepods/poduid/cpu.max", "max 100000\n"),
                ("kubepods/poduid/c1/cpu.weight", "1\n"),
                (
                    "kubepods/poduid/c1/cpu.stat",
                    "user_usec 20000\nsystem_usec 10000\nnr_periods 7\nnr_throttled 3\nthrottled_usec 2\n",
                ),
            ],
        );
        for root in [one.path(), two.path()] {
            let groups = Groups::read(root, pods());
            let expected = Group {
                path: "/kubepods/poduid/c1".to_owned(),
                cache_bytes: Some(4096),
                mapped_file_bytes: Some(8192),
                memory_limit_bytes: Some(65536),
                user_nanos: Some(20_000_000),
                system_nanos: Some(10_000_000),
                period_micros: Some(100_000),
                quota_micros: Some(5000),
                shares: Some(2),
                periods: Some(7),
                throttled_periods: Some(3),
                throttled_nanos: Some(2000),
                ..Group::default()
            };
            assert_eq!(groups.get("c1"), Some(&expected));
            let pod = groups.get("uid").unwrap();
            assert_eq!((pod.memory_limit_bytes, pod.quota_micros), (Some(0), None), "no limits");
        }
    }
}
