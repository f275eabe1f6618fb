//! The figures of an overload run, as lines of text.

use std::collections::BTreeMap;
use std::time::Duration;

use super::flood::Kind;
use super::monitor::NodesSeen;
use super::probe::Seen;
use crate::histogram::Histogram;
use crate::report::{code_name, duration, thousands};
use crate::tally::Tally;

pub struct Figures {
    pub who: String,
    pub lease_holders: String,
    pub connections: usize,
    pub seconds: f64,
    pub probes: Vec<Seen>,
    pub kinds: Vec<Kind>,
    pub nodes: NodesSeen,
    pub resident_before: Option<u64>,
    pub resident_peak: Option<u64>,
    pub resident_after: Option<u64>,
    /// How long after the end.
    pub after: Duration,
    pub objects_grown_bytes: u64,
}

impl Figures {
    pub fn into_tally(self) -> Tally {
        let mut tally = Tally::new();
        tally.seconds = self.seconds;
        tally.server_rss_peak = self.resident_peak;
        for kind in &self.kinds {
            tally.requests += kind.served;
            tally.bytes += kind.bytes;
            tally.latency.merge(&kind.latency);
            for (status, count) in &kind.failed {
                *tally.failures.entry(*status).or_default() += count;
            }
            if tally.first_failure.is_none() {
                tally.first_failure.clone_from(&kind.first_failure);
            }
        }
        let refused: u64 = self.kinds.iter().map(|kind| kind.refused + kind.refused_silently).sum();
        if refused > 0 {
            tally.failures.insert(429, refused);
        }
        tally.notes = self.notes();
        tally
    }

    fn notes(&self) -> Vec<String> {
        let mut notes =
            vec![format!("{} connections of {}, {:.0} s", self.connections, self.who, self.seconds)];
        for seen in merged(&self.probes) {
            let whose = if seen.name.contains("Lease") {
                format!(" ({})", self.lease_holders)
            } else {
                String::new()
            };
            notes.push(format!(
                "{}{whose}: {} of {}, {} refused, {} failed{}",
                seen.name,
                times(&seen.latency),
                number(seen.answered),
                seen.refused,
                codes(&seen.failed),
                seen.first_failure.as_ref().map(|text| format!(" (first: {text})")).unwrap_or_default(),
            ));
        }
        for kind in &self.kinds {
            notes.push(format!(
                "{}: {} served, {}; {} refused with Retry-After, {} without, {} given up, {} failed{}",
                kind.name,
                number(kind.served),
                times(&kind.latency),
                number(kind.refused),
                kind.refused_silently,
                kind.given_up,
                codes(&kind.failed),
                kind.first_failure.as_ref().map(|text| format!(" (first: {text})")).unwrap_or_default(),
            ));
        }
        notes.push(self.nodes_note());
        notes.extend(self.memory_note());
        notes
    }

    fn nodes_note(&self) -> String {
        let NodesSeen { count, samples, not_ready, unknown } = &self.nodes;
        let unknown = match unknown {
            0 => String::new(),
            unknown => format!("; {unknown} looks of {samples} were not answered"),
        };
        match (*count, *not_ready) {
            (0, _) => format!("nodes: none{unknown}"),
            (count, 0) => format!("nodes: {count}, all Ready in every look{unknown}"),
            (count, not_ready) => {
                format!("nodes: {count}, not all Ready in {not_ready} of {samples} looks{unknown}")
            }
        }
    }

    fn memory_note(&self) -> Option<String> {
        let (before, peak) = self.resident_before.zip(self.resident_peak)?;
        let above = peak.saturating_sub(before + self.objects_grown_bytes);
        let mega = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
        let after =
            self.resident_after.map(|after| format!(", {} {} s after", mega(after), self.after.as_secs()));
        Some(format!(
            "resident: {} before, {} at most{}; at most {:.0} KB a connection above what the objects take",
            mega(before),
            mega(peak),
            after.unwrap_or_default(),
            above as f64 / 1e3 / self.connections.max(1) as f64
        ))
    }
}

/// Probes of one name together.
fn merged(probes: &[Seen]) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for probe in probes {
        match all.iter_mut().find(|seen| seen.name == probe.name) {
            Some(seen) => seen.merge(probe),
            None => all.push(probe.clone()),
        }
    }
    all
}

fn times(latency: &Histogram) -> String {
    let at = |fraction| duration(latency.quantile(fraction));
    format!("p50 {}, p99 {}, max {}", at(0.5), at(0.99), at(1.0))
}

fn number(count: u64) -> String {
    if count < 100 { count.to_string() } else { thousands(count as f64) }
}

/// `0`, or the number with the codes.
fn codes(failed: &BTreeMap<u16, u64>) -> String {
    let sum: u64 = failed.values().sum();
    let each: Vec<String> =
        failed.iter().map(|(code, count)| format!("{}: {count}", code_name(*code))).collect();
    if each.is_empty() { sum.to_string() } else { format!("{sum} ({})", each.join(", ")) }
}
