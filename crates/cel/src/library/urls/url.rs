//! Parsing a URL, as Go's `net/url` does it.

use std::net::IpAddr;

use super::super::netip::parse_address;
use super::super::quote::quote;
use super::escape::{Part, escape, escaped, lossy, unescape};

/// The value of `url()`.
#[derive(Debug)]
pub struct Url {
    pub scheme: String,
    /// With its port.
    pub host: String,
    /// Escaped.
    pub path: String,
    /// As it was written.
    pub query: String,
    /// All of it; URLs are equal if these are.
    pub(super) text: String,
}

impl Url {
    /// An absolute URL, or a path; a fragment may follow.
    pub fn parse(text: &str) -> Result<Url, String> {
        parse_request_uri(text)?;
        // Only now the fragment is told from the path or the query.
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let parts = Parts::parse(rest, false).map_err(|error| failure(rest, &error))?;
        let fragment = escaped(fragment, Part::Fragment).map_err(|error| failure(text, &error))?;
        let text = parts.text(&fragment);
        let Parts { scheme, host, path, query, .. } = parts;
        Ok(Url { scheme, host: lossy(host), path, query: query.unwrap_or_default().to_owned(), text })
    }

    /// Without the port, and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        let host = self.split_host().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }
    pub fn port(&self) -> &str {
        self.split_host().1
    }
    fn split_host(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port),
            _ => (&self.host, ""),
        }
    }
}

/// Whether a text is an absolute URL or a path, without a fragment.
pub(crate) fn parse_request_uri(text: &str) -> Result<(), String> {
    Parts::parse(text, true).map(drop).map_err(|error| failure(text, &error))
}

fn failure(text: &str, error: &str) -> String {
    format!("parse {}: {error}", quote(text.as_bytes()))
}

/// ```text
/// scheme:[//[user@]host][path][?query]
/// scheme:opaque[?query]
/// ```
#[derive(Default)]
struct Parts<'t> {
    /// In lower case.
    scheme: String,
    opaque: &'t str,
    /// Escaped.
    user: Option<String>,
    host: Vec<u8>,
    /// Escaped.
    path: String,
    query: Option<&'t str>,
    /// There is no `//`, so there is none without a host either.
    bare_path: bool,
}

impl<'t> Parts<'t> {
    fn parse(text: &'t str, request: bool) -> Result<Parts<'t>, String> {
        if text.bytes().any(|c| c.is_ascii_control()) {
            return Err(String::from("net/url: invalid control character in URL"));
        }
        if text.is_empty() && request {
            return Err(String::from("empty url"));
        }
        let mut parts = Parts::default();
        if text == "*" {
            parts.path = String::from("*");
            return Ok(parts);
        }
        let (scheme, rest) = split_scheme(text)?;
        parts.scheme = scheme.to_ascii_lowercase();
        let mut rest = rest;
        if let Some((before, query)) = rest.split_once('?') {
            rest = before;
            parts.query = Some(query);
        }
        let has_scheme = !parts.scheme.is_empty();
        if !rest.starts_with('/') {
            if has_scheme {
                parts.opaque = rest;
                return Ok(parts);
            }
            if request {
                return Err(String::from("invalid URI for request"));
            }
            let first = rest.split('/').next().unwrap_or_default();
            if first.contains(':') {
                return Err(String::from("first path segment in URL cannot contain colon"));
            }
        }
        match rest.strip_prefix("//") {
            Some(after) if has_scheme || (!request && !after.starts_with('/')) => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                (parts.user, parts.host) = parse_authority(&parts.scheme, authority)?;
                rest = path;
            }
            _ => parts.bare_path = has_scheme && rest.starts_with('/'),
        }
        parts.path = escaped(rest, Part::Path)?;
        Ok(parts)
    }

    fn text(&self, fragment: &str) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        let has_authority = !self.host.is_empty() || self.user.is_some();
        if !self.opaque.is_empty() {
            out.push_str(self.opaque);
        } else {
            let wants_slashes = !self.scheme.is_empty() && !self.path.is_empty() && !self.bare_path;
            if has_authority || wants_slashes {
                out.push_str("//");
            }
            if let Some(user) = &self.user {
                out.push_str(user);
                out.push('@');
            }
            out.push_str(&escape(&self.host, Part::Host));
            out.push_str(&self.path);
        }
        if let Some(query) = self.query {
            out.push('?');
            out.push_str(query);
        }
        if !fragment.is_empty() {
            out.push('#');
            out.push_str(fragment);
        }
        out
    }
}

/// Without a scheme it is empty.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let part_of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let end = text.find(|c| !part_of_scheme(c)).unwrap_or(text.len());
    match (text.split_at(end), text.as_bytes().first()) {
        ((_, rest), Some(b':')) if rest.len() == text.len() => Err(String::from("missing protocol scheme")),
        ((scheme, rest), Some(first)) if rest.starts_with(':') && first.is_ascii_alphabetic() => {
            Ok((scheme, &rest[1..]))
        }
        _ => Ok(("", text)),
    }
}

/// The user, escaped, and the host.
fn parse_authority(scheme: &str, authority: &str) -> Result<(Option<String>, Vec<u8>), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    let host = parse_host(scheme, host)?;
    let Some(user) = user else { return Ok((None, host)) };
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(valid) {
        return Err(String::from("net/url: invalid userinfo"));
    }
    let rewritten = |text: &str| unescape(text, Part::User).map(|plain| escape(&plain, Part::User));
    let user = match user.split_once(':') {
        Some((name, password)) => format!("{}:{}", rewritten(name)?, rewritten(password)?),
        None => rewritten(user)?,
    };
    Ok((Some(user), host))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    let bad_port = |port: &str| Err(format!("invalid port {} after host", quote(port.as_bytes())));
    match host.rfind('[') {
        Some(0) => {
            let Some((address, port)) = host[1..].rsplit_once(']') else {
                return Err(String::from("missing ']' in host"));
            };
            if !is_colon_port(port) {
                return bad_port(port);
            }
            let address = unescape_address(address)?;
            match parse_address(&address) {
                Err(error) => return Err(format!("invalid host: {error}")),
                Ok(parsed) if matches!(parsed.ip, IpAddr::V4(_)) => {
                    return Err(String::from("invalid IP-literal"));
                }
                Ok(_) => {}
            }
            return Ok([b"[", address.as_slice(), b"]", port.as_bytes()].concat());
        }
        Some(_) => return Err(String::from("invalid IP-literal")),
        None => {}
    }
    // Some databases take a list of hosts with ports, so other schemes allow colons before the last.
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    if let Some(colon) = colon
        && !is_colon_port(&host[colon..])
    {
        return bad_port(&host[colon..]);
    }
    unescape(host, Part::Host)
}

/// What stands in the brackets: an address, and perhaps a zone, which may be escaped more freely.
fn unescape_address(text: &str) -> Result<Vec<u8>, String> {
    let (address, zone) = text.split_at(text.find("%25").unwrap_or(text.len()));
    let mut out = unescape(address, Part::Host)?;
    out.extend(unescape(zone, Part::Zone)?);
    Ok(out)
}

fn is_colon_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(is_port)
}
fn is_port(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit())
}
