//! What the machine as a whole uses, by `/proc`.

use container::cgroup::{Pressure, Stall, Version};
use cri::{
    CpuUsage, IoUsage, MemoryUsage, NetworkInterfaceUsage, NetworkUsage, PsiData, PsiStats, SwapUsage,
    UInt64Value,
};

use super::Processes;

/// Of a CPU's second, in `/proc/stat`.
const TICK_NANOS: u64 = 10_000_000;
/// The one whose numbers stand for all, as in cAdvisor.
const DEFAULT_INTERFACE: &str = "eth0";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// Unix nanoseconds.
    pub booted_at: i64,
    pub cores: u64,
    pub cpu_nanos: u64,
    pub memory_bytes: u64,
    memory_free: u64,
    inactive_file: u64,
    anonymous: u64,
    pub swap_bytes: u64,
    swap_free: u64,
    page_faults: u64,
    major_page_faults: u64,
    interfaces: Vec<NetworkInterfaceUsage>,
    pid_max: i64,
    processes: i64,
    /// Of processors, memory and disks.
    pressure: [Option<PsiStats>; 3],
}

impl Machine {
    /// What cannot be read is 0.
    pub fn read() -> Machine {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
        let limits = [read("sys/kernel/pid_max"), read("sys/kernel/threads-max")];
        // As of cgroups: version 1 has none.
        let counts = Version::of_host() == Version::V2;
        let pressure = ["cpu", "memory", "io"]
            .map(|name| if counts { psi(&read(&format!("pressure/{name}"))) } else { None });
        let machine = Machine::parse(
            &read("stat"),
            &read("meminfo"),
            &read("vmstat"),
            &read("net/dev"),
            &read("loadavg"),
            limits.iter().filter_map(|text| text.trim().parse().ok()).min().unwrap_or(0),
        );
        Machine { pressure, ..machine }
    }

    fn parse(stat: &str, meminfo: &str, vmstat: &str, net: &str, loadavg: &str, pid_max: i64) -> Machine {
        let line = |text: &str, name: &str| -> Option<Vec<u64>> {
            let mut lines = text.lines().map(|line| line.split_ascii_whitespace());
            let mut found = lines.find_map(|mut words| (words.next()? == name).then_some(words))?;
            Some(found.by_ref().map_while(|word| word.parse().ok()).collect())
        };
        let first = |text: &str, name: &str| line(text, name).and_then(|of| of.first().copied()).unwrap_or(0);
        let kibibytes = |name: &str| first(meminfo, name).saturating_mul(1024);
        // user nice system idle iowait irq softirq steal; guests are in user and nice.
        let cpu = line(stat, "cpu").unwrap_or_default();
        let busy = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| cpu.get(*at)).sum::<u64>();
        let is_core = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let tasks = loadavg.split_ascii_whitespace().nth(3).and_then(|of| of.split_once('/'));
        Machine {
            booted_at: i64::try_from(first(stat, "btime")).unwrap_or(0).saturating_mul(1_000_000_000),
            cores: stat.lines().filter(is_core).count() as u64,
            cpu_nanos: busy.saturating_mul(TICK_NANOS),
            memory_bytes: kibibytes("MemTotal:"),
            memory_free: kibibytes("MemFree:"),
            inactive_file: kibibytes("Inactive(file):"),
            anonymous: kibibytes("AnonPages:"),
            swap_bytes: kibibytes("SwapTotal:"),
            swap_free: kibibytes("SwapFree:"),
            page_faults: first(vmstat, "pgfault"),
            major_page_faults: first(vmstat, "pgmajfault"),
            interfaces: net.lines().filter_map(interface).collect(),
            pid_max,
            processes: tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or(0),
            pressure: [const { None }; 3],
        }
    }

    pub fn cpu(&self, timestamp: i64) -> CpuUsage {
        let usage_core_nano_seconds = some(self.cpu_nanos);
        CpuUsage { timestamp, usage_core_nano_seconds, usage_nano_cores: None, psi: self.pressure[0].clone() }
    }

    /// The working set is what cannot be given back at once.
    pub fn memory(&self, timestamp: i64) -> MemoryUsage {
        let usage = self.memory_bytes.saturating_sub(self.memory_free);
        let working_set = usage.saturating_sub(self.inactive_file);
        MemoryUsage {
            timestamp,
            working_set_bytes: some(working_set),
            available_bytes: some(self.memory_bytes.saturating_sub(working_set)),
            usage_bytes: some(usage),
            rss_bytes: some(self.anonymous),
            page_faults: some(self.page_faults),
            major_page_faults: some(self.major_page_faults),
            psi: self.pressure[1].clone(),
        }
    }

    pub fn io(&self, timestamp: i64) -> Option<IoUsage> {
        self.pressure[2].clone().map(|psi| IoUsage { timestamp, psi: Some(psi) })
    }

    pub fn swap(&self, timestamp: i64) -> SwapUsage {
        SwapUsage {
            timestamp,
            swap_available_bytes: some(self.swap_free),
            swap_usage_bytes: some(self.swap_bytes.saturating_sub(self.swap_free)),
        }
    }

    pub fn network(&self, timestamp: i64) -> NetworkUsage {
        let default = self.interfaces.iter().find(|of| of.name == DEFAULT_INTERFACE).cloned();
        NetworkUsage { timestamp, default_interface: default, interfaces: self.interfaces.clone() }
    }

    pub fn processes(&self, timestamp: i64) -> Processes {
        Processes { timestamp, most: self.pid_max, running: self.processes }
    }
}

