//! Doubles as Go's `x/text` writes them in American English: `1,234.5`, `1.2×10⁰³`, `∞`.

/// A precision with more digits is not understood.
const MAX_PRECISION: i64 = 10_000_009;
const NOT_UNDERSTOOD: &str = "%!(NOVERB)";

/// `%f`, with a number of digits behind the point.
pub fn fixed(number: f64, precision: Option<i64>) -> String {
    let precision = precision.unwrap_or(6);
    if precision > MAX_PRECISION {
        return String::from(NOT_UNDERSTOOD);
    }
    let Some(digits) = Digits::of(number, |magnitude| {
        // Upstream keeps the most and the fewest digits in small integers, which wrap. No limit if it is negative.
        match usize::try_from(precision as i16) {
            Ok(most) => format!("{magnitude:.most$}"),
            Err(_) => format!("{magnitude}"),
        }
    }) else {
        return special(number);
    };
    let fewest = usize::from(precision as u8);
    let (whole, fraction) = digits.text.split_once('.').unwrap_or((&digits.text, ""));
    let fraction = fraction.trim_end_matches('0');
    let mut out = String::from(digits.sign);
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() || fewest > 0 {
        out.push('.');
        out.push_str(fraction);
        out.extend(std::iter::repeat_n('0', fewest.saturating_sub(fraction.len())));
    }
    out
}

/// `%e`, always with six digits behind the point: upstream takes the precision for a width.
pub fn scientific(number: f64, precision: Option<i64>) -> String {
    let width = precision.unwrap_or(6);
    if width > MAX_PRECISION {
        return String::from(NOT_UNDERSTOOD);
    }
    let text = match Digits::of(number, |magnitude| format!("{magnitude:.6e}")) {
        None => special(number),
        Some(digits) => {
            let (mantissa, exponent) = digits.text.split_once('e').unwrap_or((&digits.text, "0"));
            let (sign, exponent) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
            let padding = if exponent.len() < 2 { "⁰" } else { "" };
            let exponent: String = exponent.chars().map(superscript).collect();
            format!("{}{mantissa}×10{sign}{padding}{exponent}", digits.sign)
        }
    };
    // It is kept in a small integer, which wraps.
    let width = usize::from(width as u16);
    format!("{text:>width$}")
}

/// A finite number without its sign.
struct Digits {
    /// Of zero there is none.
    sign: &'static str,
    text: String,
}

impl Digits {
    fn of(number: f64, write: impl Fn(f64) -> String) -> Option<Digits> {
        number
            .is_finite()
            .then(|| Digits { sign: if number < 0.0 { "-" } else { "" }, text: write(number.abs()) })
    }
}

fn special(number: f64) -> String {
    String::from(match number {
        f64::INFINITY => "∞",
        f64::NEG_INFINITY => "-∞",
        _ => "NaN",
    })
}

fn superscript(digit: char) -> char {
    match digit {
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        // The others follow each other.
        '4'..='9' => char::from_u32('⁴' as u32 + digit as u32 - '4' as u32).unwrap_or(digit),
        _ => '⁰',
    }
}
