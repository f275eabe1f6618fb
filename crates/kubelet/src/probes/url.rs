//! The address of an HTTP probe, and where a redirect from it leads.

use std::fmt::{self, Display};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What cannot stand in a request line as it is.
const UNSAFE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// The same, in a path whose every byte means itself.
const LITERAL: &AsciiSet = &UNSAFE.add(b'%').add(b'?').add(b'#');

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub https: bool,
    /// A name or address, without brackets.
    pub host: String,
    pub port: Option<u16>,
    /// Empty, or from its slash on.
    path: String,
    /// From the question mark on, or empty.
    query: String,
}

/// What a redirect may also say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nowhere {
    Malformed,
    /// Not HTTP.
    Scheme {
        scheme: String,
        host: String,
    },
}

impl Url {
    /// `path` is as a pod has it: with a query perhaps.
    pub fn new(https: bool, host: &str, port: u16, path: &str) -> Url {
        let (path, query) = match split_path(path) {
            Some((path, query)) => (encode(path), encode(query)),
            // Too late to refuse it: taken literally.
            None => (utf8_percent_encode(path, LITERAL).to_string(), String::new()),
        };
        let slash = if path.is_empty() || path.starts_with('/') { "" } else { "/" };
        Url { https, host: host.to_owned(), port: Some(port), path: format!("{slash}{path}"), query }
    }

    /// Where `Location` leads from here.
    pub fn join(&self, location: &str) -> Result<Url, Nowhere> {
        let location = encode(location.split('#').next().unwrap_or_default());
        if let Some((scheme, rest)) = location.split_once("://")
            && !scheme.is_empty()
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        {
            let scheme = scheme.to_ascii_lowercase();
            let url = Url::absolute(scheme == "https", rest)?;
            return match scheme.as_str() {
                "http" | "https" => Ok(url),
                _ => Err(Nowhere::Scheme { scheme, host: url.host }),
            };
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Url::absolute(self.https, rest);
        }
        let (path, query) = split_query(&location);
        let (path, query) = match path {
            "" if query.is_empty() => (self.path.clone(), self.query.as_str()),
            "" => (self.path.clone(), query),
            path if path.starts_with('/') => (without_dots(path), query),
            path => {
                let folder = self.path.rfind('/').map_or("/", |slash| &self.path[..=slash]);
                (without_dots(&format!("{folder}{path}")), query)
            }
        };
        Ok(Url { path, query: query.to_owned(), ..self.clone() })
    }

    fn absolute(https: bool, rest: &str) -> Result<Url, Nowhere> {
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let parsed: http::uri::Authority = authority.parse().map_err(|_| Nowhere::Malformed)?;
        let port = parsed.port_u16();
        if port.is_none() && authority != parsed.host() {
            return Err(Nowhere::Malformed);
        }
        let (path, query) = split_query(rest);
        Ok(Url {
            https,
            host: parsed.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            path: path.to_owned(),
            query: query.to_owned(),
        })
    }

    /// What the request line asks for.
    pub fn target(&self) -> String {
        let path = if self.path.is_empty() { "/" } else { &self.path };
        format!("{path}{}", self.query)
    }

    /// Host and port as the `Host` header has them.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }
}

impl Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}{}", self.authority(), self.path, self.query)
    }
}

/// Path and query of a pod's `path`; `None` where it is not a valid one.
fn split_path(text: &str) -> Option<(&str, &str)> {
    let text = text.split('#').next().unwrap_or_default();
    let (path, query) = split_query(text);
    // Two slashes begin a host, which the probe has already.
    let path = match path.strip_prefix("//") {
        Some(rest) => rest.find('/').map_or("", |slash| &rest[slash..]),
        None => path,
    };
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        let valid = match byte {
            b'%' => {
                bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
                    && bytes.next().is_some_and(|b| b.is_ascii_hexdigit())
            }
            byte => !byte.is_ascii_control(),
        };
        if !valid {
            return None;
        }
    }
    Some((path, query))
}

fn split_query(text: &str) -> (&str, &str) {
    text.split_at(text.find('?').unwrap_or(text.len()))
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNSAFE).to_string()
}

/// RFC 3986, 5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let last = segments.len().saturating_sub(1);
    for (at, segment) in segments.iter().enumerate() {
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if at == last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_put_together() {
        for (https, host, path, expected) in [
            (false, "localhost", "", "http://localhost:93"),
            (true, "localhost", "/path", "https://localhost:93/path"),
            (false, "localhost", "?foo", "http://localhost:93?foo"),
            (true, "localhost", "/path?bar", "https://localhost:93/path?bar"),
            (false, "fd00::1", "healthz", "http://[fd00::1]:93/healthz"),
            (false, "localhost", "/a b#c", "http://localhost:93/a%20b"),
            (false, "localhost", "/100%?x", "http://localhost:93/100%25%3Fx"),
            (false, "localhost", "/caf\u{e9}", "http://localhost:93/caf%C3%A9"),
        ] {
            assert_eq!(Url::new(https, host, 93, path).to_string(), expected);
        }
        assert_eq!(Url::new(false, "h", 1, "?foo").target(), "/?foo");
    }

    #[test]
    fn redirects_lead_where_rfc_3986_says() {
        let here = Url::new(false, "10.0.0.1", 8080, "/a/b?q=1");
        for (location, expected) in [
            ("/new", "http://10.0.0.1:8080/new"),
            ("c", "http://10.0.0.1:8080/a/c"),
            ("../c?x#y", "http://10.0.0.1:8080/c?x"),
            ("?x", "http://10.0.0.1:8080/a/b?x"),
            ("./../../..", "http://10.0.0.1:8080/"),
            ("//other/x", "http://other/x"),
            ("HTTPS://10.0.0.1/y", "https://10.0.0.1/y"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(here.join(location).map(|url| url.to_string()).as_deref(), Ok(expected), "{location}");
        }
        assert_eq!(here.join("https://h/y").map(|url| url.port()), Ok(443));
        for bad in ["http://", "http://h:99999/", "http://a b/"] {
            assert_eq!(here.join(bad), Err(Nowhere::Malformed), "{bad}");
        }
        let other = Nowhere::Scheme { scheme: "ftp".to_owned(), host: "x".to_owned() };
        assert_eq!(here.join("ftp://x/"), Err(other));
    }
}
