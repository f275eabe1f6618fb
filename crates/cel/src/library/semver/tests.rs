//! Answers recorded from upstream.

use super::*;

#[test]
fn versions_are_ordered_by_precedence() {
    let sorted = [
        "0.0.0",
        "1.2.3",
        "1.10.0",
        "2.0.0-1",
        "2.0.0-2",
        "2.0.0-10",
        "2.0.0-alpha",
        "2.0.0-alpha.1",
        "2.0.0-alpha.beta",
        "2.0.0-rc.1",
        "2.0.0",
    ];
    for (i, a) in sorted.iter().enumerate() {
        for (j, b) in sorted.iter().enumerate() {
            let (a, b) = (Version::parse(a).unwrap(), Version::parse(b).unwrap());
            assert_eq!(a.precedence(&b), i.cmp(&j), "{a} {b}");
        }
    }
    let build = Version::parse("2.0.0+b1").unwrap();
    assert!(build.precedence(&Version::parse("2.0.0+a").unwrap()).is_eq());
}

#[test]
fn normalisation_fills_up_and_strips() {
    for (text, version) in [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v01.2", "1.2.0"),
        ("00.00.00", "0.0.0"),
        ("1.2.003-rc.1+b", "1.2.3-rc.1+b"),
    ] {
        assert_eq!(Version::parse_normalised(text).unwrap().to_string(), version);
    }
}

#[test]
fn what_is_no_version_is_refused_in_upstreams_words() {
    for (text, message) in [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", "Invalid character(s) found in major number \"v1\""),
        ("1.02.3", "Minor number must not contain leading zeroes \"02\""),
        ("1..3", "strconv.ParseUint: parsing \"\": invalid syntax"),
        (
            "18446744073709551616.0.0",
            "strconv.ParseUint: parsing \"18446744073709551616\": value out of range",
        ),
        ("1.2.3 ", "Invalid character(s) found in patch number \"3 \""),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", "Numeric PreRelease version must not contain leading zeroes \"01\""),
        ("1.2.3-é", "Invalid character(s) found in prerelease \"é\""),
        ("1.2.3+a..b", "Build meta data is empty"),
        ("1.2.3+a_", "Invalid character(s) found in build meta data \"a_\""),
    ] {
        assert_eq!(Version::parse(text).unwrap_err(), message);
    }
    let short = "short version cannot contain PreRelease/Build meta data";
    assert_eq!(Version::parse_normalised("1.2-x").unwrap_err(), short);
    assert_eq!(
        Version::parse_normalised("v.1").unwrap_err(),
        "strconv.ParseUint: parsing \"\": invalid syntax"
    );
}
