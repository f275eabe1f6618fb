//! One API server as the generator sees it: where it listens, what proves who it is, and who we are.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use client_http::tls;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore};

use crate::error::BenchError;
use crate::kubeconfig::{self, Access};

#[derive(Debug, Clone)]
pub struct Endpoint {
    /// As the kubeconfig has it, for messages.
    pub server: String,
    pub address: SocketAddr,
    /// The Host header.
    pub host: String,
    /// What stands before `/api` in every path; usually nothing.
    pub path_prefix: String,
    pub server_name: ServerName<'static>,
    pub tls: Arc<ClientConfig>,
    pub token: Option<String>,
}

impl Endpoint {
    /// Reads the kubeconfig and looks up the server's address. A server that is not on this machine needs `allow_remote`.
    pub fn load(kubeconfig: &Path, allow_remote: bool) -> Result<Self, BenchError> {
        let access = kubeconfig::load(kubeconfig)?;
        let problem = |problem: String| BenchError::Kubeconfig { path: kubeconfig.to_path_buf(), problem };
        let url = Url::parse(&access.server).map_err(problem)?;
        let resolve_error = |source| BenchError::Resolve { server: access.server.clone(), source };
        let mut addresses = (url.host.as_str(), url.port).to_socket_addrs().map_err(resolve_error)?;
        let address = addresses.next().ok_or_else(|| problem(format!("{} has no address", access.server)))?;
        if !allow_remote && !address.ip().is_loopback() {
            return Err(BenchError::Remote { server: access.server });
        }
        let name = access.tls_server_name.clone().unwrap_or(url.host);
        let server_name = ServerName::try_from(name)
            .map_err(|_| problem(format!("{} has no usable host name", access.server)))?;
        let tls = Arc::new(client_config(&access, &problem)?);
        Ok(Endpoint {
            server: access.server,
            address,
            host: url.authority,
            path_prefix: url.path_prefix,
            server_name,
            tls,
            token: access.token,
        })
    }

    #[cfg(test)]
    pub fn for_tests() -> Self {
        let access = Access { skip_verify: true, ..Access::default() };
        let unexpected = |problem| panic!("{problem}");
        Endpoint {
            server: "https://127.0.0.1:1".to_string(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            host: "127.0.0.1:1".to_string(),
            path_prefix: String::new(),
            server_name: ServerName::try_from("localhost").unwrap(),
            tls: Arc::new(client_config(&access, &unexpected).unwrap()),
            token: None,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Url {
    host: String,
    port: u16,
    authority: String,
    path_prefix: String,
}

impl Url {
    fn parse(server: &str) -> Result<Url, String> {
        let Some(rest) = server.strip_prefix("https://") else {
            return Err(format!("its server {server:?} does not begin with https://"));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().map_err(|_| format!("its server {server:?} has no valid port"))?,
            None => 443,
        };
        let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_empty() || !printable(rest) {
            return Err(format!("its server {server:?} is not an address"));
        }
        let path_prefix = match path.trim_end_matches('/') {
            "" => String::new(),
            path => format!("/{path}"),
        };
        Ok(Url { host: host.to_string(), port, authority: authority.to_string(), path_prefix })
    }
}

fn client_config(
    access: &Access,
    problem: &dyn Fn(String) -> BenchError,
) -> Result<ClientConfig, BenchError> {
    let mut provider = ring::default_provider();
    // Every server gets the same cipher, and the one that costs the generator least. Servers in Go choose it anyway.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let provider = Arc::new(provider);
    let roots = if access.skip_verify {
        None
    } else {
        let pem = access.authority_pem.as_deref().ok_or_else(|| {
            problem(
                "its cluster has neither certificate-authority-data nor insecure-skip-tls-verify".to_string(),
            )
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(pem, "certificate-authority").map_err(problem)? {
            roots.add(certificate)?;
        }
        Some(roots)
    };
    let verifier = tls::verifier(roots, &provider)
        .map_err(|error| problem(format!("its certificate authority cannot be used: {error}")))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match (&access.certificate_pem, &access.key_pem) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate, "client-certificate").map_err(problem)?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| problem(format!("its client-key is not a private key in PEM: {error}")))?;
            builder.with_client_auth_cert(chain, key)?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(pem: &[u8], field: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    tls::certificates(pem).map_err(|problem| format!("its {field} {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_addresses_are_taken_apart() {
        let url = |text: &str| {
            let url = Url::parse(text).unwrap();
            (url.host, url.port, url.authority, url.path_prefix)
        };
        let parts = |a: &str, b, c: &str, d: &str| (a.to_string(), b, c.to_string(), d.to_string());
        assert_eq!(url("https://127.0.0.1:6443"), parts("127.0.0.1", 6443, "127.0.0.1:6443", ""));
        assert_eq!(url("https://[::1]:6443/"), parts("::1", 6443, "[::1]:6443", ""));
        assert_eq!(url("https://host/k8s/c1/"), parts("host", 443, "host", "/k8s/c1"));
    }

    #[test]
    fn unusable_server_addresses_are_refused() {
        for text in ["", "http://127.0.0.1", "https://", "https://h:x", "https://h:99999", "https://h/a b"] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }
}
