//! The subset of DER that certificates need: a writer of nested values and a reader that never panics.

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const BIT_STRING: u8 = 0x03;
pub const OCTET_STRING: u8 = 0x04;
pub const OID: u8 = 0x06;
pub const UTF8_STRING: u8 = 0x0c;
pub const UTC_TIME: u8 = 0x17;
pub const GENERALIZED_TIME: u8 = 0x18;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// A value: tag, length, content.
pub fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() + 6);
    out.push(tag);
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = &bytes[bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len() - 1)..];
        out.push(0x80 | bytes.len() as u8);
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// A constructed value.
pub fn nest(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(tag, &parts.concat())
}

/// Wraps the content in a sequence.
pub fn sequence(content: &[u8]) -> Vec<u8> {
    value(SEQUENCE, content)
}

/// A positive integer from big-endian bytes.
pub fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len());
    let mut content = Vec::with_capacity(bytes.len() + 1);
    // A leading one bit would make it negative.
    if bytes.get(start).is_none_or(|b| b & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(&bytes[start..]);
    value(INTEGER, &content)
}

/// A bit string of whole bytes.
pub fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// A time: UTCTime up to 2049, GeneralizedTime from 2050 on (RFC 5280).
pub fn time(unix_seconds: u64) -> Vec<u8> {
    let (year, month, day) = civil(unix_seconds / 86_400);
    let second = unix_seconds % 86_400;
    let rest = format!("{month:02}{day:02}{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60);
    match year {
        1950..2050 => value(UTC_TIME, format!("{:02}{rest}", year % 100).as_bytes()),
        _ => value(GENERALIZED_TIME, format!("{year:04}{rest}").as_bytes()),
    }
}

/// Reads consecutive values from untrusted bytes.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next value's tag, content, and all of its bytes.
    pub fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let whole = self.rest;
        let (&tag, rest) = whole.split_first()?;
        // Tags above 30 take several bytes; no certificate has them.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (&first, mut rest) = rest.split_first()?;
        let mut length = usize::from(first);
        if first >= 0x80 {
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 || rest.len() < count {
                return None;
            }
            let (bytes, after) = rest.split_at(count);
            length = bytes.iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
            rest = after;
        }
        if rest.len() < length {
            return None;
        }
        let (content, after) = rest.split_at(length);
        self.rest = after;
        Some((tag, content, &whole[..whole.len() - after.len()]))
    }

    /// The content of the next value, which must have this tag.
    pub fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content, _) = self.next()?;
        (found == tag).then_some(content)
    }

    pub fn inside(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.expect(tag).map(Reader::new)
    }

    /// Unix seconds of the next value; a time before 1970 is 0.
    pub fn time(&mut self) -> Option<u64> {
        let (tag, content, _) = self.next()?;
        let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
        if !text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let (year, rest) = match (tag, text.len()) {
            (UTC_TIME, 12) => {
                let year: u64 = text[..2].parse().ok()?;
                (if year < 50 { 2000 + year } else { 1900 + year }, &text[2..])
            }
            (GENERALIZED_TIME, 14) => (text[..4].parse().ok()?, &text[4..]),
            _ => return None,
        };
        let part = |at: usize| rest[at..at + 2].parse::<u64>().ok();
        let (month, day) = (part(0)?, part(2)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        if year < 1970 {
            return Some(0);
        }
        Some(days_since_1970(year, month, day) * 86_400 + part(4)? * 3600 + part(6)? * 60 + part(8)?)
    }
}

/// Year, month and day of a day number (0 is 1970-01-01), in the Gregorian calendar (years start in March, so
/// that the leap day is the last day of a year).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    (era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year)
        .saturating_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_round_trip() {
        for (unix, text) in [
            (0, "700101000000Z"),
            (951_782_400, "000229000000Z"),
            (1_767_225_599, "251231235959Z"),
            (2_524_608_000, "20500101000000Z"),
        ] {
            let encoded = time(unix);
            assert_eq!(&encoded[2..], text.as_bytes());
            assert_eq!(Reader::new(&encoded).time(), Some(unix));
        }
    }

    #[test]
    fn a_time_before_1970_is_0() {
        assert_eq!(Reader::new(&value(UTC_TIME, b"500101000000Z")).time(), Some(0));
        assert_eq!(Reader::new(&value(UTC_TIME, b"501301000000Z")).time(), None);
    }

    #[test]
    fn lengths_and_integers_are_minimal() {
        assert_eq!(value(4, &[0; 127])[..2], [4, 127]);
        assert_eq!(value(4, &[0; 128])[..3], [4, 0x81, 128]);
        assert_eq!(value(4, &[0; 256])[..4], [4, 0x82, 1, 0]);
        assert_eq!(integer(&[0, 0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0]), [2, 1, 0]);
    }
}
