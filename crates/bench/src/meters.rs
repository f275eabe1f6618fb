//! Reads what processes use from `/proc`, and shows progress while a phase runs.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crate::error::BenchError;

/// AT_CLKTCK in the auxiliary vector: the unit of the times in `/proc/PID/stat`.
const AUXV_CLOCK_TICKS: u64 = 17;

/// The processes whose CPU time and memory count as the server's.
#[derive(Debug, Clone)]
pub struct Processes {
    pids: Vec<u32>,
    flag: &'static str,
    ticks_per_second: u64,
}

impl Processes {
    /// Fails when one of them is not there. `flag` is where the user gave them.
    pub fn new(pids: Vec<u32>, flag: &'static str) -> Result<Self, BenchError> {
        let processes = Processes { pids, flag, ticks_per_second: ticks_per_second() };
        processes.cpu()?;
        Ok(processes)
    }

    /// CPU time used so far, by all threads, in user and kernel mode; `None` without processes.
    pub fn cpu(&self) -> Result<Option<Duration>, BenchError> {
        let mut ticks = 0;
        for &pid in &self.pids {
            let stat = self.read(pid, "stat")?;
            ticks += cpu_ticks(&stat).ok_or_else(|| self.error(pid, io::ErrorKind::InvalidData.into()))?;
        }
        let nanos = ticks.saturating_mul(1_000_000_000 / self.ticks_per_second);
        Ok((!self.pids.is_empty()).then(|| Duration::from_nanos(nanos)))
    }

    /// Resident bytes at this moment.
    pub fn rss(&self) -> Result<Option<u64>, BenchError> {
        let mut bytes = 0;
        for &pid in &self.pids {
            bytes += kilobytes(&self.read(pid, "status")?, "VmRSS:").unwrap_or(0);
        }
        Ok((!self.pids.is_empty()).then_some(bytes))
    }

    /// The proportional set size: what processes share counts once.
    pub fn pss(&self) -> Result<Option<u64>, BenchError> {
        let mut bytes = 0;
        for &pid in &self.pids {
            bytes += kilobytes(&self.read(pid, "smaps_rollup")?, "Pss:").unwrap_or(0);
        }
        Ok((!self.pids.is_empty()).then_some(bytes))
    }

    fn read(&self, pid: u32, file: &str) -> Result<String, BenchError> {
        std::fs::read_to_string(format!("/proc/{pid}/{file}")).map_err(|source| self.error(pid, source))
    }

    fn error(&self, pid: u32, source: io::Error) -> BenchError {
        BenchError::Process { pid, flag: self.flag, source }
    }
}

/// CPU time of the calling thread, which is all of the generator; zero where `/proc` does not tell.
pub fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let ticks = cpu_ticks(&stat).unwrap_or(0);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / ticks_per_second()))
}

/// utime and stime: the 14th and 15th field, counted behind the command's name, which may itself hold blanks and brackets.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// In bytes, of a line that has kilobytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// sysconf(_SC_CLK_TCK) without a call into C: the kernel tells every process at its start.
fn ticks_per_second() -> u64 {
    let words = std::fs::read("/proc/self/auxv").unwrap_or_default();
    let words: Vec<u64> = words
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("chunks_exact gives 8 bytes")))
        .collect();
    let found = words.chunks_exact(2).find(|pair| pair[0] == AUXV_CLOCK_TICKS).map(|pair| pair[1]);
    // 100 is the value on every Linux that runs Kubernetes.
    found.filter(|&ticks| ticks > 0 && ticks <= 1_000_000_000).unwrap_or(100)
}

/// The progress line on stderr; one for the whole run.
pub struct Progress {
    terminal: bool,
    label: RefCell<String>,
    shown: Cell<bool>,
}

impl Progress {
    pub fn new() -> Self {
        Progress { terminal: io::stderr().is_terminal(), label: RefCell::default(), shown: Cell::new(false) }
    }

    /// Names the phase that follows.
    pub fn begin(&self, label: String) {
        self.label.replace(label);
        self.show("");
    }

    /// Rewrites the line on a terminal; a file or a pipe gets only finished lines.
    pub fn show(&self, detail: &str) {
        if self.terminal {
            // Progress is a courtesy: a stderr that went away must not end the measurement.
            let _ = write!(io::stderr(), "\r\x1b[2K{}  {detail}", self.label.borrow());
            self.shown.set(true);
        }
    }

    pub fn finish(&self, result: &str) {
        if self.terminal && self.shown.take() {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
        if !result.is_empty() {
            let _ = writeln!(io::stderr(), "{}  {result}", self.label.borrow());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_any_command_name() {
        let stat = "42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 123 45 0 0 20 0 9 0 100 1 2";
        assert_eq!(cpu_ticks(stat), Some(168));
        assert_eq!(cpu_ticks("42 (x"), None);
        assert_eq!(cpu_ticks("42 (x) S 1 2"), None);
    }

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmRSS:\t   1204 kB\nThreads:\t1\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(1204 * 1024));
        assert_eq!(kilobytes("Name:\tkthreadd\n", "VmRSS:"), None);
        let rollup = "5592-7ffd ---p 00:00 0 [rollup]\nRss:    900 kB\nPss:    512 kB\nPss_Anon: 100 kB\n";
        assert_eq!(kilobytes(rollup, "Pss:"), Some(512 * 1024));
    }

    #[test]
    fn own_process_uses_memory_and_a_missing_one_is_an_error() {
        let own = Processes::new(vec![std::process::id()], "--pids").unwrap();
        assert!(own.rss().unwrap().unwrap() > 0);
        assert!(own.pss().unwrap().unwrap() > 0);
        assert!(Processes::new(vec![u32::MAX], "--pids").unwrap_err().to_string().contains("--pids"));
        assert_eq!(Processes::new(Vec::new(), "--pids").unwrap().cpu().unwrap(), None);
    }
}
