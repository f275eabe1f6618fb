//! Messages as kube-apiserver v1.36 words them.

use super::*;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[test]
fn good_names_have_no_errors() {
    for name in ["a", "a-b", "0", "a.b-c.d0"] {
        assert_eq!(dns1123_subdomain(name), Vec::<String>::new(), "{name}");
    }
    for ok in [dns1123_label("a-0"), dns1035_label("a-0"), path_segment_name("system:x y"), label_value("")] {
        assert!(ok.is_empty());
    }
    for key in ["a", "A_b.c", "example.com/Name", "a/b"] {
        assert!(qualified_name(key).is_empty(), "{key}");
    }
    assert!(wildcard_dns1123_subdomain("*.a.b").is_empty() && config_map_key("a.b_C-1").is_empty());
    assert!(port_name("http-2").is_empty() && percent("5%").is_empty() && c_identifier("_a1").is_empty());
}

#[test]
fn invalid_names_get_the_error_of_their_rule() {
    for name in ["", "A", "-a", "a-", "a..b", ".a", "a_b", "é"] {
        assert_eq!(dns1123_subdomain(name), [SUBDOMAIN], "{name}");
    }
    assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    assert_eq!(dns1123_label("A"), [label]);
    assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    assert_eq!(dns1035_label("0a").len(), 1);
    assert_eq!(path_segment_name(".."), ["may not be '..'"]);
    assert_eq!(path_segment_name("a/b%"), ["may not contain '/'", "may not contain '%'"]);
}

#[test]
fn errors_of_label_keys_name_the_invalid_part() {
    assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
    assert_eq!(qualified_name("A.b/c"), [format!("prefix part {SUBDOMAIN}")]);
    let rule = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    assert_eq!(qualified_name(""), ["name part must be non-empty".to_owned(), format!("name part {rule}")]);
    assert_eq!(
        qualified_name("a/b/c"),
        [format!(
            "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )]
    );
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    assert_eq!(label_value("a b"), [value]);
    assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
}
