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
        (
            "hostname",
            &["a", "a.example.com", "a-b", "a-", "é.é-é.éa", "a$", "x-y.ab"],
            &["", "-a", "a_b", "a.", "a.b.1", "ab-c", "a.b", "-a.bc", "a-.bc", "a..bc"],
        ),
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

#[test]
fn addresses_are_parsed_as_go_parses_them() {
    for (text, valid) in [
        ("a@b (c)", true),
        ("(c) a@b", false),
        ("a@b,", false),
        ("<a@b>", true),
        ("A.B <a@b>", true),
        ("a@[1.2.3.4]", true),
        ("a@[x]", false),
        (" a@b ", true),
        ("a @b", false),
        ("a@ b", true),
        ("=?utf-8?q?x?= <a@b>", true),
        ("=?bad?q?x?= <a@b>", false),
        ("é@b", true),
        ("a.@b", false),
        ("\"\"@b", false),
        ("\"a b\"@c", true),
        ("a@b.", false),
        ("A: a@b;", true),
        ("a@b c", false),
        ("x<a@b>", true),
        ("A (c) <a@b>", true),
        ("a@b@c", false),
        ("x y@b", false),
        ("<a@b", false),
    ] {
        assert_eq!(StringFormat::Email.is_valid(text), valid, "{text}");
    }
}

#[test]
fn uris_are_parsed_as_go_parses_them() {
    for (text, valid) in [
        ("http:a", true),
        ("//a/b", true),
        ("///a", true),
        ("/a%zz", false),
        ("http://a%zz/", false),
        ("http://a:b/", false),
        ("http://a:/", true),
        ("http://u:p@h/", true),
        ("http://u p@h/", false),
        ("http://é/", true),
        ("/a b", true),
        ("http://[::1%25en0]/", true),
        ("http://[::1%en0]/", false),
        ("http://[1.2.3.4]/", false),
        ("?a", false),
        ("http://a/?%zz", true),
        ("1http://a", false),
        ("http://a<b/", true),
        ("http://a{b/", false),
        ("http://%41/", false),
        ("http://%c3%a9/", true),
        ("http://a@b@c/", true),
        ("http://[::1]x/", false),
        ("http://a[b]/", false),
        ("http://a]b/", true),
        ("a/b:c", false),
        ("http://", true),
        ("*a", false),
        ("x://:80/", true),
        ("http://host:80:90/", false),
    ] {
        assert_eq!(StringFormat::Uri.is_valid(text), valid, "{text}");
    }
}

#[test]
fn durations_are_parsed_as_go_parses_them() {
    for (text, valid) in [
        ("+5s", true),
        (".5s", true),
        ("1.s", true),
        ("-0", true),
        ("+", false),
        ("9223372036854775807ns", true),
        ("-9223372036854775808ns", true),
    ] {
        assert_eq!(StringFormat::Duration.is_valid(text), valid, "{text}");
    }
}
