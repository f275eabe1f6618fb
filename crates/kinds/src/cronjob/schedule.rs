//! Cron schedules: five fields of numbers, ranges, steps and names, or `@daily` and its like.

use object::time;
use timezone::Zone;

/// When something happens, by the clocks of a zone. Read with [`Schedule::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub when: When,
    pub zone: Zone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Bit `n` of a field: it happens at that minute, hour, day of the month (1-31), month (1-12), day of the week (0 is Sunday).
    Fields {
        minutes: u64,
        hours: u64,
        days: u64,
        months: u64,
        weekdays: u64,
        /// A day must match `days` and `weekdays` if either was `*`; otherwise one of the two is enough.
        both_days: bool,
    },
    /// Every so many seconds, counted from the last time.
    EverySeconds(u64),
}

struct Bounds {
    low: u64,
    high: u64,
    /// Names of values, from `low` on.
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds { low: 0, high: 59, names: &[] };
const HOURS: Bounds = Bounds { low: 0, high: 23, names: &[] };
const DAYS: Bounds = Bounds { low: 1, high: 31, names: &[] };
const MONTHS: Bounds = Bounds {
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAYS: Bounds =
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

/// Bits, and whether the field stood for every value.
type Field = (u64, bool);

impl Schedule {
    /// The error is that of the library upstream parses schedules with.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (zone, text) = split_zone(text)?;
        if text.starts_with('@') {
            return Ok(Schedule { when: descriptor(text)?, zone });
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            let listed = fields.join(" ");
            return Err(format!("expected exactly 5 fields, found {}: [{listed}]", fields.len()));
        };
        let (minutes, _) = field(minute, &MINUTES)?;
        let (hours, _) = field(hour, &HOURS)?;
        let (days, any_day) = field(day, &DAYS)?;
        let (months, _) = field(month, &MONTHS)?;
        let (weekdays, any_weekday) = field(weekday, &WEEKDAYS)?;
        let both_days = any_day || any_weekday;
        let when = When::Fields { minutes, hours, days, months, weekdays, both_days };
        Ok(Schedule { when, zone })
    }
}

/// `TZ=Europe/Vienna 0 5 * * *` names its zone first.
fn split_zone(text: &str) -> Result<(Zone, &str), String> {
    if !text.starts_with("TZ=") && !text.starts_with("CRON_TZ=") {
        return Ok((Zone::UTC, text));
    }
    // The library cuts the zone out before looking whether anything follows it.
    let Some((zone, rest)) = text.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    let name = zone.split_once('=').map_or("", |(_, zone)| zone);
    let zone = Zone::load(name).map_err(|error| format!("provided bad location {name}: {error}"))?;
    Ok((zone, rest.trim()))
}

fn descriptor(text: &str) -> Result<When, String> {
    let all = |bounds: &Bounds| bits(bounds.low, bounds.high, 1);
    let fields = |hours, days, months, weekdays| When::Fields {
        minutes: 1,
        hours,
        days,
        months,
        weekdays,
        both_days: true,
    };
    let (hours, days, months, weekdays) = (all(&HOURS), all(&DAYS), all(&MONTHS), all(&WEEKDAYS));
    Ok(match text {
        "@yearly" | "@annually" => fields(1, 1 << 1, 1 << 1, weekdays),
        "@monthly" => fields(1, 1 << 1, months, weekdays),
        "@weekly" => fields(1, days, months, 1),
        "@daily" | "@midnight" => fields(1, days, months, weekdays),
        "@hourly" => fields(hours, days, months, weekdays),
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let nanos = time::parse_duration(duration)
                .map_err(|error| format!("failed to parse duration {text}: {error}"))?;
            // Less than a second is a second, and parts of one are dropped.
            let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(0);
            When::EverySeconds(seconds.max(1))
        }
    })
}

fn field(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let (mut all, mut star) = (0, false);
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (bits, any) = range(part, bounds)?;
        all |= bits;
        star |= any;
    }
    Ok((all, star))
}

/// `*`, `5`, `1-5`, `*/2`, `1-5/2`, `5/10`.
fn range(text: &str, bounds: &Bounds) -> Result<Field, String> {
    let parts: Vec<&str> = text.split('/').collect();
    let limits: Vec<&str> = parts[0].split('-').collect();
    let mut star = matches!(limits[0], "*" | "?");
    let (low, mut high) = if star {
        (bounds.low, bounds.high)
    } else {
        let low = number_or_name(limits[0], bounds)?;
        match limits.as_slice() {
            [_] => (low, low),
            [_, high] => (low, number_or_name(high, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if limits.len() == 1 {
                high = bounds.high;
            }
            star &= step <= 1;
            step
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if low < bounds.low {
        return Err(format!("beginning of range ({low}) below minimum ({}): {text}", bounds.low));
    }
    if high > bounds.high {
        return Err(format!("end of range ({high}) above maximum ({}): {text}", bounds.high));
    }
    if low > high {
        return Err(format!("beginning of range ({low}) beyond end of range ({high}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok((bits(low, high, step), star))
}

/// Both ends are at most 59.
fn bits(low: u64, high: u64, step: u64) -> u64 {
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    (low..=high).step_by(step).fold(0, |bits, n| bits | 1 << n)
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    if let Some(at) = bounds.names.iter().position(|name| *name == lower) {
        return Ok(bounds.low + at as u64);
    }
    number(text)
}

fn number(text: &str) -> Result<u64, String> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", object::quote(text))
    })?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}
