//! Metrics of this process, from /proc.

use crate::single;

/// The `process_*` families; one that cannot be read is left out.
pub fn process(out: &mut String, started: f64) {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
    let stat = read("stat");
    // The name in parentheses may have spaces; what follows it starts with field 3.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3).and_then(|n| n.parse::<u64>().ok());
    if let (Some(user), Some(system)) = (number(14), number(15)) {
        // The kernel reports times in hundredths of a second, whatever it counts in.
        let help = "Total user and system CPU time spent in seconds.";
        single(out, "process_cpu_seconds_total", "counter", help, (user + system) as f64 / 100.0);
    }
    if let Some(bytes) = number(23) {
        single(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", bytes);
    }
    // In kB, so that the size of a page does not matter.
    let status = read("status");
    let kilobytes = status.lines().find_map(|l| l.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    if let Some(bytes) = kilobytes.and_then(|n| n.trim().parse::<u64>().ok()) {
        single(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", bytes * 1024);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        // One of them is the directory being read.
        let open = open.count().saturating_sub(1);
        single(out, "process_open_fds", "gauge", "Number of open file descriptors.", open);
    }
    let limits = read("limits");
    let soft = |what: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(what))?;
        match line.split_whitespace().next()? {
            // As Prometheus' client libraries report it.
            "unlimited" => Some(u64::MAX as f64),
            number => number.parse().ok(),
        }
    };
    if let Some(most) = soft("Max open files") {
        single(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.", most);
    }
    if let Some(most) = soft("Max address space") {
        let help = "Maximum amount of virtual memory available in bytes.";
        single(out, "process_virtual_memory_max_bytes", "gauge", help, most);
    }
    let help = "Start time of the process since unix epoch in seconds.";
    single(out, "process_start_time_seconds", "gauge", help, started);
}
