//! Addresses and names of the network.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};

use crate::pattern::Pattern;

/// As Go parses them: no leading zeros, no zones.
pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}

/// Leading zeros are ignored, as they were in older versions.
pub(super) fn is_sloppy_ip(text: &str) -> bool {
    if !text.contains(':') {
        return is_sloppy_ipv4(text);
    }
    match text.rsplit_once(':') {
        Some((head, tail)) if tail.contains('.') => {
            is_sloppy_ipv4(tail) && format!("{head}:0:0").parse::<Ipv6Addr>().is_ok()
        }
        _ => text.parse::<Ipv6Addr>().is_ok(),
    }
}

fn is_sloppy_ipv4(text: &str) -> bool {
    let part = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        let value = part.trim_start_matches('0');
        digits && value.len() <= 3 && (value.is_empty() || value.parse::<u16>().is_ok_and(|n| n <= 255))
    };
    text.split('.').count() == 4 && text.split('.').all(part)
}

pub(super) fn is_sloppy_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = if is_sloppy_ipv4(address) {
        32
    } else if address.contains(':') && is_sloppy_ip(address) {
        128
    } else {
        return false;
    };
    !bits.is_empty()
        && bits.bytes().all(|c| c.is_ascii_digit())
        && bits.trim_start_matches('0').len() <= 3
        && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// Of 6, 8 or 20 bytes, in pairs with `:` or `-`, in fours with dots, or plain.
pub(super) fn is_mac(text: &str) -> bool {
    let bytes = text.as_bytes();
    if matches!(bytes.len(), 12 | 16 | 40) && bytes.iter().all(u8::is_ascii_hexdigit) {
        return true;
    }
    let (group, separator) = match bytes.get(2) {
        Some(c @ (b':' | b'-')) => (2, *c),
        _ => match bytes.get(4) {
            Some(b'.') => (4, b'.'),
            _ => return false,
        },
    };
    let fits = |(i, c): (usize, &u8)| match (i + 1) % (group + 1) {
        0 => *c == separator,
        _ => c.is_ascii_hexdigit(),
    };
    let count = bytes.len().div_ceil(group + 1) * group / 2;
    (bytes.len() + 1).is_multiple_of(group + 1)
        && matches!(count, 6 | 8 | 20)
        && bytes.iter().enumerate().all(fits)
}

/// Labels of letters, digits and symbols of any script. One alone may have a dash as its second character only; with dots, dashes
/// may be anywhere inside of a label, and the last one is letters.
pub(super) fn is_hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let Some((labels, last)) = text.rsplit_once('.') else {
        let mut chars = text.chars();
        let first = chars.next().is_some_and(is_host_char);
        let rest = chars.as_str();
        return first && rest.strip_prefix('-').unwrap_or(rest).chars().all(is_host_char);
    };
    let is_label = |label: &str| {
        let edge = |c: Option<char>| c.is_some_and(is_host_char);
        let mut chars = label.chars();
        edge(chars.clone().next()) && edge(chars.next_back()) && chars.all(|c| c == '-' || is_host_char(c))
    };
    labels.split('.').all(is_label) && last.chars().count() >= 2 && last.chars().all(is_letter)
}

fn is_host_char(c: char) -> bool {
    static CLASS: LazyLock<Arc<Pattern>> = LazyLock::new(|| Pattern::shared(r"^[\p{S}\p{L}]$"));
    c.is_ascii_alphanumeric() || "$+<=>^`|~".contains(c) || is_of(c, &CLASS)
}

fn is_letter(c: char) -> bool {
    static CLASS: LazyLock<Arc<Pattern>> = LazyLock::new(|| Pattern::shared(r"^\p{L}$"));
    c.is_ascii_alphabetic() || is_of(c, &CLASS)
}

/// A class that is not ASCII; a pattern of one character is small, one with many such classes is not.
fn is_of(c: char, class: &Pattern) -> bool {
    !c.is_ascii() && class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// What a request line may have: an absolute URI or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|c| c < 0x20 || c == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let (path, _query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        // Opaque, as mailto: is; without a scheme there is no such thing.
        return scheme;
    }
    // Without a scheme two slashes begin no host: a request line has paths.
    let Some(after) = path.strip_prefix("//").filter(|_| scheme) else { return escapes_are_valid(path) };
    let (authority, path) = after.find('/').map_or((after, ""), |at| after.split_at(at));
    is_authority(authority) && escapes_are_valid(path)
}

/// Whether there is a scheme, and what follows it; `None` for one that is malformed.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return None,
            ':' => return Some((true, &text[i + 1..])),
            _ => return Some((false, text)),
        }
    }
    Some((false, text))
}

fn escapes_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    bytes.iter().enumerate().all(|(i, c)| *c != b'%' || (hex(i + 1) && hex(i + 2)))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let user_byte = |c: u8| c.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&c);
    if user.is_some_and(|user| !user.bytes().all(user_byte) || !escapes_are_valid(user)) {
        return false;
    }
    is_host(host)
}

fn is_host(host: &str) -> bool {
    let port = |text: &str| {
        text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|c| c.is_ascii_digit()))
    };
    if let Some(inner) = host.strip_prefix('[') {
        let Some((address, after)) = inner.rsplit_once(']') else { return false };
        let (address, zone) = match address.split_once("%25") {
            Some((address, zone)) => (address, Some(zone)),
            None => (address, None),
        };
        return port(after)
            && zone.is_none_or(|zone| !zone.is_empty() && escapes_are_valid(zone))
            && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, rest) = host.find(':').map_or((host, ""), |at| host.split_at(at));
    // What is not ASCII is let through, and escapes of it are.
    let fits = |c: u8| !c.is_ascii() || c.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:]<>\"%".contains(&c);
    port(rest) && name.bytes().all(fits) && host_escapes_are_valid(name)
}

/// Only bytes beyond ASCII may be escaped in a host.
fn host_escapes_are_valid(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.iter().enumerate().all(|(i, c)| {
        *c != b'%'
            || (bytes.get(i + 1).is_some_and(|high| high.is_ascii_hexdigit() && *high >= b'8')
                && bytes.get(i + 2).is_some_and(u8::is_ascii_hexdigit))
    })
}
