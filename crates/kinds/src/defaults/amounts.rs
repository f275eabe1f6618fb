//! Lists of resources: quantities are rounded up to milli-units.

use object::quantity::Quantity;
use object::{Map, Value};

use super::fill::at;

/// Rounds every quantity of the list of this name up to thousandths.
pub(crate) fn round(map: &mut Map, name: &str) {
    let Some(list) = at(map, name) else { return };
    for (_, value) in list.iter_mut() {
        if let Value::Str(text) = value
            && let Some(rounded) = rounded(text)
        {
            *text = rounded;
        }
    }
}

/// Rounds the limits and requests of the struct of this name.
pub(crate) fn round_requirements(map: &mut Map, name: &str) {
    if let Some(requirements) = at(map, name) {
        round(requirements, "limits");
        round(requirements, "requests");
    }
}

/// The rounded text, when the quantity is finer than thousandths.
fn rounded(text: &str) -> Option<String> {
    // Without a fraction, a fine suffix or a negative exponent it is coarse enough: nearly all quantities are.
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'.' | b'n' | b'u' | b'e' | b'E')) {
        return None;
    }
    let exact = Quantity::parse(text).ok()?;
    let thousandths = exact.as_milli();
    // Differs from kube-apiserver: beyond 63 bits of milli-units a number stays as it is. No real quantity is that large.
    if matches!(thousandths, i64::MIN | i64::MAX) {
        return None;
    }
    let rounded = Quantity::from_milli(thousandths, exact.format());
    (rounded != exact).then(|| rounded.to_string())
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn amounts_finer_than_a_milli_are_rounded_up() {
        for (text, wanted) in [
            ("1500u", Some("2m")),
            ("1n", Some("1m")),
            ("-1500u", Some("-2m")),
            ("1.500500", Some("1501m")),
            ("0.0001", Some("1m")),
            ("1e-6", Some("1e-3")),
            ("100m", None),
            ("1.5", None),
            ("1Gi", None),
            ("1.5Gi", None),
            ("12e6", None),
            ("5E", None),
            ("99999999999999999999.0001", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(rounded(text).as_deref(), wanted, "{text}");
        }
    }
}
