//! What a process has: memory, descriptors, threads.

use std::time::Instant;

use crate::harness::{PATIENCE, Proc};

#[derive(Clone, Copy, Debug)]
pub struct Observed {
    pub resident_bytes: u64,
    pub descriptors: usize,
    pub threads: usize,
}

impl Observed {
    pub fn of(server: &Proc) -> Observed {
        let count = |what: &str| std::fs::read_dir(proc_file(server, what)).unwrap().count();
        Observed { resident_bytes: field(server, "VmRSS:"), descriptors: count("fd"), threads: count("task") }
    }

    /// Waits until the server is as it was, but for so much memory.
    pub async fn settles_at(self, server: &Proc, before: Observed, keep_mib: u64, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = Observed::of(server);
            let memory = now.resident_bytes <= before.resident_bytes + (keep_mib << 20);
            // A connection more of the honest client is none of the attack's.
            let rest = now.descriptors <= before.descriptors + 2 && now.threads <= before.threads + 1;
            if memory && rest {
                return;
            }
            assert!(Instant::now() < deadline, "{what}: before it {before:?}, and long after it {now:?}");
            super::pause(20).await;
        }
    }
}

/// From here on the peak is counted anew.
pub fn forget_peak(server: &Proc) {
    let _ = std::fs::write(proc_file(server, "clear_refs"), "5");
}

/// The most memory it had since then.
pub fn peak_bytes(server: &Proc) -> u64 {
    field(server, "VmHWM:")
}

fn field(server: &Proc, name: &str) -> u64 {
    let status = std::fs::read_to_string(proc_file(server, "status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("Linux tells it");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

fn proc_file(server: &Proc, name: &str) -> String {
    format!("/proc/{}/{name}", server.id())
}
