//! Cases recorded from k8s.io/apimachinery v0.36.4 (`ParseQuantity(x).String()`), and laws.

use super::*;

#[test]
fn quantities_are_stored_as_upstream_stores_them() {
    for (given, stored) in [
        ("0", "0"),
        ("00", "0"),
        ("-0", "0"),
        ("+", "0"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.5", "1500m"),
        ("1e3", "1e3"),
        ("1E3", "1E3"),
        ("100e1", "1e3"),
        ("1.5e3", "1500"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1024Ki", "1Mi"),
        ("1500Ki", "1500Ki"),
        ("512Ki", "512Ki"),
        ("0.5Ki", "512"),
        ("0.5Mi", "512Ki"),
        ("1Ei", "1Ei"),
        ("100Ei", "9223372036854775807"),
        ("0.1n", "1n"),
        ("0.00000000001", "1n"),
        ("-0.5m", "-500u"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("0.0001Ki", "102400u"),
        ("12345678901234567890", "12345678901234567890"),
        ("1000000000000000000000", "1000E"),
        ("1e-20", "1e-9"),
        ("3.0", "3"),
        ("129M", "129M"),
        ("123Mi", "123Mi"),
        ("128974848", "128974848"),
        ("1.1Ki", "1126400m"),
        ("1.Gi", "1.Gi"),
    ] {
        assert_eq!(canonical(given).as_deref(), Ok(stored), "{given}");
        let again = canonical(stored).map(Cow::into_owned);
        assert_eq!(again.as_deref(), Ok(stored), "{given} again");
    }
}

#[test]
fn invalid_quantities_get_upstreams_error() {
    for bad in ["", "1x", "abc", "1 Gi", "1.2.3", "1Gi ", "é"] {
        assert_eq!(Quantity::parse(bad).unwrap_err(), QuantityError::Format, "{bad}");
    }
    for bad in ["--1", "1ki", "1MM", "1e", "1K", "1m3", "1e1001"] {
        assert_eq!(Quantity::parse(bad).unwrap_err(), QuantityError::Suffix, "{bad}");
    }
}

#[test]
fn order_is_by_amount() {
    let sorted = [
        "-1e30", "-1Gi", "-1", "-1n", "0", "1n", "1m", "999m", "1", "1Ki", "1025", "1M", "1Mi", "1Ei",
        "1e900",
    ];
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            let (a, b) = (Quantity::parse(a).unwrap(), Quantity::parse(b).unwrap());
            assert_eq!(a.cmp(&b), i.cmp(&j), "{a} {b}");
        }
    }
    assert_eq!(Quantity::parse("1000m").unwrap(), Quantity::parse("1").unwrap());
    assert_eq!(Quantity::parse("1Ki").unwrap(), Quantity::parse("1024").unwrap());
}

#[test]
fn sums_keep_the_first_family_and_never_overflow() {
    let q = |text: &str| Quantity::parse(text).unwrap();
    assert_eq!((q("1Gi") + q("1G")).to_string(), "2073741824");
    assert_eq!((q("0") + q("1Gi")).to_string(), "1Gi");
    assert_eq!((q("100m") + q("0.9")).to_string(), "1");
    assert_eq!((q("1") - q("1500m")).to_string(), "-500m");
    assert_eq!((q("1e900") + q("1")).to_string(), "1e900");
    assert_eq!((q("1") + q("1e40")).as_i64(), i64::MAX);
}

#[test]
fn whole_and_milli_values_round_away_from_zero() {
    let q = |text: &str| Quantity::parse(text).unwrap();
    assert_eq!(q("1.1").as_i64(), 2);
    assert_eq!(q("-1.1").as_i64(), -2);
    assert_eq!(q("1.1").as_milli(), 1100);
    assert_eq!(q("1n").as_milli(), 1);
    assert_eq!(q("1e900").as_i64(), i64::MAX);
    assert_eq!(q("-1e900").as_milli(), i64::MIN);
    assert_eq!(q("1Gi").as_i64(), 1 << 30);
}

#[test]
fn formatted_quantities_parse_back() {
    // Two zeros more than what was read, to come to a suffix.
    let long = "920000233720368547752337203685.5477588";
    let text = canonical(long).unwrap().into_owned();
    assert_eq!(text, "920000233720368547752337203685547758800n");
    assert_eq!(canonical(&text).unwrap(), text);
    assert_eq!(Quantity::parse(&text).unwrap(), Quantity::parse(long).unwrap());
    // The shortest form of it would have an exponent that is refused.
    assert_eq!(canonical("100000e1000"), Err(QuantityError::Suffix));
    assert_eq!(canonical("10e999").unwrap(), "10e999");
    assert_eq!(canonical("1e1000").unwrap(), "10e999");
    assert_eq!(canonical(&"9".repeat(39)), Err(QuantityError::Numeric));
}
