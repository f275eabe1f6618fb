//! Whom a client believes to be the server: certificates from PEM, and what checks them.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Believes who shows a certificate of these authorities; without any (`insecure-skip-tls-verify`), everybody. An error
/// says what is wrong with them.
pub fn verifier(
    authorities: Option<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let Some(roots) = authorities else {
        return Ok(Arc::new(AnyCertificate { provider: provider.clone() }));
    };
    let checks = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    Ok(checks.map_err(|error| error.to_string())?)
}

/// All certificates of a PEM file; an error goes on after "it ...".
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let list: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match list {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err("holds no certificate in PEM".to_owned()),
        Err(error) => Err(format!("is not PEM: {error}")),
    }
}

/// insecure-skip-tls-verify: the server need only hold the key of whatever certificate it shows.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
