use super::*;

#[test]
fn formats_accept_and_refuse() {
    for (format, good, bad) in [
        ("bsonobjectid", &["507f1f77bcf86cd799439011"][..], &["507f1f77bcf86cd79943901", "x"][..]),
        (
            "uri",
            &["http://a/b?c#d", "/path", "mailto:a@b", "*", "http://[::1]:80/"],
            &["", "a", "http://a b/", "%", ":x", "http://[::1"],
        ),
        ("email", &["a@b", "A B <a@b.c>", "\"q\"@b"], &["", "a", "a@", "a b@c", "a..b@c"]),
        ("hostname", &["a", "a.example.com", "a-b"], &["", "-a", "a_b", "a.", "a.b.1"]),
        ("ipv4", &["1.2.3.4", "01.02.03.004"], &["1.2.3", "256.1.1.1", "::1", ""]),
        ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "::g", ""]),
        ("cidr", &["10.0.0.0/8", "010.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "x/1", "::/129"]),
        (
            "mac",
            &["01:23:45:67:89:ab", "0123.4567.89ab", "01-23-45-67-89-ab-cd-ef"],
            &["", "01:23", "01:23:45:67:89-ab"],
        ),
        (
            "uuid",
            &["aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
            &["", "aaaaaaaa"],
        ),
        ("uuid4", &["aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"], &["aaaaaaaa-aaaa-3aaa-8aaa-aaaaaaaaaaaa"]),
        ("isbn", &["0321751043", "978-0321751041"], &["0321751044", "1"]),
        ("creditcard", &["4111-1111-1111-1111"], &["4111-1111-1111-1112", ""]),
        ("ssn", &["111-11-1111", "111 11 1111"], &["111111111", "111-11-111a"]),
        ("hexcolor", &["#FFFFFF", "fff"], &["#ffff", "ggg"]),
        ("rgbcolor", &["rgb(1,2, 255)"], &["rgb(1,2,256)", "rgb(01,2,3)", "rgb(1,2)"]),
        ("byte", &["YQ==", "YWJj"], &["", "YQ", "Y===", "YQ=a"]),
        ("date", &["2024-02-29"], &["2023-02-29", "2024-13-01", "2024-1-01"]),
        (
            "date-time",
            &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
            &["2014-12-15", "2014-12-15T24:00:00Z", "2014-12-15T19:30:20"],
        ),
        (
            "duration",
            &["1h30m", "22 ns", "3 days", "0", "-1.5h", "1 hour and 5 minutes"],
            &["", "x", "5", "h"],
        ),
        ("k8s-short-name", &["a-1"], &["A", "-a", "a.b"]),
        ("k8s-long-name", &["a.b"], &["a..b", "A"]),
        ("password", &["", "x"], &[]),
    ] {
        let known = StringFormat::parse(format).expect(format);
        for text in good {
            assert!(known.is_valid(text), "{format}: {text}");
        }
        for text in bad {
            assert!(!known.is_valid(text), "{format}: {text}");
        }
    }
    assert_eq!(StringFormat::parse("int32"), None);
}
