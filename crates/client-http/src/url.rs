//! A server's address, taken apart.

use http::uri::{Authority, Scheme};

use crate::config::ConfigError;

/// `https://host:port/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    pub authority: Authority,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// What stands before `/api` in every path; usually nothing.
    pub prefix: String,
}

impl Url {
    pub fn parse(server: &str) -> Result<Url, ConfigError> {
        Url::split(server).ok_or_else(|| ConfigError::Server(server.to_owned()))
    }

    fn split(server: &str) -> Option<Url> {
        let uri: http::Uri = server.parse().ok()?;
        let scheme = uri.scheme()?.clone();
        let authority = uri.authority()?.clone();
        if !(scheme == Scheme::HTTP || scheme == Scheme::HTTPS) || uri.query().is_some() {
            return None;
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if authority.as_str() == authority.host() => {
                if scheme == Scheme::HTTPS {
                    443
                } else {
                    80
                }
            }
            None => return None,
        };
        if host.is_empty() || authority.as_str().contains('@') {
            return None;
        }
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Some(Url { scheme, authority, host, port, prefix })
    }

    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::HTTPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let parts = |text: &str| {
            let url = Url::parse(text).unwrap();
            (url.host.clone(), url.port, url.prefix.clone(), url.is_tls())
        };
        assert_eq!(parts("https://127.0.0.1:6443"), ("127.0.0.1".to_owned(), 6443, String::new(), true));
        assert_eq!(parts("https://[::1]:6443/"), ("::1".to_owned(), 6443, String::new(), true));
        assert_eq!(parts("https://h/k8s/c1/"), ("h".to_owned(), 443, "/k8s/c1".to_owned(), true));
        assert_eq!(parts("http://h"), ("h".to_owned(), 80, String::new(), false));
        for bad in ["", "h:1", "ftp://h", "https://", "https://h:99999", "https://a@h", "https://h?x=1"] {
            assert!(Url::parse(bad).is_err(), "{bad}");
        }
    }
}
