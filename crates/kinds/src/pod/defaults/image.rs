//! Image references, for the default pull policy.
//!
//! ```text
//! [domain[:port]/]path[/path...][:tag][@algorithm:hex]
//! ```

use object::Map;

use crate::defaults::fill::{is_empty, text};

/// The longest path of a repository; the domain does not count.
const MAX_PATH: usize = 255;
const HUB: &str = "docker.io";

/// Fills in the pull policy of what names its image under `reference`.
pub(crate) fn pull_policy(map: &mut Map, reference: &str, policy: &'static str) {
    if is_empty(map, policy) {
        let always = is_latest(text(map, reference));
        map.set(policy, if always { "Always" } else { "IfNotPresent" });
    }
}

/// The tag "latest", or neither tag nor digest. False for an invalid reference.
fn is_latest(image: &str) -> bool {
    let bare_digest = image.len() == 64 && image.bytes().all(is_lower_hex);
    if bare_digest {
        return false;
    }
    let (left, digest) = match image.split_once('@') {
        Some((left, digest)) => (left, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash is a port.
    let last = left.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match left[last..].find(':') {
        Some(colon) => (&left[..last + colon], Some(&left[last + colon + 1..])),
        None => (left, None),
    };
    let valid = is_name(name) && tag.is_none_or(is_tag) && digest.is_none_or(is_digest);
    valid && tag.map_or(digest.is_none(), |tag| tag == "latest")
}

fn is_name(name: &str) -> bool {
    let (domain, path) = match name.split_once('/') {
        Some(("index.docker.io", rest)) => (HUB, rest),
        Some((first, rest)) if looks_like_domain(first) => (first, rest),
        _ => (HUB, name),
    };
    if !path.split('/').all(is_path_component) {
        return false;
    }
    // Docker Hub keeps single-part names under `library`.
    let library = if domain == HUB && !path.contains('/') { "library/".len() } else { 0 };
    if is_domain(domain) {
        return path.len() + library <= MAX_PATH;
    }
    // If it is no domain, it may still be the first part of the path.
    is_path_component(domain) && name.len() <= MAX_PATH
}

fn looks_like_domain(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.is_empty() || !address.bytes().all(|c| c == b':' || c.is_ascii_hexdigit()) {
                return false;
            }
            (None, rest)
        }
        None => {
            let colon = domain.find(':').unwrap_or(domain.len());
            (Some(&domain[..colon]), &domain[colon..])
        }
    };
    let part = |part: &str| {
        let edge = |c: Option<&u8>| c.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'-')
    };
    let numbered = match port.strip_prefix(':') {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()),
        None => port.is_empty(),
    };
    numbered && host.is_none_or(|host| host.split('.').all(part))
}

/// Runs of small letters and digits, with one of `.`, `_`, `__` or any number of `-` between two runs.
fn is_path_component(part: &str) -> bool {
    let alphanumeric = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = part.as_bytes();
    if !bytes.first().is_some_and(alphanumeric) || !bytes.last().is_some_and(alphanumeric) {
        return false;
    }
    bytes
        .split(alphanumeric)
        .all(|between| matches!(between, b"" | b"." | b"_" | b"__") || between.iter().all(|c| *c == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|c| word(c) || matches!(c, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let (hex, length) = match digest.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(is_lower_hex)
}

fn is_lower_hex(c: u8) -> bool {
    matches!(c, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::is_latest;

    const HEX: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    #[test]
    fn latest_is_the_tag_or_neither_tag_nor_digest() {
        for image in [
            "nginx",
            "nginx:latest",
            "library/nginx",
            "docker.io/nginx",
            "localhost/x",
            "registry:5000/a/b",
            "registry:5000/a/b:latest",
            "[::1]:5000/x",
            "Upper.Example/x",
            "a.b_c/x",
            "a__b/c--d",
            "index.docker.io/x",
        ] {
            assert!(is_latest(image), "{image}");
        }
        assert!(is_latest(&format!("x:latest@sha256:{HEX}")));
    }

    #[test]
    fn tags_digests_and_invalid_references_are_not_latest() {
        for image in [
            "nginx:1",
            "",
            "Nginx",
            "a b",
            " nginx",
            "nginx:",
            "nginx:-x",
            "nginx:a:latest",
            "a/",
            "/a",
            "a//b",
            "a..b",
            "a___b",
            "-a",
            "x@sha256:abc",
            "x@",
            "x:latest@sha256:abc",
            "[::1/x",
            "host:port/x",
            "é",
            "a.b:/x",
        ] {
            assert!(!is_latest(image), "{image}");
        }
        assert!(!is_latest(HEX));
        assert!(!is_latest(&format!("x@sha256:{HEX}")));
        assert!(!is_latest(&format!("x:{}", "t".repeat(129))));
        assert!(is_latest(&"x".repeat(247)) && !is_latest(&"x".repeat(248)));
    }
}
