//! What the kernel and the distribution say about a machine, read from their files.

use std::path::Path;

use rustix::fs::statvfs;

/// Nothing here fails: what cannot be read is zero, or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub cores: i64,
    pub memory_bytes: i64,
    pub swap_bytes: i64,
    /// Of the file system with the node's directory.
    pub disk_bytes: i64,
    /// The size of a page, and how many bytes of such pages there are.
    pub huge_pages: Vec<(i64, i64)>,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
    /// Processes and threads that there can be at once; 0: not known.
    pub most_processes: i64,
    pub kernel_version: String,
    pub os_image: String,
}

impl Facts {
    /// `root` is `/`, or a tree like it; `directory` is the node's own.
    pub fn read(root: &Path, directory: &Path) -> Facts {
        let text = |path: &str| first_line(root, path);
        let first = |paths: &[&str]| {
            paths.iter().map(|path| text(path)).find(|text| !text.is_empty()).unwrap_or_default()
        };
        let memory = std::fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let machine_id = first(&["etc/machine-id", "var/lib/dbus/machine-id"]);
        let uuid = first(&[
            "sys/class/dmi/id/product_uuid",
            "proc/device-tree/vm,uuid",
            "proc/device-tree/system-id",
        ]);
        Facts {
            cores: cores(&text("sys/devices/system/cpu/online")).unwrap_or_else(|| processors(root)),
            memory_bytes: kilobytes(&memory, "MemTotal:"),
            swap_bytes: kilobytes(&memory, "SwapTotal:"),
            disk_bytes: disk(directory),
            huge_pages: huge_pages(&root.join("sys/kernel/mm/hugepages")),
            system_uuid: if uuid.is_empty() {
                machine_id.clone()
            } else {
                uuid.trim_end_matches('\0').to_owned()
            },
            machine_id,
            boot_id: text("proc/sys/kernel/random/boot_id"),
            most_processes: most_processes(root),
            kernel_version: text("proc/sys/kernel/osrelease"),
            os_image: os_image(root),
        }
    }
}

fn first_line(root: &Path, path: &str) -> String {
    let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    text.lines().next().unwrap_or("").trim().to_owned()
}

/// Each is a limit of its own.
fn most_processes(root: &Path) -> i64 {
    let limits = ["proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"];
    limits.iter().filter_map(|path| first_line(root, path).parse().ok()).min().unwrap_or(0)
}

/// The places `/proc/swaps` lists, below its head.
pub fn swap_devices(swaps: &str) -> Vec<String> {
    let rows = swaps.lines().skip(1).filter_map(|row| row.split_whitespace().next());
    rows.map(str::to_owned).collect()
}

/// `0-3,8,10-11`; `None`: it is no such list.
fn cores(online: &str) -> Option<i64> {
    let mut count = 0_i64;
    for range in online.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        count += i64::from(last.checked_sub(first)?) + 1;
    }
    Some(count)
}

fn processors(root: &Path) -> i64 {
    let text = std::fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("processor")).count() as i64
}

/// `MemTotal:  16384 kB`.
fn kilobytes(text: &str, name: &str) -> i64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<i64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// The nearest directory that is there counts: the node's own may not be made yet.
fn disk(directory: &Path) -> i64 {
    let there = directory.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    let Ok(disk) = statvfs(there) else { return 0 };
    i64::try_from(disk.f_blocks.saturating_mul(disk.f_frsize)).unwrap_or(i64::MAX)
}

/// Folders `hugepages-2048kB` with a file `nr_hugepages`, smallest first.
fn huge_pages(folder: &Path) -> Vec<(i64, i64)> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let page = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let kilobytes: i64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let size = kilobytes.checked_mul(1024)?;
        let count: i64 =
            std::fs::read_to_string(entry.path().join("nr_hugepages")).ok()?.trim().parse().ok()?;
        Some((size, size.saturating_mul(count)))
    };
    let mut pages: Vec<(i64, i64)> = entries.flatten().filter_map(page).collect();
    pages.sort_unstable();
    pages
}

fn os_image(root: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let text = read("etc/os-release").or_else(|| read("usr/lib/os-release")).unwrap_or_default();
    let name = text.lines().find_map(|line| line.trim().strip_prefix("PRETTY_NAME="));
    let name = name.map(|name| name.trim().trim_matches(['"', '\''])).filter(|name| !name.is_empty());
    name.unwrap_or("Linux").to_owned()
}
