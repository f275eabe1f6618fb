//! Points in time, with the offset they were written with.

use object::time;

/// Go's `time.Time` as far as expressions see it. Equality and order ignore the offset, text does not.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    pub seconds: i64,
    pub nanos: u32,
    /// East of UTC, in seconds.
    pub offset: i32,
}

/// From the year 1 to the end of 9999.
const SECONDS: std::ops::RangeInclusive<i64> = time::ZERO_SECONDS..=253_402_300_799;

impl Timestamp {
    pub fn new(seconds: i64, nanos: u32, offset: i32) -> Option<Timestamp> {
        SECONDS.contains(&seconds).then_some(Timestamp { seconds, nanos, offset })
    }

    /// RFC 3339, as Go parses it. May be outside the range `timestamp()` accepts.
    pub fn parse(text: &str) -> Option<Timestamp> {
        let [local @ .., sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = text.as_bytes() else {
            let (seconds, nanos) = time::parse(text)?;
            return Some(Timestamp { seconds, nanos, offset: 0 });
        };
        let number = |tens: u8, ones: u8| {
            let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
            digits.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
        };
        // Go accepts a whole day, and sixty minutes.
        let hours = number(*h1, *h2).filter(|hours| *hours <= 24)?;
        let minutes = number(*m1, *m2).filter(|minutes| *minutes <= 60)?;
        let offset = (hours * 3600 + minutes * 60) * if *sign == b'-' { -1 } else { 1 };
        let (seconds, nanos) = time::parse(&format!("{}Z", std::str::from_utf8(local).ok()?))?;
        Some(Timestamp { seconds: seconds - i64::from(offset), nanos, offset })
    }

    pub(crate) fn in_range(self) -> bool {
        SECONDS.contains(&self.seconds)
    }

    /// The format `date`.
    pub(crate) fn parse_date(text: &str) -> Result<Timestamp, String> {
        // A date is what a time at midnight starts with; Go's message names the layout without the time.
        match time::parse_layout(&format!("{text}T00:00:00Z"), time::Layout::Seconds) {
            Ok((seconds, nanos)) if text.len() == 10 => Ok(Timestamp { seconds, nanos, offset: 0 }),
            Ok(_) => Err(format!("parsing time {text:?} as \"2006-01-02\": cannot parse")),
            Err(error) => Err(error
                .to_string()
                .replace("T00:00:00Z\"", "\"")
                .replace("2006-01-02T15:04:05Z07:00", "2006-01-02")),
        }
    }

    /// The format `date-time`: strfmt accepts more than RFC 3339.
    pub(crate) fn parse_date_time(text: &str) -> Result<Timestamp, String> {
        if text.is_empty() {
            // The beginning of 1970, as strfmt has it.
            return Ok(Timestamp { seconds: 0, nanos: 0, offset: 0 });
        }
        if let Some(parsed) = Timestamp::parse(text) {
            return Ok(parsed);
        }
        // Without a zone, without seconds, with a zone without its colon.
        let (local, zone) = match text.len() {
            n if n > 19 && matches!(text.as_bytes()[n - 5], b'+' | b'-') && text.is_ascii() => {
                (&text[..n - 5], format!("{}:{}", &text[n - 5..n - 2], &text[n - 2..]))
            }
            _ if text.ends_with('Z') => (&text[..text.len() - 1], String::from("Z")),
            _ => (text, String::from("Z")),
        };
        let candidates = [
            format!("{local}{zone}"),
            format!("{local}:00{zone}"),
            format!("{}{zone}", local.replacen(' ', "T", 1)),
        ];
        candidates.iter().find_map(|candidate| Timestamp::parse(candidate)).ok_or_else(|| {
            match time::parse_layout(text, time::Layout::Seconds) {
                Err(error) => error.to_string(),
                Ok(_) => String::from("invalid time"),
            }
        })
    }

    /// RFC 3339 with as many digits of fraction as needed, in its own zone.
    pub fn text(self) -> String {
        let mut out = time::format_seconds(self.seconds + i64::from(self.offset));
        out.pop();
        if self.nanos > 0 {
            let digits = format!(".{:09}", self.nanos);
            out.push_str(digits.trim_end_matches('0'));
        }
        match self.offset {
            0 => out.push('Z'),
            offset => {
                let minutes = offset.abs() / 60;
                let sign = if offset < 0 { '-' } else { '+' };
                out.push_str(&format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60));
            }
        }
        out
    }

    /// Nanoseconds since 1970.
    pub(crate) fn total_nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        (self.seconds, self.nanos) == (other.seconds, other.nanos)
    }
}

/// The format `duration`: Go's `1h30m`, or a number and a unit in words (`3 days`).
pub(crate) fn parse_format_duration(text: &str) -> Result<i64, String> {
    if let Ok(nanos) = time::parse_duration(text) {
        return Ok(nanos);
    }
    let invalid = || format!("unable to parse {text:?} as duration");
    let mut total: Option<i64> = None;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => 1,
            "us" | "µs" | "micro" | "micros" | "microsecond" | "microseconds" => 1_000,
            "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "wk" | "wks" | "week" | "weeks" => 604_800_000_000_000,
            _ => return Err(invalid()),
        };
        let part = number.checked_mul(unit).ok_or_else(invalid)?;
        total = Some(total.unwrap_or(0).checked_add(part).ok_or_else(invalid)?);
        rest = rest[letters..].trim_start();
    }
    total.ok_or_else(invalid)
}
