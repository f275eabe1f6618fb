//! Times and durations as text: RFC 3339 and Go's `1h2m3s`, parsed and formatted the way Go does.

mod duration;

#[cfg(test)]
mod tests;

pub use duration::{DurationError, format_duration, parse_duration};

use thiserror::Error;

/// Seconds from 1970 to the year 1: Go's zero time, which the API writes as null.
pub const ZERO_SECONDS: i64 = -62_135_596_800;

/// The two forms the API uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `metav1.Time`: a fraction is accepted, and dropped when formatted.
    Seconds,
    /// `metav1.MicroTime`: exactly six digits of fraction, in and out.
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Layout::Seconds => "2006-01-02T15:04:05Z07:00",
            Layout::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Why a text is not a time, worded as in Go.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimeError {
    #[error("parsing time {} as \"{layout}\": cannot parse {} as \"{element}\"", quote(.text), quote(.rest))]
    Unreadable { text: String, layout: &'static str, rest: String, element: &'static str },
    #[error("parsing time {}: {part} out of range", quote(.text))]
    OutOfRange { text: String, part: &'static str },
    #[error("parsing time {}: extra text: {}", quote(.text), quote(.rest))]
    ExtraText { text: String, rest: String },
}

/// `2024-05-01T10:00:00Z`.
pub fn format_seconds(unix: i64) -> String {
    let mut out = String::with_capacity(20);
    push_civil(&mut out, unix);
    out.push('Z');
    out
}

/// `2024-05-01T10:00:00.000001Z`; finer digits are cut off.
pub fn format_micros(unix: i64, nanos: u32) -> String {
    let mut out = String::with_capacity(27);
    push_civil(&mut out, unix);
    out.push('.');
    push_digits(&mut out, u64::from(nanos / 1000), 6);
    out.push('Z');
    out
}

/// Seconds since 1970 and nanoseconds, of any RFC 3339 text Go accepts.
pub fn parse(text: &str) -> Option<(i64, u32)> {
    parse_layout(text, Layout::Seconds).ok()
}

/// As [`parse`], strict about the layout, and saying what is wrong.
pub fn parse_layout(text: &str, layout: Layout) -> Result<(i64, u32), TimeError> {
    let mut scan = Scan { text, rest: text, layout };
    let year = scan.fixed(4, "2006")?;
    scan.literal("-")?;
    let month = scan.fixed(2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(scan.out_of_range("month"));
    }
    scan.literal("-")?;
    let day = scan.fixed(2, "02")?;
    scan.literal("T")?;
    let hour = scan.hour()?;
    if hour > 23 {
        return Err(scan.out_of_range("hour"));
    }
    scan.literal(":")?;
    let minute = scan.fixed(2, "04")?;
    if minute > 59 {
        return Err(scan.out_of_range("minute"));
    }
    scan.literal(":")?;
    let second = scan.fixed(2, "05")?;
    if second > 59 {
        return Err(scan.out_of_range("second"));
    }
    let nanos = scan.fraction()?;
    let offset = scan.offset()?;
    if !scan.rest.is_empty() {
        return Err(TimeError::ExtraText { text: text.to_owned(), rest: scan.rest.to_owned() });
    }
    if day < 1 || day > days_in(year, month) {
        return Err(scan.out_of_range("day"));
    }
    let unix = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    // Differs from kube-apiserver: an offset may push the time out of the four-digit years, which upstream
    // stores as text it cannot read again.
    if !(YEAR_0..YEAR_10000).contains(&unix) {
        return Err(scan.out_of_range("year"));
    }
    Ok((unix, nanos))
}

const YEAR_0: i64 = -62_167_219_200;
const YEAR_10000: i64 = 253_402_300_800;

struct Scan<'a> {
    text: &'a str,
    rest: &'a str,
    layout: Layout,
}

