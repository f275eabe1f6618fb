//! Who this server is to the servers whose APIs it aggregates: the front proxy's client certificate.

use std::sync::Arc;

use auth::pki::{CryptoError, Identity};
use parking_lot::RwLock;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;

use crate::connect::certified_key;

/// Can be replaced without a restart.
#[derive(Debug)]
pub struct ProxyClientCertificate {
    /// Guards the pointer only; held while cloning an `Arc`.
    current: RwLock<Arc<CertifiedKey>>,
}

impl ProxyClientCertificate {
    pub fn new(identity: &Identity) -> Result<Arc<ProxyClientCertificate>, CryptoError> {
        Ok(Arc::new(ProxyClientCertificate { current: RwLock::new(identity.certified_key()?) }))
    }

    /// From files; the error says what is wrong with them.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Arc<ProxyClientCertificate>, String> {
        let key = certified_key(certificate, key)?;
        Ok(Arc::new(ProxyClientCertificate { current: RwLock::new(Arc::new(key)) }))
    }

    /// The same for one that is there; what was there stays where they cannot be used.
    pub fn swap_pem(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        let next = Arc::new(certified_key(certificate, key)?);
        *self.current.write() = next;
        Ok(())
    }

    pub fn swap(&self, identity: &Identity) -> Result<(), CryptoError> {
        let next = identity.certified_key()?;
        *self.current.write() = next;
        Ok(())
    }
}

impl ResolvesClientCert for ProxyClientCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}
