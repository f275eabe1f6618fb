//! An API server as the generator sees it: address, TLS settings and credentials.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use client_http::{Config, ConfigError, Credentials, Url};
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig};

use crate::error::BenchError;

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
    /// The same without our certificate.
    bare_tls: Arc<ClientConfig>,
    pub token: Option<String>,
}

impl Endpoint {
    /// Reads the kubeconfig and looks up the server's address. A server that is not on this machine needs `allow_remote`.
    pub fn load(kubeconfig: &Path, allow_remote: bool) -> Result<Self, BenchError> {
        let config = Config::from_kubeconfig(kubeconfig).map_err(|error| match error {
            ConfigError::Read { path, source } => BenchError::ReadKubeconfig { path, source },
            other => BenchError::Kubeconfig(other),
        })?;
        let problem = |problem: String| {
            BenchError::Kubeconfig(ConfigError::Kubeconfig { path: kubeconfig.to_path_buf(), problem })
        };
        let tls = tls_config(&config)?;
        let bare_tls = tls_config(&Config { certificate_pem: None, ..config.clone() })?;
        let server = config.server;
        let url = Url::parse(&server)?;
        if !url.is_tls() {
            return Err(problem(format!("its server {server:?} does not begin with https://")));
        }
        let resolve_error = |source| BenchError::Resolve { server: server.clone(), source };
        let mut addresses = (url.host.as_str(), url.port).to_socket_addrs().map_err(resolve_error)?;
        let address = addresses.next().ok_or_else(|| problem(format!("{server} has no address")))?;
        if !allow_remote && !address.ip().is_loopback() {
            return Err(BenchError::Remote { server });
        }
        let name = config.tls_server_name.unwrap_or(url.host);
        let server_name =
            ServerName::try_from(name).map_err(|_| problem(format!("{server} has no usable host name")))?;
        Ok(Endpoint {
            server,
            address,
            host: url.authority.to_string(),
            path_prefix: url.prefix,
            server_name,
            tls,
            bare_tls,
            token: token(config.credentials).map_err(problem)?,
        })
    }

    /// The same server with other credentials: this token, or none.
    pub fn for_bearer(&self, token: Option<String>) -> Self {
        Endpoint { tls: self.bare_tls.clone(), token, ..self.clone() }
    }

    #[cfg(test)]
    pub fn for_tests() -> Self {
        let anyone = Config { skip_verify: true, ..Config::default() };
        Endpoint {
            server: "https://127.0.0.1:1".to_string(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            host: "127.0.0.1:1".to_string(),
            path_prefix: String::new(),
            server_name: ServerName::try_from("localhost").unwrap(),
            tls: tls_config(&anyone).unwrap(),
            bare_tls: tls_config(&anyone).unwrap(),
            token: None,
        }
    }
}

/// Every server gets the same cipher, and the one that costs the generator least. Servers in Go choose it anyway.
fn tls_config(config: &Config) -> Result<Arc<ClientConfig>, ConfigError> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    client_http::tls::client_config(config, provider, &[b"http/1.1"]).map(Arc::new)
}

/// The bearer token of the Authorization header; an error continues "the kubeconfig cannot be used: ".
fn token(credentials: Credentials) -> Result<Option<String>, String> {
    let token = match credentials {
        Credentials::None => return Ok(None),
        Credentials::Token(token) => token,
        Credentials::TokenFile(path) => std::fs::read_to_string(&path)
            .map(|token| token.trim().to_string())
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        Credentials::Basic { .. } | Credentials::Plugin(_) => {
            return Err(
                "its user logs in with a password or a plugin (exec); use one with a client certificate or a token"
                    .to_string(),
            );
        }
    };
    if token.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("its token holds control characters".to_string());
    }
    Ok(Some(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_kubeconfigs_are_refused_with_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let plugin = "exec: {command: login, apiVersion: client.authentication.k8s.io/v1beta1}";
        for (server, user, expected) in [
            ("http://127.0.0.1:1", "token: t", "https://"),
            ("https://h:x", "token: t", "no address"),
            ("https://192.0.2.1", "token: t", "--allow-remote"),
            ("https://127.0.0.1:1", "username: u", "client certificate or a token"),
            ("https://127.0.0.1:1", plugin, "client certificate or a token"),
            ("https://127.0.0.1:1", "tokenFile: config", "control characters"),
        ] {
            let text = format!(
                "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
                 clusters: [{{name: k, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}]\n\
                 users: [{{name: u, user: {{{user}}}}}]\n"
            );
            std::fs::write(&path, text).unwrap();
            let error = Endpoint::load(&path, false).unwrap_err().to_string();
            assert!(error.contains(expected), "{server} {user}: {error}");
        }
        let missing = Endpoint::load(&folder.path().join("none"), false).unwrap_err();
        assert!(missing.to_string().contains("--kubeconfig"), "{missing}");
    }
}
