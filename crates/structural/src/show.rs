//! Values as upstream's errors show them.

use object::{Value, quote};

/// The bad value of an error: numbers as `%v`, strings quoted, the rest as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::Str(text) => quote(text),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => print_float(*f),
        other => json(other),
    }
}

pub(crate) fn json(value: &Value) -> String {
    // Names are sorted in what Go writes; those of an object may not be yet.
    let mut sorted = value.clone();
    crate::coerce::sort(&mut sorted);
    String::from_utf8(codec::json::to_vec(&sorted)).unwrap_or_default()
}

/// `%v` of a float: the shortest digits, with an exponent below 1e-4 and from 1e6.
pub(crate) fn print_float(f: f64) -> String {
    let size = f.abs();
    if f == 0.0 || (1e-4..1e6).contains(&size) {
        return format!("{f}");
    }
    let text = format!("{f:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(rest) => ('-', rest),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_go_prints_them() {
        for (f, text) in [(1.0, "1"), (0.5, "0.5"), (1e6, "1e+06"), (123_456_789.0, "1.23456789e+08")] {
            assert_eq!(print_float(f), text);
        }
        assert_eq!(print_float(0.00001), "1e-05");
        assert_eq!(print_float(999_999.5), "999999.5");
    }
}
