//! Go's durations: `1h30m`, `1.5s`, `100ms`, held as nanoseconds.

use thiserror::Error;

use super::quote;

/// Why a text is not a duration, worded as in Go.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("time: invalid duration {}", quote(.0))]
    Invalid(String),
    #[error("time: missing unit in duration {}", quote(.0))]
    MissingUnit(String),
    #[error("time: unknown unit {} in duration {}", quote(.unit), quote(.text))]
    UnknownUnit { text: String, unit: String },
}

const NANOS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds.
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    let invalid = || DurationError::Invalid(text.to_owned());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    // One more than the largest positive value: the smallest negative one.
    const LIMIT: u64 = 1 << 63;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = leading_digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => leading_digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(text.to_owned()));
        }
        let Some((_, nanos)) = NANOS.iter().find(|(name, _)| *name == unit) else {
            return Err(DurationError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() });
        };
        let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| invalid())? };
        let mut part = whole.checked_mul(*nanos).filter(|n| *n <= LIMIT).ok_or_else(invalid)?;
        part += fraction_of(fraction, *nanos);
        total = total.checked_add(part).filter(|n| *n <= LIMIT).ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        return Ok((total as i64).wrapping_neg());
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// `1h0m0s`, `1.5s`, `20ms`, `0s`.
pub fn format_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let n = nanos.unsigned_abs();
    if n == 0 {
        return "0s".to_owned();
    }
    if n < 1_000 {
        return format!("{sign}{n}ns");
    }
    if n < 1_000_000 {
        return format!("{sign}{}µs", decimal(n, 3));
    }
    if n < 1_000_000_000 {
        return format!("{sign}{}ms", decimal(n, 6));
    }
    let minutes = n / 60_000_000_000;
    let seconds = decimal(n % 60_000_000_000, 9);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, m) => format!("{sign}{m}m{seconds}s"),
        (h, m) => format!("{sign}{h}h{m}m{seconds}s"),
    }
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// The part of `nanos` that decimal digits behind a point stand for; digits too fine to count are cut off.
fn fraction_of(digits: &str, nanos: u64) -> u64 {
    let (value, scale) =
        digits.bytes().take(18).fold((0u64, 1u64), |(v, s), c| (v * 10 + u64::from(c - b'0'), s * 10));
    (u128::from(value) * u128::from(nanos) / u128::from(scale)) as u64
}

/// `n` with its last `places` digits behind a point, trailing zeros left out.
fn decimal(n: u64, places: u32) -> String {
    let one = 10u64.pow(places);
    if n.is_multiple_of(one) {
        return (n / one).to_string();
    }
    let digits = format!("{}.{:0width$}", n / one, n % one, width = places as usize);
    digits.trim_end_matches('0').to_owned()
}
