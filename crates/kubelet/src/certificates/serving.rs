//! The certificate of the node's own port, which comes some time after the port.

use std::sync::Arc;

use auth::pki::{Identity, certified_pem};
use parking_lot::RwLock;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Empty at first: handshakes fail until the cluster has signed a certificate.
#[derive(Debug, Default)]
pub struct ServingSlot {
    /// Guards the pointer; held for a copy.
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl ServingSlot {
    pub fn set(&self, identity: &Identity) {
        match identity.certified_key() {
            Ok(key) => *self.current.write() = Some(key),
            Err(error) => tracing::error!(%error, "the serving certificate cannot be used"),
        }
    }

    /// The error says what is wrong with them; what was there stays then.
    pub fn set_pem(&self, certificate: &[u8], key: &[u8]) -> Result<(), String> {
        *self.current.write() = Some(Arc::new(certified_pem(certificate, key)?));
        Ok(())
    }

    pub fn is_set(&self) -> bool {
        self.current.read().is_some()
    }
}

impl ResolvesServerCert for ServingSlot {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.read().clone()
    }
}
