//! Validation of names, labels and keys; each function returns upstream's messages (none if valid).

#[cfg(test)]
mod tests;

pub const DNS1123_LABEL_MAX: usize = 63;
pub const DNS1123_SUBDOMAIN_MAX: usize = 253;
pub const DNS1035_LABEL_MAX: usize = 63;
pub const LABEL_VALUE_MAX: usize = 63;

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// `my-name`.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1123_LABEL_MAX);
    if !is_label(value) {
        errors.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            let rule = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                        and must start and end with an alphanumeric character";
            regex_error(rule, DNS1123_LABEL, &["my-name", "123-abc"])
        });
    }
    errors
}

/// `example.com`.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1123_SUBDOMAIN_MAX);
    errors.extend(not_a_subdomain(value));
    errors
}

/// As [`dns1123_subdomain`], worded as upstream's declarative validation.
pub fn long_name(value: &str) -> Vec<String> {
    too_many_bytes(value, DNS1123_SUBDOMAIN_MAX).into_iter().chain(not_a_subdomain(value)).collect()
}

/// `_dmarc.example.com`: search paths of a resolver.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1123_SUBDOMAIN_MAX);
    let label = |part: &str| {
        let bytes = part.strip_prefix('_').unwrap_or(part).as_bytes();
        let edge = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(*c, b'-' | b'_');
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
    };
    if !value.split('.').all(label) {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', \
                    and must start and end with an alphanumeric character";
        let regex = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
        errors.push(regex_error(rule, regex, &["example.com"]));
    }
    errors
}

/// `my-name`, with a letter first: names of services.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1035_LABEL_MAX);
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        let rule = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                    start with an alphabetic character, and end with an alphanumeric character";
        errors.push(regex_error(rule, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    errors
}

/// `*.example.com`.
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1123_SUBDOMAIN_MAX);
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let rule = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
                    consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        errors.push(regex_error(rule, &format!(r"\*\.{DNS1123_SUBDOMAIN}"), &["*.example.com"]));
    }
    errors
}

/// A name used as a URL path segment; of roles and the like, which may contain almost anything.
pub fn path_segment_name(value: &str) -> Vec<String> {
    match value {
        "." | ".." => vec![format!("may not be '{value}'")],
        _ => path_segment_prefix(value),
    }
}

/// As [`path_segment_name`], for the start of a name (`generateName`).
pub fn path_segment_prefix(value: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|c| value.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Keys of labels and annotations, names of extended resources: `name` or `example.com/name`.
pub fn qualified_name(value: &str) -> Vec<String> {
    // Most keys are valid, so messages are only formatted for invalid ones.
    let rule = || {
        let rule = "must consist of alphanumeric characters, '-', '_' or '.', \
                    and must start and end with an alphanumeric character";
        regex_error(rule, LABEL_KEY, &["MyName", "my.name", "123-abc"])
    };
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                rule()
            )];
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            let too_long = too_many_bytes(prefix, DNS1123_SUBDOMAIN_MAX);
            errors.extend(
                too_long.into_iter().chain(not_a_subdomain(prefix)).map(|e| format!("prefix part {e}")),
            );
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else {
        errors.extend(too_many_bytes(name, 63).map(|e| format!("name part {e}")));
    }
    if !is_label_word(name) {
        errors.push(format!("name part {}", rule()));
    }
    errors
}

/// May be empty.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors: Vec<String> = too_many_bytes(value, LABEL_VALUE_MAX).into_iter().collect();
    if !(value.is_empty() || is_label_word(value)) {
        let rule = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                    and must start and end with an alphanumeric character";
        errors.push(regex_error(rule, &format!("({LABEL_KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    errors
}

/// Keys of a ConfigMap or a Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = too_long(value, DNS1123_SUBDOMAIN_MAX);
    if value.is_empty() || !value.bytes().all(is_key_byte) {
        let rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_error(rule, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    errors.extend(match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ if value.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    });
    errors
}

/// Names of environment variables: printable ASCII but `=`.
pub fn env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|c| !(0x20..0x7f).contains(&c) || c == b'=') {
        let rule = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(rule.to_owned());
    }
    errors
}

/// `C` identifiers.
pub fn c_identifier(value: &str) -> Vec<String> {
    let rest_fits = value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if rest_fits && value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return Vec::new();
    }
    let rule = "a valid C identifier must start with alphabetic character or '_', \
                followed by a string of alphanumeric characters or '_'";
    vec![regex_error(rule, "[A-Za-z_][A-Za-z0-9_]*", &["my_name", "MY_NAME", "MyName"])]
}

/// Names of ports (RFC 6335).
pub fn port_name(value: &str) -> Vec<String> {
    let mut errors = too_long(value, 15);
    if value.is_empty() || !value.bytes().all(|c| c == b'-' || c.is_ascii_lowercase() || c.is_ascii_digit()) {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65_535)
}

pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

/// `50%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    let rule = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(rule, "[0-9]+%", &["1%", "93%"])]
}

/// A rule with examples and its regular expression.
pub fn regex_error(rule: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{rule} (regex used for validation is '{regex}')");
    }
    let listed: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{regex}')", listed.join(" or "))
}

pub fn max_len_error(length: usize) -> String {
    format!("must be no more than {length} characters")
}

fn not_a_subdomain(value: &str) -> Option<String> {
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                and must start and end with an alphanumeric character";
    (!is_subdomain(value)).then(|| regex_error(rule, DNS1123_SUBDOMAIN, &["example.com"]))
}

/// Upstream's newer rules (label keys and values) say "bytes" where its older ones say "characters".
fn too_many_bytes(value: &str, length: usize) -> Option<String> {
    (value.len() > length).then(|| format!("must be no more than {length} bytes"))
}

/// Lengths are in bytes, as Go counts them.
fn too_long(value: &str, length: usize) -> Vec<String> {
    if value.len() > length { vec![max_len_error(length)] } else { Vec::new() }
}

fn is_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |c: Option<&u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_key_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')
}

/// What [`LABEL_KEY`] matches.
fn is_label_word(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|c| is_key_byte(*c))
}
