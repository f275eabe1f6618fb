//! Answers recorded from upstream.

use super::*;

#[test]
fn parts_are_told_apart_as_go_does() {
    for (text, scheme, host, hostname, port, path) in [
        ("https://u:p@example.com:80/a%20b?x#f", "https", "example.com:80", "example.com", "80", "/a%20b"),
        ("HTTP://[fe80::1%25en0]:1/", "http", "[fe80::1%en0]:1", "fe80::1%en0", "1", "/"),
        ("pg://a:1,b:2/x", "pg", "a:1,b:2", "a:1,b", "2", "/x"),
        ("mailto:a@b.c", "mailto", "", "", "", ""),
        ("/a b/é", "", "", "", "", "/a%20b/%C3%A9"),
        ("//host/x", "", "host", "host", "", "/x"),
        ("///x", "", "", "", "", "///x"),
        ("http://a/%2f%41", "http", "a", "a", "", "/%2f%41"),
        ("http://%e4%b8:/", "http", "\u{fffd}\u{fffd}:", "\u{fffd}\u{fffd}", "", "/"),
        ("*", "", "", "", "", "*"),
    ] {
        let url = Url::parse(text).unwrap();
        let got = (&*url.scheme, &*url.host, url.hostname(), url.port(), &*url.path);
        assert_eq!(got, (scheme, host, hostname, port, path), "{text}");
    }
}

#[test]
fn urls_are_written_as_go_writes_them() {
    for (text, written) in [
        ("http://", "http:"),
        ("http:///x", "http:///x"),
        ("x:/y", "x:/y"),
        ("http://a?", "http://a?"),
        ("http://a/??", "http://a/??"),
        ("http://héllo/é#", "http://h%C3%A9llo/%C3%A9"),
        ("http://a%40b:%2f@c/", "http://a%40b:%2F@c/"),
        ("http://@h", "http://@h"),
        ("/a#'é(", "/a#%27%C3%A9("),
    ] {
        assert_eq!(Url::parse(text).unwrap().text, written);
    }
}

#[test]
fn what_is_no_url_is_refused_in_gos_words() {
    for (text, message) in [
        ("", "empty url"),
        ("relative", "invalid URI for request"),
        ("://x", "missing protocol scheme"),
        ("/\n", "net/url: invalid control character in URL"),
        ("http://a b", "invalid character \" \" in host name"),
        ("http://a/%zz", "invalid URL escape \"%zz\""),
        ("http://a/%aé", "invalid URL escape \"%a\\xc3\""),
        ("http://%41/", "invalid URL escape \"%41\""),
        ("http://h:p/", "invalid port \":p\" after host"),
        ("http://a:1:2/", "invalid port \":1:2\" after host"),
        ("http://[::1", "missing ']' in host"),
        ("http://[::1]x", "invalid port \"x\" after host"),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://a[::1]/", "invalid IP-literal"),
        (
            "http://[%ff:]/",
            "invalid host: ParseAddr(\"\\xff:\"): each colon-separated field must have at least one digit (at \"\\xff:\")",
        ),
        ("http://é@h/", "net/url: invalid userinfo"),
        ("//h:p/", "invalid port \":p\" after host"),
        ("/?#%zz", "invalid URL escape \"%zz\""),
    ] {
        let quoted = super::super::quote::quote(text.as_bytes());
        assert_eq!(Url::parse(text).unwrap_err(), format!("parse {quoted}: {message}"));
    }
}

#[test]
fn a_query_keeps_what_can_be_read() {
    let values = |text: &str, name: &str| {
        let found = query(text).as_map()?.find(&Val::from(name))?.ok()?;
        let values = found.as_list()?.to_vec().ok()?;
        Some(values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect::<Vec<_>>())
    };
    let text = "a=1&b=%41+x&a=2&c;d=3&%zz=4&e&=f&g=%z";
    assert_eq!(values(text, "a"), Some(vec![String::from("1"), String::from("2")]));
    assert_eq!(values(text, "b"), Some(vec![String::from("A x")]));
    assert_eq!(values(text, "e"), Some(vec![String::new()]));
    assert_eq!(values(text, ""), Some(vec![String::from("f")]));
    assert_eq!(query(text).as_map().unwrap().len(), 4);
    assert_eq!(query(&"a&".repeat(9_999)).as_map().unwrap().len(), 1);
    assert!(query(&"a&".repeat(10_000)).as_map().unwrap().is_empty());
}
