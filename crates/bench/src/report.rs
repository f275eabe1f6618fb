//! Turns tallies into figures: the table for people, JSON for programs.

use std::fmt::Write as _;

use crate::cli::Options;
use crate::histogram::Histogram;
use crate::scenario::{Row, Unit};
use crate::site::Target;
use crate::tally::{BROKEN, Tally};

/// Above this share of its one core, the generator may be what limits the rate.
const BUSY_GENERATOR: f64 = 0.9;

/// A scenario's rounds, for each target in order.
pub struct Measured {
    pub scenario: &'static Row,
    pub rounds: Vec<Vec<Tally>>,
}

/// One line for a round.
pub fn summary(tally: &Tally, unit: Unit) -> String {
    let figures = Figures::of(tally, unit);
    let what = if unit == Unit::Events { " events/s" } else { "/s" };
    format!(
        "{}{what}, p50 {}, p99 {}, {} failed",
        thousands(figures.per_second),
        duration(figures.p50_nanos),
        duration(figures.p99_nanos),
        tally.failed()
    )
}

pub fn table(targets: &[Target], results: &[Measured]) -> String {
    let compares = targets.len() > 1;
    let mut header = vec!["scenario", "per second", "p50", "p99", "MB/s", "failures", "CPU each", "peak RSS"];
    if compares {
        header.insert(1, "server");
        header.push("ratio");
    }
    let mut rows = vec![header.into_iter().map(str::to_string).collect::<Vec<_>>()];
    let mut notes: Vec<String> = targets
        .iter()
        .filter(|_| compares)
        .map(|t| format!("{} is {}", t.label, t.endpoint.server))
        .collect();
    if results.iter().any(|result| result.scenario.how.unit() == Unit::Events) {
        notes.push(
            "watch: rate and CPU count events; p50 and p99 are from the create to its event".to_string(),
        );
    }
    for result in results {
        let unit = result.scenario.how.unit();
        for (index, (target, rounds)) in targets.iter().zip(&result.rounds).enumerate() {
            let tally = total(rounds);
            let figures = Figures::of(&tally, unit);
            let mut row = vec![
                result.scenario.name.to_string(),
                thousands(figures.per_second),
                duration(figures.p50_nanos),
                duration(figures.p99_nanos),
                format!("{:.1}", figures.megabytes_per_second),
                failures(&tally),
                duration(figures.cpu_nanos),
                tally.server_rss_peak.map_or("-".to_string(), |bytes| format!("{} MB", bytes / 1_000_000)),
            ];
            if compares {
                row.insert(1, target.label.to_string());
                row.push(if index == 0 { ratio(&result.rounds, unit) } else { String::new() });
            }
            rows.push(row);
            notes.extend(remarks(result.scenario, target, &tally, compares));
        }
    }
    let mut text = align(&rows);
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// The raw figures of every round.
pub fn json(targets: &[Target], options: &Options, results: &[Measured]) -> String {
    let mut rows = Vec::new();
    for result in results {
        for (target, rounds) in targets.iter().zip(&result.rounds) {
            for (round, tally) in rounds.iter().enumerate() {
                rows.push(json_row(result.scenario, target, round + 1, tally));
            }
        }
    }
    format!(
        "{{\n\"connections\":{},\"warmup_seconds\":{},\"seconds\":{},\n\"rounds\":[\n{}\n]}}\n",
        options.settings.connections,
        options.settings.warmup.as_secs(),
        options.settings.measured.as_secs(),
        rows.join(",\n")
    )
}

fn json_row(scenario: &Row, target: &Target, round: usize, tally: &Tally) -> String {
    let figures = Figures::of(tally, scenario.how.unit());
    let number = |value: Option<u64>| value.map_or("null".to_string(), |value| value.to_string());
    let quantiles = |histogram: &Histogram| {
        let at = |fraction| number(histogram.quantile(fraction));
        format!(r#"{{"p50":{},"p90":{},"p99":{},"max":{}}}"#, at(0.5), at(0.9), at(0.99), at(1.0))
    };
    let failures: Vec<String> =
        tally.failures.iter().map(|(code, count)| format!("\"{}\":{count}", code_name(*code))).collect();
    format!(
        concat!(
            r#"{{"scenario":"{}","target":"{}","server":{},"round":{},"seconds":{:.3},"per_second":{:.1},"requests":{},"#,
            r#""events":{},"bytes":{},"latency_nanos":{},"lag_nanos":{},"failures":{{{}}},"server_cpu_nanos":{},"#,
            r#""server_cpu_nanos_each":{},"server_rss_peak_bytes":{},"generator_cpu_nanos":{},"notes":[{}]}}"#
        ),
        scenario.name,
        target.label,
        quoted(&target.endpoint.server),
        round,
        tally.seconds,
        figures.per_second,
        tally.requests,
        tally.events,
        tally.bytes,
        quantiles(&tally.latency),
        quantiles(&tally.lag),
        failures.join(","),
        number(tally.server_cpu.map(|cpu| cpu.as_nanos() as u64)),
        number(figures.cpu_nanos),
        number(tally.server_rss_peak),
        tally.generator_cpu.as_nanos(),
        tally.notes.iter().map(|note| quoted(note)).collect::<Vec<_>>().join(","),
    )
}

/// What a tally says by its scenario's unit.
struct Figures {
    per_second: f64,
    p50_nanos: Option<u64>,
    p99_nanos: Option<u64>,
    megabytes_per_second: f64,
    cpu_nanos: Option<u64>,
}

impl Figures {
    fn of(tally: &Tally, unit: Unit) -> Self {
        let (count, times) = match unit {
            Unit::Requests => (tally.requests, &tally.latency),
            Unit::Events => (tally.events, &tally.lag),
        };
        let seconds = tally.seconds.max(1e-9);
        Figures {
            per_second: count as f64 / seconds,
            p50_nanos: times.quantile(0.5),
            p99_nanos: times.quantile(0.99),
            megabytes_per_second: tally.bytes as f64 / seconds / 1e6,
            cpu_nanos: tally.server_cpu.map(|cpu| cpu.as_nanos() as u64 / count.max(1)).filter(|_| count > 0),
        }
    }
}

fn total(rounds: &[Tally]) -> Tally {
    let mut sum = Tally::new();
    for tally in rounds {
        sum.merge(tally);
    }
    sum
}

/// The ratio of A to B over all rounds, and its lowest and highest value in a single round, which shows the spread.
fn ratio(rounds: &[Vec<Tally>], unit: Unit) -> String {
    let [left, right] = rounds else { return String::new() };
    let figures = |rounds: &[Tally]| Figures::of(&total(rounds), unit);
    let (a, b) = (figures(left), figures(right));
    if b.per_second <= 0.0 {
        return "-".to_string();
    }
    let mut each: Vec<f64> = left
        .iter()
        .zip(right)
        .map(|(a, b)| Figures::of(a, unit).per_second / Figures::of(b, unit).per_second.max(1e-9))
        .collect();
    each.sort_by(f64::total_cmp);
    let mut text = format!("{:.2}x rate", a.per_second / b.per_second);
    if let [low, .., high] = each.as_slice() {
        let _ = write!(text, " ({low:.2} to {high:.2})");
    }
    if let (Some(a), Some(b)) = (a.cpu_nanos, b.cpu_nanos.filter(|&nanos| nanos > 0)) {
        let _ = write!(text, ", {:.2}x CPU", a as f64 / b as f64);
    }
    text
}

fn remarks(scenario: &Row, target: &Target, tally: &Tally, compares: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    let name =
        if compares { format!("{} on {}", scenario.name, target.label) } else { scenario.name.to_string() };
    if scenario.how.unit() == Unit::Events {
        let creates = tally.requests as f64 / tally.seconds.max(1e-9);
        let p99 = duration(tally.latency.quantile(0.99));
        remarks.push(format!("{name}: {} creates/s, answered with p99 {p99}", thousands(creates)));
    }
    remarks.extend(tally.notes.iter().map(|note| format!("{name}: {note}")));
    let share = tally.generator_cpu.as_secs_f64() / tally.seconds.max(1e-9);
    if share > BUSY_GENERATOR {
        remarks.push(format!(
            "{name}: the generator used {:.0} % of its one core, so the server may be faster than this",
            share * 100.0
        ));
    }
    if let Some(failure) = tally.first_failure.as_ref().filter(|_| tally.failed() > 0) {
        remarks.push(format!("{name}: the first failure was {failure}"));
    }
    remarks
}

/// `0`, or the number with the codes: `12 (409: 10, broken: 2)`.
fn failures(tally: &Tally) -> String {
    if tally.failures.is_empty() {
        return "0".to_string();
    }
    let codes: Vec<String> =
        tally.failures.iter().map(|(code, count)| format!("{}: {count}", code_name(*code))).collect();
    format!("{} ({})", tally.failed(), codes.join(", "))
}

pub fn code_name(code: u16) -> String {
    if code == BROKEN { "broken".to_string() } else { code.to_string() }
}

/// The first column to the left, the others to the right, two blanks between.
fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, "{cell:<width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

pub fn thousands(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn duration(nanos: Option<u64>) -> String {
    match nanos {
        None => "-".to_string(),
        Some(nanos) if nanos < 1_000_000 => format!("{:.1} us", nanos as f64 / 1e3),
        Some(nanos) if nanos < 10_000_000_000 => format!("{:.2} ms", nanos as f64 / 1e6),
        Some(nanos) => format!("{:.1} s", nanos as f64 / 1e9),
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", control as u32);
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
