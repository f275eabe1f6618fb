//! A certificate with its key, ready for rustls, for a file, or for a kubeconfig.

use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::KeyPair as _;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate::{COMMON_NAME, CryptoError, Parsed, name_parts};
use super::{key_pair, pem};

/// The leaf certificate and its private key (PKCS#8, ECDSA P-256).
#[derive(Clone)]
pub struct Identity {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) key: Vec<u8>,
}

impl Identity {
    /// A certificate and its key (PKCS#8), both in PEM, as another program or an earlier run wrote them; the error says what is wrong.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Identity, String> {
        Identity::issued(certificate, pem::private_key(key)?)
    }

    /// A certificate that was issued for a key (PKCS#8) of ours; the error says what is wrong.
    pub fn issued(certificate: &[u8], key: Vec<u8>) -> Result<Identity, String> {
        let certificate = pem::certificates(certificate)?.swap_remove(0);
        let pair = key_pair(&key, &crate::random()).ok_or("not an ECDSA P-256 key")?;
        let parsed = Parsed::parse(&certificate).ok_or("not an X.509 certificate")?;
        if parsed.public_key != pair.public_key().as_ref() {
            return Err("the certificate is not the key's".to_owned());
        }
        Ok(Identity { certificate, key })
    }

    /// Unix seconds of the first and the last moment of its life.
    pub fn validity(&self) -> (u64, u64) {
        Parsed::parse(&self.certificate).map_or((0, 0), |parsed| (parsed.not_before, parsed.not_after))
    }

    /// DNS names and IP addresses of the certificate.
    pub fn names(&self) -> Vec<String> {
        Parsed::parse(&self.certificate).map(|parsed| parsed.names).unwrap_or_default()
    }

    /// Empty: it has none.
    pub fn common_name(&self) -> String {
        let parts = Parsed::parse(&self.certificate).and_then(|parsed| name_parts(parsed.subject));
        let names = parts.into_iter().flatten().filter(|part| part.oid == COMMON_NAME);
        names.filter_map(|part| part.text).next_back().unwrap_or_default()
    }

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

    /// A certificate, with its chain if there is one, and its key, both in PEM; the error says what is wrong with them.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<ServingCertificate, String> {
        Ok(ServingCertificate { current: RwLock::new(Arc::new(certified_pem(certificate, key)?)) })
    }

    /// The same for one that is there; what was there stays where they cannot be used.
    pub fn swap_pem(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        let next = Arc::new(certified_pem(certificate, key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    pub fn swap(&self, identity: &Identity) -> Result<(), CryptoError> {
        let next = identity.certified_key()?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The DNS names and addresses it is for.
    pub fn names(&self) -> Vec<String> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        current.cert.first().and_then(|leaf| super::certificate_names(leaf)).unwrap_or_default()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A certificate, with its chain if there is one, and its key, for rustls.
pub fn certified_pem(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = pem::certificates(certificate)?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("no PEM private key found ({error})"))?;
    let key = rustls::crypto::ring::sign::any_supported_type(&key)
        .map_err(|error| format!("the key cannot be used for TLS ({error})"))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(error) => return Err(format!("the certificate is not the key's ({error})")),
    }
    Ok(certified)
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
