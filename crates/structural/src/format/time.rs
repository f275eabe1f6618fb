//! Dates, times and durations.

/// `2006-01-02`, a day that exists.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| {
        bytes[range].iter().try_fold(0u32, |n, c| c.is_ascii_digit().then(|| n * 10 + u32::from(c - b'0')))
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// `2006-01-02T15:04:05.123+01:00`. What follows a second `t` is not looked at, and the fraction may begin with any character:
/// upstream's pattern has a dot there that means so.
pub(super) fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    text.len() >= 4 && is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let digits = |text: &str, count: usize| {
        text.len() >= count && text.as_bytes()[..count].iter().all(u8::is_ascii_digit)
    };
    let clock =
        |at: usize, most: &str| text.get(at..at + 2).is_some_and(|part| digits(part, 2) && part <= most);
    let colon = |at: usize| text.as_bytes().get(at) == Some(&b':');
    if !(clock(0, "23") && colon(2) && clock(3, "59") && colon(5) && clock(6, "59")) {
        return false;
    }
    let is_zone = |zone: &str| {
        zone == "z"
            || (zone.len() == 6
                && zone.starts_with(['+', '-'])
                && digits(&zone[1..], 2)
                && zone.as_bytes()[3] == b':'
                && digits(&zone[4..], 2))
    };
    let rest = &text[8..];
    if is_zone(rest) {
        return true;
    }
    let mut chars = rest.chars();
    match chars.next() {
        None | Some('\n') => false,
        Some(_) => {
            let fraction = chars.as_str();
            let count = fraction.bytes().take_while(u8::is_ascii_digit).count();
            count > 0 && is_zone(&fraction[count..])
        }
    }
}

/// `1h30m`, as Go writes them, or words: `3 days and 2 hours`.
pub(super) fn is_duration(text: &str) -> bool {
    is_go_duration(text) || has_words(text)
}

/// Numbers with units; what is between them is not looked at. A number that no integer holds is none.
fn has_words(text: &str) -> bool {
    const WORDS: [(&[&str], &str); 8] = [
        (&["ns"], "nano"),
        (&["us", "µs"], "micro"),
        (&["ms"], "milli"),
        (&["s"], "sec"),
        (&["m"], "min"),
        (&["h", "hr"], "hour"),
        (&["d"], "day"),
        (&["w", "wk"], "week"),
    ];
    let mut found = false;
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = rest[digits..].trim_start_matches([' ', '\t', '\n', '\u{c}', '\r']);
        let end = after.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(after.len());
        if end == 0 {
            rest = &rest[digits..];
            continue;
        }
        if rest[..digits].parse::<i64>().is_err() {
            return false;
        }
        let unit = after[..end].to_lowercase();
        found |= WORDS.iter().any(|(short, long)| short.contains(&unit.as_str()) || unit.starts_with(long));
        rest = &after[end..];
    }
    found
}

/// `[-+](digits[.digits]unit)+` or zero, not beyond 64 bits of nanoseconds.
fn is_go_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    if unsigned.is_empty() {
        return false;
    }
    let mut rest = unsigned;
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, after) = rest.split_at(whole);
        let fraction = after.strip_prefix('.').map(|f| f.bytes().take_while(u8::is_ascii_digit).count());
        if whole == 0 && fraction.unwrap_or(0) == 0 {
            return false;
        }
        let after = &after[fraction.map_or(0, |count| count + 1)..];
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit: u128 = match &after[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return false,
        };
        let number = if digits.is_empty() { Ok(0) } else { digits.parse::<u64>() };
        let Ok(number) = number else { return false };
        total = total.saturating_add(u128::from(number) * unit);
        if let Some(count) = fraction {
            let start = whole + 1;
            let text = format!("0.{}", &rest[start..start + count]);
            total = total.saturating_add((text.parse::<f64>().unwrap_or(0.0) * unit as f64) as u128);
        }
        if total > 1 << 63 {
            return false;
        }
        rest = &after[end..];
    }
    total < 1 << 63 || text.starts_with('-')
}
