//! Addresses of what registries hold, and where they redirect to.

use std::fmt;

/// An `http` or `https` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Url {
    pub https: bool,
    /// Host, with a port where one is written.
    pub authority: String,
    /// With the query.
    pub path: String,
}

impl Url {
    pub fn parse(text: &str) -> Option<Url> {
        let uri: http::Uri = text.parse().ok()?;
        let https = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = uri.authority()?.as_str();
        // A login in a URL is not ours to send anywhere.
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if authority.is_empty() {
            return None;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some(Url { https, authority: authority.to_owned(), path: path.to_owned() })
    }

    /// What a `Location` means here.
    pub fn join(&self, location: &str) -> Option<Url> {
        if location.contains("://") {
            return Url::parse(location);
        }
        if let Some(rest) = location.strip_prefix("//") {
            return Url::parse(&format!("{}://{rest}", self.scheme()));
        }
        let path = if location.starts_with('/') {
            location.to_owned()
        } else {
            let before = self.path.split('?').next().unwrap_or_default();
            let folder = before.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{folder}/{location}")
        };
        Url::parse(&Url { path, ..self.clone() }.to_string())
    }

    pub fn host(&self) -> &str {
        let (host, _) = crate::hosts::split_port(&self.authority);
        host.trim_start_matches('[').trim_end_matches(']')
    }

    pub fn port(&self) -> u16 {
        let usual = if self.https { 443 } else { 80 };
        crate::hosts::split_port(&self.authority).1.and_then(|port| port.parse().ok()).unwrap_or(usual)
    }

    pub fn same_server(&self, other: &Url) -> bool {
        (self.https, self.port()) == (other.https, other.port())
            && self.host().eq_ignore_ascii_case(other.host())
    }

    fn scheme(&self) -> &'static str {
        if self.https { "https" } else { "http" }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_joined() {
        let base = Url::parse("https://r.io:5000/v2/a/blobs/x?ns=y").unwrap();
        for (location, to) in [
            ("https://cdn.io/x?sig=1", Some("https://cdn.io/x?sig=1")),
            ("http://user:pass@cdn.io/x", Some("http://cdn.io/x")),
            ("//cdn.io/x", Some("https://cdn.io/x")),
            ("/other?q", Some("https://r.io:5000/other?q")),
            ("y", Some("https://r.io:5000/v2/a/blobs/y")),
            ("ftp://cdn.io/x", None),
            ("https:///x", None),
            ("/a b", None),
        ] {
            assert_eq!(base.join(location).map(|url| url.to_string()).as_deref(), to, "{location}");
        }
    }

    #[test]
    fn a_server_is_scheme_host_and_port() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(url("https://a.io/x").same_server(&url("https://A.io:443/y")));
        for other in ["http://a.io/x", "https://a.io:5000/x", "https://b.io/x"] {
            assert!(!url("https://a.io/x").same_server(&url(other)), "{other}");
        }
        assert_eq!((url("http://[::1]/x").host(), url("http://[::1]:5000/x").port()), ("::1", 5000));
    }
}
