//! Parsing quantities: sign, digits, suffix, and the roundings upstream applies.

use super::{Format, Quantity, QuantityError, divide_away};

/// Suffixes of 1024^0, 1024^1 and so on.
pub(super) const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

const DECIMAL: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];

/// Larger exponents are rejected (upstream accepts any and may then compute for hours); smaller ones round to nano.
const MAX_EXPONENT: i64 = 1_000;
/// As many as 127 bits hold of any number.
const MAX_DIGITS: usize = 38;

pub(super) fn decimal_suffix(exponent: i32) -> &'static str {
    DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(s, _)| s)
}

pub(super) struct Parsed {
    pub quantity: Quantity,
    /// Upstream holds the number in 64 bits.
    pub small: bool,
    /// Upstream stores the text as it came.
    pub keeps_text: bool,
}

pub(super) fn parse(text: &str) -> Result<Parsed, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = Parts::split(text)?;
    let (exponent, format) = suffix(parts.suffix)?;
    let digits = (parts.whole.len() + parts.fraction.len()) as i64;
    let sign = if parts.negative { -1 } else { 1 };
    let quantity =
        |mantissa: i128, scale: i32, format: Format| Quantity { mantissa: sign * mantissa, scale, format };
    let small = |quantity: Quantity, keeps_text: bool| {
        // Upstream's shortest text of a zero is always "0".
        Ok(Parsed { quantity, small: true, keeps_text: keeps_text || text == "0" })
    };
    let long = |quantity: Quantity| Ok(Parsed { quantity, small: false, keeps_text: false });
    match format {
        Format::BinarySi => {
            let precision = 15 - parts.whole.len() as i64 - exponent * 3 / 10 - 1;
            if parts.fraction.is_empty() && precision >= 0 {
                let whole = number(parts.whole, "")?;
                // In its shortest form already, upstream guesses, when the number is no multiple of eight.
                return small(quantity(whole << exponent, 0, format), whole & 7 != 0);
            }
            parts.need_digits()?;
            let (mantissa, scale) = binary_fraction(&parts, exponent)?;
            let tiny = mantissa > 0 && scale < 0 && mantissa < 1_000_000_000;
            long(quantity(mantissa, scale, if tiny { Format::DecimalSi } else { format }))
        }
        Format::DecimalSi | Format::DecimalExponent => {
            let (whole, zeros) = parts.whole_and_zeros();
            let mantissa = number(whole, parts.fraction)?;
            let scale = (exponent + zeros as i64 - parts.kept_fraction() as i64) as i32;
            if format == Format::DecimalExponent && shortest_exponent(mantissa, scale) > MAX_EXPONENT {
                return Err(QuantityError::Suffix);
            }
            if digits <= 18 && scale >= -9 {
                let first = parts.whole.as_bytes()[0];
                let ends_in_thousand = {
                    let mut tail = parts.fraction.bytes().rev().chain(parts.whole.bytes().rev());
                    digits >= 3 && tail.by_ref().take(3).all(|c| c == b'0')
                };
                let keeps_text = scale % 3 == 0 && !ends_in_thousand && first != b'0';
                return small(quantity(mantissa, scale, format), keeps_text);
            }
            parts.need_digits()?;
            if scale < -9 {
                return long(quantity(divide_away(mantissa, scale.abs_diff(-9)), -9, format));
            }
            long(quantity(mantissa, scale, format))
        }
    }
}

struct Parts<'a> {
    negative: bool,
    has_digits: bool,
    /// Without leading zeros; never empty.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Parts<'a>, QuantityError> {
        let (negative, signless) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, mut rest) = split_digits(signless.trim_start_matches('0'));
        let whole = if whole.is_empty() { "0" } else { whole };
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            (fraction, rest) = split_digits(after);
        }
        // The suffix's letters, a sign, digits; anything else does not match.
        let after = rest.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let after = after.strip_prefix(['-', '+']).unwrap_or(after);
        if !after.bytes().all(|c| c.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let has_digits = signless.starts_with(|c: char| c.is_ascii_digit()) || !fraction.is_empty();
        Ok(Parts { negative, has_digits, whole, fraction, suffix: rest })
    }

    /// Upstream takes a bare suffix for zero (`Mi`), except where it computes with long numbers.
    fn need_digits(&self) -> Result<(), QuantityError> {
        if self.has_digits { Ok(()) } else { Err(QuantityError::Numeric) }
    }

    /// The whole part, of which zeros at the end may be left out: they are size and no precision, and our own texts have up to
    /// two more of them than what was read (`120n`).
    fn whole_and_zeros(&self) -> (&'a str, usize) {
        let digits = self.whole.trim_end_matches('0').len().max(MAX_DIGITS);
        match self.fraction.is_empty() && digits < self.whole.len() {
            true => (&self.whole[..digits], self.whole.len() - digits),
            false => (self.whole, 0),
        }
    }

    /// Digits of the fraction that [`number`] takes into the mantissa.
    fn kept_fraction(&self) -> usize {
        self.fraction.len().min(MAX_DIGITS.saturating_sub(self.whole.len()))
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn suffix(text: &str) -> Result<(i64, Format), QuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(s, _)| *s == text) {
        return Ok((i64::from(*exponent), Format::DecimalSi));
    }
    if let Some(power) = BINARY.iter().position(|s| *s == text) {
        return Ok((power as i64 * 10, Format::BinarySi));
    }
    let exponent = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    match exponent.parse::<i64>() {
        Ok(e) if e <= MAX_EXPONENT => Ok((e.max(-2 * MAX_EXPONENT), Format::DecimalExponent)),
        _ => Err(QuantityError::Suffix),
    }
}

/// The exponent of the same number without zeros at the end: what is written must be read again.
fn shortest_exponent(mut mantissa: i128, scale: i32) -> i64 {
    let mut exponent = i64::from(scale);
    while mantissa != 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    exponent
}

/// All digits as one number. Digits of the fraction beyond the 38th only round it up.
fn number(whole: &str, fraction: &str) -> Result<i128, QuantityError> {
    if whole.len() > MAX_DIGITS {
        return Err(QuantityError::Numeric);
    }
    let (kept, cut) = fraction.split_at(fraction.len().min(MAX_DIGITS - whole.len()));
    let digits = whole.bytes().chain(kept.bytes());
    let mantissa = digits.fold(0i128, |n, c| n * 10 + i128::from(c - b'0'));
    Ok(mantissa + i128::from(cut.bytes().any(|c| c != b'0')))
}

/// A number times a power of two: in nanos rounded up, at most what 63 bits hold. Mantissa and scale.
fn binary_fraction(parts: &Parts<'_>, exponent: i64) -> Result<(i128, i32), QuantityError> {
    const MAX: (i128, i32) = (i64::MAX as i128, 0);
    if parts.whole.len() > 19 {
        return Ok(MAX);
    }
    // 19 digits times 2^60 stay below 2^127.
    let whole = number(parts.whole, "")? << exponent;
    let (kept, cut) = parts.fraction.split_at(parts.fraction.len().min(18));
    let fraction = number("0", kept)? + i128::from(cut.bytes().any(|c| c != b'0'));
    let places = kept.len() as u32;
    let fraction = fraction << exponent;
    let nanos =
        if places > 9 { divide_away(fraction, places - 9) } else { fraction * 10i128.pow(9 - places) };
    if whole >= MAX.0 {
        return Ok(MAX);
    }
    Ok((whole * 1_000_000_000 + nanos, -9)).map(|(m, s)| if m > MAX.0 * 1_000_000_000 { MAX } else { (m, s) })
}
