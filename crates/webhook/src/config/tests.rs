//! What a clientConfig means.

use super::*;

fn config(json: &str) -> Result<ClientConfig, ConfigError> {
    ClientConfig::from_value(&codec::json::parse(json.as_bytes(), None).unwrap())
}

fn url(url: &str) -> Result<Target, ConfigError> {
    config(&format!(r#"{{"url":"{url}"}}"#)).map(|config| config.target)
}

#[test]
fn a_url_is_taken_apart() {
    let parts = |text: &str| match url(text).unwrap() {
        Target::Url { authority, host, port, path } => format!("{authority} {host} {port} {path}"),
        target => panic!("{target:?}"),
    };
    assert_eq!(parts("https://h"), "h h 443 /");
    assert_eq!(parts("https://h:8443//a/b/"), "h:8443 h 8443 /a/b");
    assert_eq!(parts("https://[::1]:1/x"), "[::1]:1 ::1 1 /x");
    assert_eq!(parts("https://[::1]/a%20b"), "[::1] ::1 443 /a%20b");
    assert_eq!(parts("https://h/a b?q#f"), "h h 443 /a%20b");
}

#[test]
fn what_is_no_https_url_is_refused() {
    for (bad, why) in [
        ("http://h", "'https' is the only allowed URL scheme; desired format: https://host[/path]"),
        ("h", "'https' is the only allowed URL scheme; desired format: https://host[/path]"),
        ("https:///x", "host must be specified; desired format: https://host[/path]"),
        ("https://a@h/x", "host must be specified; desired format: https://host[/path]"),
        ("https://h/%zz", r#"Unparsable URL: parse "https://h/%zz": invalid URL escape "%zz""#),
        ("https://h:99999/", r#"Unparsable URL: parse "https://h:99999/": invalid port ":99999" after host"#),
        ("https://a b/", r#"Unparsable URL: parse "https://a b/": invalid character in host name "a b""#),
    ] {
        assert_eq!(url(bad).unwrap_err().to_string(), why, "{bad}");
    }
    for nothing in ["{}", r#"{"url":""}"#, r#"{"url":3,"service":null}"#, "[]"] {
        assert_eq!(config(nothing).unwrap_err(), ConfigError::NoTarget, "{nothing}");
    }
}

#[test]
fn a_service_has_a_port_a_path_and_a_name_for_its_certificate() {
    let target = config(r#"{"service":{"namespace":"ns","name":"svc","path":"/a//b"}}"#).unwrap().target;
    assert_eq!(target.authority(), "svc.ns.svc:443");
    assert_eq!(target.path(), "/a/b");
    assert_eq!(target.server_name(), "svc.ns.svc");
    let target =
        config(r#"{"url":null,"service":{"namespace":"ns","name":"svc","port":8443}}"#).unwrap().target;
    assert_eq!((target.authority().as_str(), target.path()), ("svc.ns.svc:8443", "/"));
    let refused = config(r#"{"service":{"namespace":"ns","name":"svc","port":70000}}"#).unwrap_err();
    assert_eq!(refused, ConfigError::Port(70000));
}

#[test]
fn a_bundle_of_white_space_is_none() {
    let bundle = |text: &str| config(&format!(r#"{{"url":"https://h","caBundle":"{text}"}}"#));
    assert_eq!(bundle("IAo=").unwrap().ca_bundle, None);
    assert_eq!(bundle("").unwrap().ca_bundle, None);
    assert_eq!(bundle("eA==").unwrap().ca_bundle.as_deref(), Some(&b"x"[..]));
    assert!(matches!(bundle("!").unwrap_err(), ConfigError::CaBundle(_)));
}

#[test]
fn webhooks_of_one_server_share_it_unless_they_trust_others() {
    let of = |json: &str| config(json).unwrap().of_server();
    let one = of(r#"{"url":"https://h/a","caBundle":"eA=="}"#);
    assert_eq!(one, of(r#"{"url":"https://h/b","caBundle":"eA=="}"#));
    assert_ne!(one, of(r#"{"url":"https://h/a","caBundle":"eQ=="}"#));
    assert_ne!(one, of(r#"{"url":"https://h:444/a","caBundle":"eA=="}"#));
    let known = Credentials { authorization: Some("Bearer x".to_owned()), ..Credentials::default() };
    assert_ne!(one, one.clone().with_credentials(known));
}

#[test]
fn http2_is_for_this_machine_and_for_endpoints() {
    let http2 = |text: &str| url(text).unwrap().http2();
    assert!(http2("https://localhost") && http2("https://127.0.0.2:1") && http2("https://[::1]"));
    assert!(!http2("https://example.com") && !http2("https://10.0.0.1"));
    assert!(config(r#"{"service":{"namespace":"a","name":"b"}}"#).unwrap().target.http2());
}
