//! Durations as Go writes and reads them: `1h30m`, `100ms`, `2m0s`.

/// Signed nanoseconds; `None`: it is none, or one that no 64 bits hold.
pub fn parse(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').filter(|end| *end > 0)?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let unit: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            _ => return None,
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || whole.len() > 19 || fraction.contains('.') {
            return None;
        }
        let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
        // More digits than this are less than a nanosecond of an hour.
        let fraction = &fraction[..fraction.len().min(15)];
        let part = digits(fraction)? * unit / 10_i128.pow(fraction.len() as u32);
        total = total.checked_add(digits(whole)?.checked_mul(unit)?)?.checked_add(part)?;
        rest = after;
    }
    i64::try_from(sign * total).ok().filter(|_| text.bytes().any(|b| b.is_ascii_digit()))
}

const SECOND: i128 = 1_000_000_000;

/// As Go's `Duration.String`.
pub fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let text = format!("{:0width$}", value % unit, width = unit.ilog10() as usize);
        let text = text.trim_end_matches('0').to_owned();
        if text.is_empty() { (value / unit).to_string() } else { format!("{}.{text}", value / unit) }
    };
    let text = match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(nanos, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(nanos, 1_000_000)),
        _ => {
            let seconds = nanos / 1_000_000_000;
            let below = fraction(nanos % 60_000_000_000, 1_000_000_000);
            match (seconds / 3600, seconds / 60 % 60) {
                (0, 0) => format!("{below}s"),
                (0, minutes) => format!("{minutes}m{below}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{below}s"),
            }
        }
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, nanos, again) in [
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("100ms", 100_000_000, "100ms"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("-20s", -20_000_000_000, "-20s"),
            ("2m", 120_000_000_000, "2m0s"),
            ("4h", 14_400_000_000_000, "4h0m0s"),
            (".5us", 500, "500ns"),
            ("1500ns", 1500, "1.5µs"),
        ] {
            assert_eq!(parse(text), Some(nanos), "{text}");
            assert_eq!(format(nanos), again, "{text}");
        }
        for odd in ["", "1", "s", "1d", "1.2.3s", ".s", "9999999999h", "1h 2m", "-", "1sé"] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }
}
