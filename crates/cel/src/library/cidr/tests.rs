//! Answers recorded from upstream.

use super::*;

fn cidr(text: &str) -> Cidr {
    parse(text).unwrap()
}

#[test]
fn prefixes_contain_addresses_and_longer_prefixes() {
    for (outer, inner, want) in [
        ("10.0.0.0/8", "10.1.2.3/32", true),
        ("10.1.2.3/8", "10.9.9.9/8", true),
        ("10.0.0.0/8", "10.0.0.0/7", false),
        ("10.0.0.0/8", "11.0.0.0/16", false),
        ("0.0.0.0/0", "1.2.3.4/0", true),
        ("0.0.0.0/0", "::/0", false),
        ("::/0", "ffff::/16", true),
        ("2001:db8::/33", "2001:db8:8000::/34", false),
        ("1.2.3.4/32", "1.2.3.4/32", true),
    ] {
        assert_eq!(cidr(outer).includes(cidr(inner)), want, "{outer} {inner}");
    }
    assert!(cidr("10.1.2.3/8").contains(ip::parse("10.255.0.0").unwrap()));
    assert!(!cidr("::/0").contains(ip::parse("10.255.0.0").unwrap()));
}

#[test]
fn bits_behind_the_prefix_stay_until_masked() {
    let written = cidr("192.168.1.77/23");
    assert_eq!(written.text(), "192.168.1.77/23");
    assert_eq!(masked(written.address, written.bits), ip::parse("192.168.0.0").unwrap());
    assert_eq!(masked(ip::parse("ffff::1").unwrap(), 0), ip::parse("::").unwrap());
    assert_eq!(masked(ip::parse("ffff::1").unwrap(), 128), ip::parse("ffff::1").unwrap());
    assert_eq!((written.size(), cidr("::/0").size()), (Some(3), Some(0)));
}

#[test]
fn what_is_no_prefix_is_refused_in_upstreams_words() {
    let twice = "network address parse error during conversion from string: ".repeat(2);
    for (text, message) in [
        ("x", "netip.ParsePrefix(\"x\"): no '/'"),
        ("/8", "netip.ParsePrefix(\"/8\"): ParseAddr(\"\"): unable to parse IP"),
        ("10.0.0.0/33", "netip.ParsePrefix(\"10.0.0.0/33\"): prefix length out of range"),
        ("10.0.0.0/300", "netip.ParsePrefix(\"10.0.0.0/300\"): prefix length out of range"),
        ("10.0.0.0/", "netip.ParsePrefix(\"10.0.0.0/\"): bad bits after slash: \"\""),
        ("10.0.0.0/08", "netip.ParsePrefix(\"10.0.0.0/08\"): bad bits after slash: \"08\""),
        ("10.0.0.0/+8", "netip.ParsePrefix(\"10.0.0.0/+8\"): bad bits after slash: \"+8\""),
        ("fe80::%a/8", "netip.ParsePrefix(\"fe80::%a/8\"): IPv6 zones cannot be present in a prefix"),
    ] {
        assert_eq!(parse(text).unwrap_err().text(), format!("{twice}{message}"));
    }
    let mapped = "network address parse error during conversion from string: \
                  IPv4-mapped IPv6 address \"::ffff:1.2.3.4/120\" is not allowed";
    assert_eq!(parse("::ffff:1.2.3.4/120").unwrap_err().text(), mapped);
}
