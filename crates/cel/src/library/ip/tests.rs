//! Answers recorded from upstream.

use super::*;

#[test]
fn addresses_are_read_as_go_reads_them() {
    for (text, canonical) in [
        ("1.2.3.4", "1.2.3.4"),
        ("::", "::"),
        ("::1.2.3.4", "::102:304"),
        ("2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("0:0:1::", "0:0:1::"),
        ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
        ("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:102:304"),
    ] {
        assert_eq!(parse(text).unwrap().to_string(), canonical, "{text}");
    }
}

#[test]
fn what_is_no_address_is_refused_in_upstreams_words() {
    for (text, message) in [
        ("", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.", "IPv4 field must have at least one digit (at \".\")"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.02.3.4", "IPv4 field has octet with leading zero"),
        ("1.2.3.é", "unexpected character (at \"é\")"),
        (":", "each colon-separated field must have at least one digit (at \":\")"),
        ("1:", "colon must be followed by more characters (at \":\")"),
        ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
        ("1::2::3", "multiple :: in address (at \":3\")"),
        ("1:2", "address string too short"),
        ("1g::", "unexpected character, want colon (at \"g::\")"),
        ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
        ("0:0:0:0:0:0:0:0:0", "trailing garbage after address (at \"0\")"),
        (
            "1:1.2.3.4",
            "embedded IPv4 address must replace the final 2 fields of the address (at \"1.2.3.4\")",
        ),
        (
            "1::2:3:4:5:6:7:1.2.3.4",
            "too many hex fields to fit an embedded IPv4 at the end of the address (at \"1.2.3.4\")",
        ),
        ("::%", "zone must be a non-empty string"),
    ] {
        let quoted = quote(text.as_bytes());
        let prefix =
            format!("IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): ");
        assert_eq!(parse(text), Err(format!("{prefix}{message}")));
    }
    let refused = [
        ("fe80::1%eth0", "IP address \"fe80::1%eth0\" with zone value is not allowed"),
        ("::ffff:102:304", "IPv4-mapped IPv6 address \"::ffff:102:304\" is not allowed"),
    ];
    for (text, message) in refused {
        assert_eq!(parse(text), Err(message.to_owned()));
    }
}

#[test]
fn kinds_of_addresses_are_gos() {
    let kinds = |text: &str| {
        let ip = parse(text).unwrap();
        (is_link_local_multicast(ip), is_link_local_unicast(ip), is_global_unicast(ip))
    };
    for (text, want) in [
        ("10.0.0.1", (false, false, true)),
        ("0.0.0.0", (false, false, false)),
        ("255.255.255.255", (false, false, false)),
        ("127.0.0.1", (false, false, false)),
        ("224.0.0.1", (true, false, false)),
        ("224.0.1.1", (false, false, false)),
        ("169.254.1.1", (false, true, false)),
        ("fd00::1", (false, false, true)),
        ("fe80::1", (false, true, false)),
        ("febf::1", (false, true, false)),
        ("fec0::1", (false, false, true)),
        ("ff02::1", (true, false, false)),
        ("ff12::1", (true, false, false)),
        ("ff05::1", (false, false, false)),
        ("::", (false, false, false)),
        ("::1", (false, false, false)),
    ] {
        assert_eq!(kinds(text), want, "{text}");
    }
}
