//! Answers recorded from upstream.

use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn integers_are_what_upstream_holds_in_64_bits() {
    for (text, integer) in [
        ("0", Some(0)),
        ("1k", Some(1000)),
        ("100Mi", Some(104_857_600)),
        ("1E", Some(1_000_000_000_000_000_000)),
        ("10E", None),
        ("0e100", Some(0)),
        ("1000m", None),
        ("1.0", None),
        ("1.5Gi", None),
        ("1Ei", None),
        ("9223372036854775807", None),
    ] {
        assert_eq!(quantity(text).as_i64(), integer, "{text}");
    }
}

#[test]
fn floats_are_rounded_as_upstreams() {
    for (text, float) in [
        ("1m", 0.001),
        ("1.5Gi", 1_610_612_736.0),
        ("99999999999999999999", 1e20),
        ("8Ei", 9_223_372_036_854_775_807.0),
        ("1e100", 1e100),
        ("1e309", f64::INFINITY),
        ("0.0000000001", 1e-9),
    ] {
        assert_eq!(quantity(text).as_f64(), float, "{text}");
    }
    assert!(quantity("0e400").as_f64().is_nan());
}

#[test]
fn sums_stay_in_64_bits_as_long_as_they_fit() {
    let int = Quantity::from_i64;
    assert_eq!(quantity("50k").add(&quantity("20k")).sub(&int(-5)).as_i64(), Some(70_005));
    assert_eq!(quantity("1").sub(&quantity("0.0")).as_i64(), Some(1));
    assert_eq!(quantity("1").add(&quantity("1000m")).as_i64(), None);
    assert_eq!(quantity("1").add(&int(i64::MAX)).as_i64(), None);
    assert_eq!(quantity("0").sub(&int(i64::MIN)).as_i64(), Some(i64::MIN));
    let sum = quantity("1").add(&int(i64::MAX));
    assert_eq!(sum.amount(), object::quantity::Quantity::parse("9223372036854775808").unwrap());
    assert_eq!(quantity("0").add(&quantity("1Ki")).to_string(), "1Ki");
    assert_eq!(quantity("+1").to_string(), "+1");
}

#[test]
fn a_computed_quantity_only_equals_from_the_left() {
    let two = Val::opaque(quantity("2"));
    let sum = Val::opaque(quantity("1").add(&quantity("1")));
    let equal = |a: &Val<'_>, b: &Val<'_>| crate::ops::equal(a, b).map_err(|error| error.text().to_owned());
    assert_eq!(equal(&sum, &two), Ok(true));
    assert_eq!(equal(&two, &sum), Err(String::from("no such overload")));
    assert_eq!(equal(&two, &Val::opaque(quantity("2000m"))), Ok(true));
    assert_eq!(equal(&two, &Val::Int(2)), Err(String::from("no such overload")));
}
