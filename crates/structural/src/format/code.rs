//! Numbers and codes with fixed digits: UUIDs, ISBNs, cards, colours, base64, names.

/// With or without each of the four dashes. Versions 4 and 5 also fix the variant.
pub(super) fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text.as_bytes();
    for (part, digits) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if part > 0 {
            rest = rest.strip_prefix(b"-").unwrap_or(rest);
        }
        let Some((own, after)) = rest.split_at_checked(digits) else { return false };
        let fits = own.iter().all(u8::is_ascii_hexdigit)
            && (part != 2 || version.is_none_or(|version| own[0] == version))
            && (part != 3
                || !matches!(version, Some(b'4' | b'5'))
                || matches!(own[0].to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'));
        if !fits {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Without white space and dashes.
fn isbn(text: &str) -> Vec<u8> {
    text.bytes().filter(|c| !matches!(c, b' ' | b'\t' | b'\n' | 0x0c | b'\r' | b'-')).collect()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = isbn(text);
    let Some((last, nine)) = digits.split_last().filter(|(_, nine)| nine.len() == 9) else { return false };
    if !nine.iter().all(u8::is_ascii_digit) || !(last.is_ascii_digit() || *last == b'X') {
        return false;
    }
    let sum: u32 = nine.iter().zip(1u32..).map(|(c, i)| i * u32::from(c - b'0')).sum();
    let last = if *last == b'X' { 10 } else { u32::from(last - b'0') };
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = isbn(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let sum: u32 = digits.iter().zip([1, 3].into_iter().cycle()).map(|(c, f)| f * u32::from(c - b'0')).sum();
    sum.is_multiple_of(10)
}

/// Whatever is not a digit is ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|c| c - b'0').collect();
    let starts = |prefix: &[u8]| digits.starts_with(prefix);
    let known = match digits.len() {
        13 => starts(&[4]),
        14 => starts(&[3, 6]) || starts(&[3, 8]) || (starts(&[3, 0]) && digits[2] <= 5),
        15 => starts(&[3, 4]) || starts(&[3, 7]) || starts(&[2, 1, 3, 1]) || starts(&[1, 8, 0, 0]),
        16 => {
            starts(&[4])
                || (starts(&[5]) && (1..=5).contains(&digits[1]))
                || starts(&[6, 0, 1, 1])
                || starts(&[6, 5])
                || starts(&[3, 5])
        }
        _ => false,
    };
    let doubled = |(i, digit): (usize, &u8)| match i % 2 {
        0 => u32::from(*digit),
        _ => u32::from(if *digit > 4 { digit * 2 - 9 } else { digit * 2 }),
    };
    known && digits.iter().rev().enumerate().map(doubled).sum::<u32>().is_multiple_of(10)
}

/// `123-45-6789`; a dash may be a space.
pub(super) fn is_ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(i, c)| match i {
            3 | 6 => matches!(c, b'-' | b' '),
            _ => c.is_ascii_digit(),
        })
}

pub(super) fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|c| c.is_ascii_hexdigit())
}

/// `rgb(255, 0, 12)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let space = [' ', '\t', '\n', '\u{c}', '\r'];
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(|part| part.trim_matches(space)).collect();
    let fits = |part: &&str| {
        let plain = !part.is_empty() && part.len() <= 3 && part.bytes().all(|c| c.is_ascii_digit());
        plain && (*part == "0" || !part.starts_with('0')) && part.parse::<u16>().is_ok_and(|n| n <= 255)
    };
    parts.len() == 3 && parts.iter().all(fits)
}

/// Never empty.
pub(super) fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.is_empty() || !bytes.len().is_multiple_of(4) {
        return false;
    }
    let data = match bytes {
        [rest @ .., b'=', b'='] | [rest @ .., b'='] => rest,
        all => all,
    };
    data.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/'))
}

fn is_label(text: &str) -> bool {
    let edge = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-')
}

pub(super) fn is_short_name(text: &str) -> bool {
    text.len() <= 63 && is_label(text)
}

pub(super) fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
