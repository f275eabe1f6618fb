//! Where a webhook is: a URL, or a service of the cluster.

use object::{Value, quote, validate_text};

use super::{Errors, Path, int, member, text};

const FORM: &str = "; desired format: https://host[/path]";

impl Errors {
    /// An https URL of host and path, nothing else.
    pub(crate) fn webhook_url(&mut self, at: &Path<'_>, value: &str) {
        let url = match Url::parse(value) {
            Ok(url) => url,
            Err(why) => {
                let detail = format!("url must be a valid URL: parse {}: {why}{FORM}", quote(value));
                return self.required(at, &detail);
            }
        };
        if url.scheme != "https" {
            self.invalid(at, url.scheme.as_str(), format!("'https' is the only allowed URL scheme{FORM}"));
        }
        if url.host.is_empty() {
            self.invalid(at, url.host, format!("host must be specified{FORM}"));
        }
        if let Some(user) = url.user {
            self.invalid(at, user, "user information is not permitted in the URL");
        }
        if !url.fragment.is_empty() {
            self.invalid(at, url.fragment, "fragments are not permitted in the URL");
        }
        if !url.query.is_empty() {
            self.invalid(at, url.query, "query parameters are not permitted in the URL");
        }
    }

    /// The service of a webhook. Upstream's callers swap name and namespace, so a missing one is reported at the other's path.
    pub(crate) fn webhook_service(&mut self, at: &Path<'_>, service: &Value) {
        if text(service, "namespace").is_empty() {
            self.required(&at.child("name"), "");
        }
        if text(service, "name").is_empty() {
            self.required(&at.child("namespace"), "");
        }
        let port = int(service, "port").unwrap_or(0);
        let problems = validate_text::port_number(port);
        if !problems.is_empty() {
            self.invalid(&at.child("port"), port, format!("port is not valid: {}", problems.join(", ")));
        }
        if let Some(path) = member(service, "path").and_then(Value::as_str) {
            self.webhook_path(&at.child("path"), path);
        }
    }

    fn webhook_path(&mut self, at: &Path<'_>, path: &str) {
        match path {
            "" | "/" => return,
            "//" => return self.invalid(at, path, "segment[0] may not be empty"),
            _ => {}
        }
        if !path.starts_with('/') {
            self.invalid(at, path, "must start with a '/'");
        }
        // Go cuts off the first byte as the slash; of another character an invalid rest is left.
        let rest = path.get(1..).unwrap_or(path);
        for (i, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
            if step.is_empty() {
                self.invalid(at, path, format!("segment[{i}] may not be empty"));
                continue;
            }
            for problem in validate_text::dns1123_subdomain(step) {
                self.invalid(at, path, format!("segment[{i}]: {problem}"));
            }
        }
    }
}

struct Url<'u> {
    scheme: String,
    user: Option<&'u str>,
    host: &'u str,
    query: &'u str,
    fragment: &'u str,
}

impl<'u> Url<'u> {
    /// As Go's `net/url` reads one; the error in its words.
    fn parse(text: &'u str) -> Result<Url<'u>, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme.is_empty() && !rest.starts_with('/') {
            let first = rest.split('/').next().unwrap_or_default();
            if first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let authority = rest.strip_prefix("//").map(|rest| rest.split('/').next().unwrap_or_default());
        let (user, host) = match authority {
            None => (None, ""),
            Some(authority) => match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            },
        };
        check_host(host)?;
        check_escapes(rest)?;
        check_escapes(fragment)?;
        Ok(Url { scheme, user, host, query, fragment })
    }
}

/// Whether Go's `url.ParseRequestURI` finds a scheme and a host. It knows no fragment: a `#` is part of the path.
pub(crate) fn is_url_with_host(text: &str) -> bool {
    let authority =
        text.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let whole = text.replace('#', "/");
    !authority.contains('#')
        && Url::parse(&whole).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

fn scheme(text: &str) -> Result<(String, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..i].to_lowercase(), &text[i + 1..])),
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return Err("missing ']' in host".to_owned()),
        (true, Some(end)) => &host[end + 1..],
        (false, _) => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = port.is_empty() || (port.starts_with(':') && port[1..].bytes().all(|b| b.is_ascii_digit()));
    if !digits {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !fits(*c)) {
        Some(bad) => return Err(format!("invalid character {} in host name", quote(&bad.to_string()))),
        None => check_escapes(host)?,
    }
    // Only bytes beyond ASCII, and the percent sign itself, are escaped in a host.
    let ascii = |at: &usize| {
        matches!(host.as_bytes().get(at + 1), Some(b'0'..=b'7')) && !host[*at..].starts_with("%25")
    };
    match host.match_indices('%').map(|(at, _)| at).find(ascii) {
        Some(at) => Err(format!("invalid URL escape {}", quote(&host[at..at + 3]))),
        None => Ok(()),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let hex: Vec<char> = text[at..].chars().take(3).collect();
        if hex.len() < 3 || !hex[1..].iter().all(char::is_ascii_hexdigit) {
            let shown: String = hex.into_iter().collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
}
