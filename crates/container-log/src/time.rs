//! Points in time as logs have them: RFC 3339 with nanoseconds and an offset.

const DAY: i64 = 86_400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Since 1970, in UTC.
    pub nanos: i128,
    /// Of the zone it is written in, east of UTC.
    pub offset_minutes: i32,
}

impl Timestamp {
    pub fn utc(nanos: i128) -> Timestamp {
        Timestamp { nanos, offset_minutes: 0 }
    }

    /// `2006-01-02T15:04:05.999999999Z07:00`: as many digits of a second as there are, `Z` or an offset.
    pub fn parse(text: &[u8]) -> Option<Timestamp> {
        let mut rest = text;
        let year = number(&mut rest, 4)?;
        let month = after(&mut rest, b'-', 2).filter(|month| (1..=12).contains(month))?;
        let day = after(&mut rest, b'-', 2).filter(|day| (1..=days_in(year, month)).contains(day))?;
        let hour = after(&mut rest, b'T', 2).filter(|hour| *hour < 24)?;
        let minute = after(&mut rest, b':', 2).filter(|minute| *minute < 60)?;
        let second = after(&mut rest, b':', 2).filter(|second| *second < 60)?;
        let fraction = fraction(&mut rest)?;
        let offset_minutes = match rest {
            b"Z" => 0,
            [sign @ (b'+' | b'-'), ..] => {
                rest = &rest[1..];
                let hours = number(&mut rest, 2).filter(|hours| *hours < 24)?;
                let minutes = after(&mut rest, b':', 2).filter(|minutes| *minutes < 60)?;
                if !rest.is_empty() {
                    return None;
                }
                (hours * 60 + minutes) * if *sign == b'-' { -1 } else { 1 }
            }
            _ => return None,
        };
        let days = days_from_civil(year, month, day);
        let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset_minutes * 60;
        let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(fraction);
        Some(Timestamp { nanos, offset_minutes: offset_minutes as i32 })
    }

    /// With all nine digits.
    pub fn format(&self) -> String {
        let local = self.nanos + i128::from(self.offset_minutes) * 60_000_000_000;
        let (seconds, nanos) = (local.div_euclid(1_000_000_000) as i64, local.rem_euclid(1_000_000_000));
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
        let of_day = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let zone = match self.offset_minutes {
            0 => "Z".to_owned(),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        };
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}{zone}")
    }

    /// `20060102-150405`, which rotated files are named by.
    pub(crate) fn file_suffix(&self) -> String {
        let text = self.format();
        let digits: String = text[..19].chars().filter(char::is_ascii_digit).collect();
        format!("{}-{}", &digits[..8], &digits[8..])
    }
}

fn number(rest: &mut &[u8], digits: usize) -> Option<i64> {
    let text = rest.split_off(..digits)?;
    text.iter()
        .try_fold(0, |number, byte| byte.is_ascii_digit().then(|| number * 10 + i64::from(byte - b'0')))
}

fn after(rest: &mut &[u8], separator: u8, digits: usize) -> Option<i64> {
    (*rest.split_off_first()? == separator).then_some(())?;
    number(rest, digits)
}

/// Of a second, in nanoseconds; digits beyond the ninth do not count.
fn fraction(rest: &mut &[u8]) -> Option<i64> {
    if !matches!(rest.first(), Some(b'.' | b',')) {
        return Some(0);
    }
    let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let mut nanos = 0;
    for at in 0..9 {
        nanos = nanos * 10 + if at < digits { i64::from(rest[1 + at] - b'0') } else { 0 };
    }
    *rest = &rest[1 + digits..];
    Some(nanos)
}

fn days_in(year: i64, month: i64) -> i64 {
    let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next_year, next_month, 1) - days_from_civil(year, month, 1)
}

/// Days since 1970 in the Gregorian calendar, whose years here begin in March, so that leap days end them.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = (shifted + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_survive_parsing_and_formatting() {
        for text in [
            "2016-10-06T00:17:09.669794202Z",
            "1970-01-01T00:00:00.000000000Z",
            "2024-02-29T23:59:59.999999999Z",
            "2026-12-31T12:00:00.100000000+05:30",
            "1969-12-31T23:59:59.000000001-08:00",
            "0001-01-01T00:00:00.000000000Z",
            "9999-12-31T23:59:59.000000000Z",
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()).unwrap().format(), text);
        }
    }

    #[test]
    fn short_and_long_fractions_are_read() {
        let nanos = |text: &str| Timestamp::parse(text.as_bytes()).map(|time| time.nanos);
        assert_eq!(nanos("1970-01-01T00:00:01Z"), Some(1_000_000_000));
        assert_eq!(nanos("1970-01-01T00:00:00.5Z"), Some(500_000_000));
        assert_eq!(nanos("1970-01-01T00:00:00.1234567899Z"), Some(123_456_789));
        assert_eq!(nanos("1970-01-01T01:00:00+01:00"), Some(0));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2016-10-06",
            "2016-13-06T00:00:00Z",
            "2016-02-30T00:00:00Z",
            "2016-10-06T24:00:00Z",
            "2016-10-06T00:00:00",
            "2016-10-06T00:00:00.Z",
            "2016-10-06T00:00:00Zx",
            "2016-10-06T00:00:00+01:00x",
            "2016-10-06T00:00:00+24:00",
            "x016-10-06T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn rotated_files_are_named_by_the_second() {
        let time = Timestamp::parse(b"2026-11-17T18:33:19.5Z").unwrap();
        assert_eq!(time.file_suffix(), "20261117-183319");
    }
}
