//! TLS as a configuration asks for it: whom a client believes to be the server, and whom it says it is itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use crate::config::{Config, ConfigError};

/// Where a machine keeps the authorities it trusts.
const MACHINE_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// `protocols`: what the client would like to speak, best first.
pub fn client_config(
    config: &Config,
    provider: CryptoProvider,
    protocols: &[&[u8]],
) -> Result<ClientConfig, ConfigError> {
    let wrong = |field, problem: String| ConfigError::Certificate { field, problem };
    let provider = Arc::new(provider);
    let field = "certificate-authority";
    let roots = match &config.authority_pem {
        _ if config.skip_verify => None,
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in chain(pem, field)? {
                roots.add(certificate).map_err(|error| wrong(field, error.to_string()))?;
            }
            Some(roots)
        }
        None => {
            let pem = MACHINE_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok());
            let pem =
                pem.ok_or_else(|| wrong(field, "none is given, and this machine has none".to_owned()))?;
            let mut roots = RootCertStore::empty();
            // One that cannot be read among a hundred is no reason to fail.
            roots.add_parsable_certificates(chain(&pem, field)?);
            Some(roots)
        }
    };
    let verifier = verifier(roots, &provider).map_err(|problem| wrong(field, problem))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS provider", error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut tls = match &config.certificate_pem {
        Some((certificate, key)) => {
            let chain = chain(certificate, "client-certificate")?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| wrong("client-key", format!("it is no private key in PEM: {error}")))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| wrong("client-certificate", error.to_string()))?
        }
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(tls)
}

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

fn chain(pem: &[u8], field: &'static str) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    certificates(pem).map_err(|problem| ConfigError::Certificate { field, problem: format!("it {problem}") })
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

/// The wall clock of a world, which certificates are checked by.
pub struct Clock(pub Env);

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.now_seconds())))
    }
}
