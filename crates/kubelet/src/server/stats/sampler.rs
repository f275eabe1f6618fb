//! CPU used at the moment, from CPU used so far: runtimes need not tell the former.

use std::collections::BTreeMap;

use cri::{CpuUsage, UInt64Value};
use parking_lot::Mutex;

use super::number;

/// A rate over less says little.
const SHORTEST_NANOS: i64 = 5_000_000_000;

#[derive(Default)]
pub struct Sampler {
    /// Guards the samples by whose they are; held for one.
    samples: Mutex<BTreeMap<String, Sample>>,
}

#[derive(Clone, Copy)]
struct Sample {
    timestamp: i64,
    used_nanos: u64,
    nano_cores: Option<u64>,
}

impl Sampler {
    /// Adds `usage_nano_cores`, unless the runtime told it.
    pub fn complete(&self, whose: &str, cpu: &mut CpuUsage) {
        let Some(used_nanos) = number(&cpu.usage_core_nano_seconds) else { return };
        if cpu.usage_nano_cores.is_some() {
            return;
        }
        let mut sample = Sample { timestamp: cpu.timestamp, used_nanos, nano_cores: None };
        let mut samples = self.samples.lock();
        if let Some(last) = samples.get(whose) {
            let elapsed = sample.timestamp.saturating_sub(last.timestamp);
            sample = match used_nanos.checked_sub(last.used_nanos) {
                // It began anew.
                None => sample,
                Some(_) if elapsed < SHORTEST_NANOS => *last,
                Some(used) => {
                    let rate = u128::from(used) * 1_000_000_000 / elapsed as u128;
                    Sample { nano_cores: u64::try_from(rate).ok(), ..sample }
                }
            };
        }
        samples.insert(whose.to_owned(), sample);
        cpu.usage_nano_cores = sample.nano_cores.map(|value| UInt64Value { value });
    }

    /// Forgets all others.
    pub fn retain(&self, is_known: impl Fn(&str) -> bool) {
        self.samples.lock().retain(|whose, _| is_known(whose));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_between_two_samples() {
        let sampler = Sampler::default();
        let rate = |seconds: i64, used: u64| {
            let usage_core_nano_seconds = Some(UInt64Value { value: used });
            let timestamp = seconds * 1_000_000_000;
            let mut cpu = CpuUsage { timestamp, usage_core_nano_seconds, ..CpuUsage::default() };
            sampler.complete("c", &mut cpu);
            cpu.usage_nano_cores.map(|rate| rate.value)
        };
        assert_eq!(rate(0, 0), None);
        assert_eq!(rate(1, 1_000_000_000), None, "too short");
        assert_eq!(rate(10, 5_000_000_000), Some(500_000_000));
        assert_eq!(rate(12, 9_000_000_000), Some(500_000_000), "the last one still counts");
        assert_eq!(rate(20, 6_000_000_000), Some(100_000_000));
        assert_eq!(rate(30, 1_000_000_000), None, "another container of that name");
    }
}
