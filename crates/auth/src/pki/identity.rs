//! A certificate with its key, ready for rustls, for a file, or for a kubeconfig.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::CryptoError;
use super::pem;

/// The leaf certificate and its private key (PKCS#8, ECDSA P-256).
#[derive(Clone)]
pub struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: Vec<u8>,
}

impl Identity {
    /// The chain sent to a TLS peer: one certificate, because the CA signs leaves directly.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone()]
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }

    pub fn certificate_pem(&self) -> String {
        pem::encode(pem::CERTIFICATE, &self.certificate)
    }

    pub fn key_pem(&self) -> String {
        pem::encode(pem::PRIVATE_KEY, &self.key)
    }

    pub fn certified_key(&self) -> Result<Arc<CertifiedKey>, CryptoError> {
        let key = rustls::crypto::ring::sign::any_ecdsa_type(&self.key())
            .map_err(|_| CryptoError("use the key for TLS"))?;
        Ok(Arc::new(CertifiedKey::new(self.chain(), key)))
    }
}

#[cfg(test)]
impl Identity {
    pub fn new(certificate: CertificateDer<'static>, key: Vec<u8>) -> Identity {
        Identity { certificate, key }
    }

    /// This certificate with another key, as an attacker without the private key would have.
    pub fn with_key_of(&self, other: &Identity) -> Identity {
        Identity { certificate: self.certificate.clone(), key: other.key.clone() }
    }
}

/// Omits the key.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// The serving certificate of a rustls server; can be replaced without a restart.
#[derive(Debug)]
pub struct ServingCertificate {
    /// Guards the pointer only; held while cloning an `Arc`.
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServingCertificate {
    pub fn new(identity: &Identity) -> Result<ServingCertificate, CryptoError> {
        Ok(ServingCertificate { current: RwLock::new(identity.certified_key()?) })
    }

    pub fn swap(&self, identity: &Identity) -> Result<(), CryptoError> {
        let next = identity.certified_key()?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A self-contained kubeconfig: CA, client certificate and key.
pub fn kubeconfig(server_url: &str, ca_pem: &str, user: &str, identity: &Identity) -> String {
    let credentials = format!(
        "    client-certificate-data: {}\n    client-key-data: {}\n",
        STANDARD.encode(identity.certificate_pem()),
        STANDARD.encode(identity.key_pem())
    );
    config(server_url, ca_pem, user, &credentials)
}

/// A kubeconfig with a bearer token.
pub fn kubeconfig_with_token(server_url: &str, ca_pem: &str, user: &str, token: &str) -> String {
    config(server_url, ca_pem, user, &format!("    token: {}\n", yaml_string(token)))
}

fn config(server_url: &str, ca_pem: &str, user: &str, credentials: &str) -> String {
    let (server, ca) = (yaml_string(server_url), STANDARD.encode(ca_pem));
    let (context, user) = (yaml_string(&format!("{user}@setpoint")), yaml_string(user));
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: setpoint\n  cluster:\n    \
         certificate-authority-data: {ca}\n    server: {server}\ncontexts:\n- name: {context}\n  context:\n    \
         cluster: setpoint\n    user: {user}\ncurrent-context: {context}\npreferences: {{}}\nusers:\n\
         - name: {user}\n  user:\n{credentials}"
    )
}

/// Always quoted, so that no text is parsed as a number or breaks the file.
fn yaml_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
