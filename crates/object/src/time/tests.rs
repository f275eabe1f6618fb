//! What Go accepts and prints, recorded from go1.26.

use super::*;

#[test]
fn seconds_are_written_in_utc() {
    assert_eq!(format_seconds(0), "1970-01-01T00:00:00Z");
    assert_eq!(format_seconds(1_709_164_799), "2024-02-28T23:59:59Z");
    assert_eq!(format_seconds(1_709_164_800), "2024-02-29T00:00:00Z");
    assert_eq!(format_seconds(ZERO_SECONDS), "0001-01-01T00:00:00Z");
    assert_eq!(format_seconds(-1), "1969-12-31T23:59:59Z");
    assert_eq!(format_micros(0, 1_999), "1970-01-01T00:00:00.000001Z");
}

#[test]
fn offsets_fractions_and_short_hours_are_read() {
    assert_eq!(parse("1970-01-01T01:00:00+01:00"), Some((0, 0)));
    assert_eq!(parse("1969-12-31T19:30:00.25-04:30"), Some((0, 250_000_000)));
    assert_eq!(parse("1970-01-01T3:00:00Z"), Some((10_800, 0)));
    assert_eq!(parse("1970-01-01T00:00:00,1234567891Z"), Some((0, 123_456_789)));
    assert_eq!(parse("2024-02-29T00:00:00Z"), Some((1_709_164_800, 0)));
    for bad in ["2023-02-29T00:00:00Z", "1970-01-01", "1970-01-01 00:00:00Z", "", "1970-01-01T00:00:60Z", "é"]
    {
        assert_eq!(parse(bad), None, "{bad}");
    }
}

#[test]
fn every_day_of_the_four_digit_years_reads_back() {
    for day in (-719_528..2_932_896).step_by(13) {
        let text = format_seconds(day * 86_400 + 86_399);
        assert_eq!(parse(&text), Some((day * 86_400 + 86_399, 0)), "{text}");
    }
}

#[test]
fn errors_are_those_of_go() {
    let error = |text: &str, layout| parse_layout(text, layout).unwrap_err().to_string();
    assert_eq!(
        error("x", Layout::Seconds),
        r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#
    );
    assert_eq!(
        error("2024-13-01T00:00:00Z", Layout::Seconds),
        r#"parsing time "2024-13-01T00:00:00Z": month out of range"#
    );
    assert_eq!(
        error("2024-02-30T00:00:00Z", Layout::Seconds),
        r#"parsing time "2024-02-30T00:00:00Z": day out of range"#
    );
    assert_eq!(
        error("2024-02-03T00:00:00Zx", Layout::Seconds),
        r#"parsing time "2024-02-03T00:00:00Zx": extra text: "x""#
    );
    assert_eq!(
        error("2024-02-03T00:00:00Z", Layout::Micros),
        r#"parsing time "2024-02-03T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
    );
}

#[test]
fn durations_read_and_print_as_in_go() {
    for (text, nanos, printed) in [
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("90s", 90_000_000_000, "1m30s"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("20ms", 20_000_000, "20ms"),
        ("1us", 1_000, "1µs"),
        ("-1m0.1s", -60_100_000_000, "-1m0.1s"),
        ("0", 0, "0s"),
        (".5h", 1_800_000_000_000, "30m0s"),
        ("7ns", 7, "7ns"),
    ] {
        assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        assert_eq!(format_duration(nanos), printed);
    }
    assert_eq!(parse_duration("1").unwrap_err().to_string(), r#"time: missing unit in duration "1""#);
    assert_eq!(parse_duration("").unwrap_err().to_string(), r#"time: invalid duration """#);
    assert_eq!(parse_duration("1x").unwrap_err().to_string(), r#"time: unknown unit "x" in duration "1x""#);
    assert_eq!(parse_duration("9999999999h"), Err(DurationError::Invalid("9999999999h".into())));
}
