//! CAs that may be replaced while the server runs.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;
use tokio::sync::watch;

use crate::pki::{certificates_from_pem, certificates_to_pem};
use crate::x509::ClientCa;

/// The CAs that count at a moment.
#[derive(Debug)]
pub struct Authorities {
    /// Their certificates, and nothing else: everybody may see them.
    pub pem: String,
    pub ca: ClientCa,
}

/// Whoever asks takes the CAs of this moment, or hears of the next ones.
#[derive(Debug)]
pub struct CaBundle {
    current: watch::Sender<Arc<Authorities>>,
}

impl CaBundle {
    pub fn new(certificates: &[CertificateDer<'_>]) -> CaBundle {
        CaBundle { current: watch::Sender::new(Arc::new(Authorities::new(certificates))) }
    }

    /// The error says what is wrong with it.
    pub fn from_pem(pem: &[u8]) -> Result<CaBundle, String> {
        Ok(CaBundle::new(&certificates_from_pem(pem)?))
    }

    pub fn current(&self) -> Arc<Authorities> {
        self.current.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Arc<Authorities>> {
        self.current.subscribe()
    }

    pub fn swap(&self, certificates: &[CertificateDer<'_>]) {
        self.current.send_replace(Arc::new(Authorities::new(certificates)));
    }

    /// What was there stays where it cannot be used.
    pub fn swap_pem(&self, pem: &[u8]) -> Result<(), String> {
        self.swap(&certificates_from_pem(pem)?);
        Ok(())
    }
}

impl Authorities {
    fn new(certificates: &[CertificateDer<'_>]) -> Authorities {
        Authorities { pem: certificates_to_pem(certificates), ca: ClientCa::new(certificates) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Issuer;

    #[test]
    fn the_old_cas_stay_where_the_new_ones_cannot_be_used() {
        let [old, new] = [(); 2].map(|()| Issuer::in_memory(1_767_225_600).expect("a CA"));
        let bundle = CaBundle::from_pem(old.ca_pem().as_bytes()).expect("a CA");
        let told = bundle.subscribe();
        assert!(bundle.swap_pem(b"nothing").is_err());
        assert_eq!((bundle.current().pem.as_str(), told.has_changed().unwrap()), (old.ca_pem(), false));
        bundle.swap_pem(new.ca_pem().as_bytes()).expect("a CA");
        assert_eq!((told.borrow().pem.as_str(), told.has_changed().unwrap()), (new.ca_pem(), true));
    }
}