impl Scan<'_> {
    fn unreadable(&self, element: &'static str) -> TimeError {
        TimeError::Unreadable {
            text: self.text.to_owned(),
            layout: self.layout.text(),
            rest: self.rest.to_owned(),
            element,
        }
    }

    fn out_of_range(&self, part: &'static str) -> TimeError {
        TimeError::OutOfRange { text: self.text.to_owned(), part }
    }

    fn literal(&mut self, expected: &'static str) -> Result<(), TimeError> {
        self.rest = self.rest.strip_prefix(expected).ok_or_else(|| self.unreadable(expected))?;
        Ok(())
    }

    /// Exactly `n` digits.
    fn fixed(&mut self, n: usize, element: &'static str) -> Result<i64, TimeError> {
        let number = digits(self.rest, n).ok_or_else(|| self.unreadable(element))?;
        self.rest = &self.rest[n..];
        Ok(number)
    }

    /// Go reads an hour of one digit too.
    fn hour(&mut self) -> Result<i64, TimeError> {
        let n = if digits(self.rest, 2).is_some() { 2 } else { 1 };
        self.fixed(n, "15")
    }

    fn fraction(&mut self) -> Result<u32, TimeError> {
        let rest = self.rest.as_bytes();
        let marked = matches!(rest.first(), Some(b'.' | b','));
        let n = rest.iter().skip(1).take_while(|c| c.is_ascii_digit()).count();
        match self.layout {
            Layout::Seconds if !marked || n == 0 => return Ok(0),
            Layout::Micros if !marked || n < 6 => return Err(self.unreadable(".000000")),
            _ => {}
        }
        let taken = if self.layout == Layout::Micros { 6 } else { n };
        let nanos = rest[1..=taken]
            .iter()
            .chain(std::iter::repeat(&b'0'))
            .take(9)
            .fold(0, |n, c| n * 10 + u32::from(c - b'0'));
        self.rest = &self.rest[taken + 1..];
        Ok(nanos)
    }

    /// Seconds east of Greenwich.
    fn offset(&mut self) -> Result<i64, TimeError> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let b = self.rest.as_bytes();
        if b.len() < 6 || b[3] != b':' || !self.rest.is_char_boundary(6) {
            return Err(self.unreadable(ELEMENT));
        }
        let sign = match b[0] {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(self.unreadable(ELEMENT)),
        };
        let part = |at: usize| self.rest.get(at..at + 2).and_then(|two| digits(two, 2));
        let (Some(hours), Some(minutes)) = (part(1), part(4)) else { return Err(self.unreadable(ELEMENT)) };
        // Go lets 24 hours and 60 minutes pass.
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

/// Text in an error, as Go's time package quotes it: whatever is no plain ASCII byte by byte.
fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.bytes() {
        match c {
            b'"' | b'\\' => out.extend(['\\', c as char]),
            0x20..0x80 => out.push(c as char),
            _ => out.push_str(&format!("\\x{c:02x}")),
        }
    }
    out.push('"');
    out
}

/// The number in the first `n` bytes, when all are digits.
fn digits(text: &str, n: usize) -> Option<i64> {
    let bytes = text.as_bytes().get(..n)?;
    bytes.iter().try_fold(0, |sum, c| c.is_ascii_digit().then(|| sum * 10 + i64::from(c - b'0')))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a day of the Gregorian calendar. Years begin in March, so that the leap day is the last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse: year, month, day.
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

fn push_civil(out: &mut String, unix: i64) {
    let (year, month, day) = civil_from_days(unix.div_euclid(86_400));
    let second = unix.rem_euclid(86_400);
    if year < 0 {
        out.push('-');
    }
    push_digits(out, year.unsigned_abs(), 4);
    for (mark, number) in
        [('-', month), ('-', day), ('T', second / 3600), (':', second / 60 % 60), (':', second % 60)]
    {
        out.push(mark);
        push_digits(out, number.unsigned_abs(), 2);
    }
}

fn push_digits(out: &mut String, number: u64, width: usize) {
    let mut buffer = [b'0'; 20];
    let mut at = buffer.len();
    let mut left = number;
    while left > 0 || buffer.len() - at < width {
        at -= 1;
        buffer[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    out.extend(buffer[at..].iter().map(|c| *c as char));
}
