//! Request headers as credentials: a front proxy with a certificate of a CA of its own says who asks.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use crate::UserInfo;
use crate::ca_bundle::CaBundle;
use crate::impersonation::unescape;
use crate::x509::{self, X509Error};

/// Which proxies are believed, and in which headers they speak.
#[derive(Debug)]
pub struct RequestHeaders {
    authority: Arc<CaBundle>,
    pub names: RequestHeaderNames,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeaderNames {
    /// Common names of proxies' certificates; none: all of the CA.
    pub allowed_names: Vec<String>,
    /// The first that is there counts.
    pub username: Vec<String>,
    pub uid: Vec<String>,
    /// All values of all of them.
    pub group: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

impl RequestHeaderNames {
    /// As kubeadm sets them.
    pub fn usual(allowed_name: &str) -> RequestHeaderNames {
        let one = |name: &str| vec![name.to_owned()];
        RequestHeaderNames {
            allowed_names: one(allowed_name),
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefixes: one("X-Remote-Extra-"),
        }
    }
}

impl RequestHeaders {
    /// The error says what is wrong with the CA. Clients are shown its certificates, and nothing else of the file.
    pub fn new(authority_pem: &[u8], names: RequestHeaderNames) -> Result<RequestHeaders, String> {
        Ok(RequestHeaders { authority: Arc::new(CaBundle::from_pem(authority_pem)?), names })
    }

    /// Can be replaced while the server runs.
    pub fn authority(&self) -> &Arc<CaBundle> {
        &self.authority
    }

    /// Whether this chain is a proxy's; until when (Unix seconds).
    pub fn proxy(&self, chain: &[CertificateDer<'_>], now_unix: u64) -> Option<u64> {
        match x509::authenticate(chain, &self.authority.current().ca, now_unix) {
            Ok(who) => {
                let allowed = &self.names.allowed_names;
                (allowed.is_empty() || allowed.contains(&who.user.name)).then_some(who.not_after)
            }
            // Anybody of this CA is allowed, also who has no name.
            Err(X509Error::NoCommonName) if self.names.allowed_names.is_empty() => {
                x509::valid_until(chain, &self.authority.current().ca, now_unix).ok()
            }
            Err(_) => None,
        }
    }

    /// The user the headers name, if they do. Names of headers come in lower case.
    pub fn user(&self, headers: &[(&str, &[u8])]) -> Option<UserInfo> {
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let values = |name: &str| {
            let name = name.to_ascii_lowercase();
            headers.iter().filter(move |(known, _)| *known == name).map(|(_, value)| text(value))
        };
        let first = |names: &[String]| {
            names.iter().find_map(|name| values(name).next().filter(|value| !value.is_empty()))
        };
        let name = first(&self.names.username)?;
        let uid = first(&self.names.uid).unwrap_or_default();
        let groups =
            self.names.group.iter().flat_map(|name| values(name)).filter(|g| !g.is_empty()).collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.names.extra_prefixes {
            let prefix = prefix.to_ascii_lowercase();
            for (name, value) in headers {
                if let Some(key) = name.strip_prefix(&*prefix) {
                    extra.entry(unescape(key)).or_default().push(text(value));
                }
            }
        }
        Some(UserInfo { name, uid, groups, extra }.authenticated())
    }

    /// Whether a header (in lower case) is one of these credentials, which are for this server only.
    pub fn is_credential(&self, header: &str) -> bool {
        let names = &self.names;
        let mut all = names.username.iter().chain(&names.uid).chain(&names.group);
        all.any(|name| name.eq_ignore_ascii_case(header))
            || names.extra_prefixes.iter().any(|prefix| {
                header.len() >= prefix.len()
                    && header.as_bytes()[..prefix.len()].eq_ignore_ascii_case(prefix.as_bytes())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::{FrontProxy, Issuer};

    const NOW: u64 = 1_767_225_600;

    fn usual(proxy: &FrontProxy, allowed: &str) -> RequestHeaders {
        RequestHeaders::new(proxy.ca_pem().as_bytes(), RequestHeaderNames::usual(allowed)).expect("a CA")
    }

    #[test]
    fn only_an_allowed_certificate_of_that_ca_is_a_proxys() {
        let dir = tempfile::tempdir().expect("a directory");
        let proxy = FrontProxy::open_or_create(dir.path(), NOW).expect("made");
        let chain = proxy.client().chain();
        assert!(usual(&proxy, "front-proxy-client").proxy(&chain, NOW).is_some());
        assert!(usual(&proxy, "somebody").proxy(&chain, NOW).is_none());
        let mut any = usual(&proxy, "x");
        any.names.allowed_names.clear();
        assert!(any.proxy(&chain, NOW).is_some());
        assert!(any.proxy(&chain, NOW + 10 * 365 * 86_400).is_none(), "expired");
        let other = Issuer::in_memory(NOW).expect("a CA");
        let other = RequestHeaders::new(other.ca_pem().as_bytes(), any.names.clone()).expect("a CA");
        assert!(other.proxy(&chain, NOW).is_none());
    }

    #[test]
    fn nothing_but_certificates_is_shown_of_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let proxy = FrontProxy::open_or_create(dir.path(), NOW).expect("made");
        let combined = format!("{}{}", proxy.client().key_pem(), proxy.ca_pem());
        let headers = RequestHeaders::new(combined.as_bytes(), RequestHeaderNames::usual("x")).expect("a CA");
        assert_eq!(headers.authority().current().pem, proxy.ca_pem());
    }

    #[test]
    fn headers_name_the_user() {
        let dir = tempfile::tempdir().expect("a directory");
        let headers = usual(&FrontProxy::open_or_create(dir.path(), NOW).expect("made"), "x");
        let sent: [(&str, &[u8]); 6] = [
            ("x-remote-user", b"jane"),
            ("x-remote-uid", b"7"),
            ("x-remote-group", b"a"),
            ("x-remote-group", b"b"),
            ("x-remote-extra-example.org%2fscopes", b"one"),
            ("x-remote-extra-example.org%2fscopes", b"two"),
        ];
        let user = headers.user(&sent).expect("named");
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b", "system:authenticated"]);
        assert_eq!(user.extra["example.org/scopes"], ["one", "two"]);
        assert!(headers.user(&sent[1..]).is_none(), "nobody is named");
        assert!(
            sent.iter().all(|(name, _)| headers.is_credential(name)) && !headers.is_credential("x-remote")
        );
    }

    #[test]
    fn keys_are_unescaped_if_they_can_be() {
        assert_eq!(["a%2fb", "a%2", "%zz", "é"].map(unescape), ["a/b", "a%2", "%zz", "é"]);
    }
}