/// A file of `/proc/pressure`.
fn psi(text: &str) -> Option<PsiStats> {
    let Pressure { some, full } = Pressure::parse(text)?;
    let data = |stall: Stall| {
        let Stall { total_micros: total, avg10, avg60, avg300 } = stall;
        Some(PsiData { total, avg10, avg60, avg300 })
    };
    Some(PsiStats { full: data(full), some: data(some) })
}

/// A line of `/proc/net/dev`; those of pods, and loopback, are not the machine's.
fn interface(line: &str) -> Option<NetworkInterfaceUsage> {
    let (name, numbers) = line.split_once(':')?;
    let name = name.trim();
    if name == "lo" || name == "docker0" || name.starts_with("veth") {
        return None;
    }
    let numbers: Vec<u64> = numbers.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    let at = |at: usize| numbers.get(at).copied().and_then(some);
    Some(NetworkInterfaceUsage {
        name: name.to_owned(),
        rx_bytes: at(0),
        rx_errors: at(2),
        tx_bytes: at(8),
        tx_errors: at(10),
    })
}

fn some(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        let stat = "cpu  100 1 50 900 9 2 3 4 0 0\ncpu0 50 0 0 0\ncpu1 50 0 0 0\nintr 5\nbtime 1700000000\n";
        let meminfo = "MemTotal: 1000 kB\nMemFree: 400 kB\nInactive(file): 100 kB\nAnonPages: 300 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
        let net = "Inter-|   Receive\n face |bytes packets errs\n    lo: 1 1 0 0 0 0 0 0 1 1 0\n  eth0: 11 2 3 0 0 0 0 0 22 5 6 0 0 0 0 0\nveth1: 5 5 5\n";
        let machine =
            Machine::parse(stat, meminfo, "pgfault 7\npgmajfault 8\n", net, "0.1 0.2 0.3 1/77 99", 4096);
        assert_eq!((machine.booted_at, machine.cores), (1_700_000_000_000_000_000, 2));
        assert_eq!(machine.cpu(1).usage_core_nano_seconds, some(160 * TICK_NANOS));
        let memory = machine.memory(1);
        assert_eq!(memory.usage_bytes, some(600 << 10));
        assert_eq!(memory.working_set_bytes, some(500 << 10));
        assert_eq!(memory.available_bytes, some(500 << 10));
        assert_eq!((memory.page_faults, memory.major_page_faults), (some(7), some(8)));
        assert_eq!(machine.swap(1).swap_usage_bytes, some(6 << 10));
        let network = machine.network(1);
        assert_eq!(network.interfaces.len(), 1);
        let eth0 = network.default_interface.unwrap();
        assert_eq!((eth0.rx_bytes, eth0.rx_errors), (some(11), some(3)));
        assert_eq!((eth0.tx_bytes, eth0.tx_errors), (some(22), some(6)));
        assert_eq!(machine.processes(1), Processes { timestamp: 1, most: 4096, running: 77 });
        assert_eq!(Machine::parse("", "", "", "", "", 0), Machine::default());
        assert_eq!(machine.io(1), None);
        let waits = psi(
            "some avg10=0.50 avg60=0.00 avg300=0.00 total=9\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=3\n",
        );
        let machine = Machine { pressure: [waits.clone(), None, waits], ..machine };
        let io = machine.io(7).unwrap();
        assert_eq!((io.timestamp, io.psi.unwrap().full.unwrap().avg10), (7, 0.25));
        assert_eq!(machine.cpu(1).psi.unwrap().some.unwrap().total, 9);
    }
}
