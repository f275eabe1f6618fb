//! Whom to believe to be a webhook: the authorities of its bundle, or exactly the certificate in it.

use std::sync::Arc;
use std::time::Duration;

use client_http::Config;
use env::Env;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::config::{ClientConfig, ConfigError};
use crate::validity;

pub(crate) fn connector(env: &Env, config: &ClientConfig) -> Result<TlsConnector, ConfigError> {
    let provider = ring::default_provider();
    let certificate_pem = config.credentials.as_ref().and_then(|known| known.certificate_pem.clone());
    // Where there is a bundle its own verifier follows; meanwhile nothing need be read from the machine.
    let base = Config { certificate_pem, skip_verify: config.ca_bundle.is_some(), ..Config::default() };
    let protocols: &[&[u8]] = if config.target.http2() { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    let mut tls = client_http::tls::client_config(&base, provider, protocols)
        .map_err(|error| ConfigError::Tls(error.to_string()))?;
    tls.time_provider = Arc::new(client_http::tls::Clock(env.clone()));
    if let Some(bundle) = &config.ca_bundle {
        tls.dangerous().set_certificate_verifier(Arc::new(Bundle::new(bundle)?));
    }
    Ok(TlsConnector::from(Arc::new(tls)))
}

/// TLS for a server that is no webhook: believed by its bundle, by the machine's authorities, or whatever it shows; HTTP/1.1.
pub fn client_config(
    env: &Env,
    ca_bundle: Option<&[u8]>,
    skip_verify: bool,
) -> Result<rustls::ClientConfig, ConfigError> {
    let base = Config { skip_verify: skip_verify || ca_bundle.is_some(), ..Config::default() };
    let mut tls = client_http::tls::client_config(&base, ring::default_provider(), &[b"http/1.1"])
        .map_err(|error| ConfigError::Tls(error.to_string()))?;
    tls.time_provider = Arc::new(client_http::tls::Clock(env.clone()));
    if let Some(bundle) = ca_bundle.filter(|_| !skip_verify) {
        tls.dangerous().set_certificate_verifier(Arc::new(Bundle::new(bundle)?));
    }
    Ok(tls)
}

#[derive(Debug)]
struct Bundle {
    certificates: Vec<CertificateDer<'static>>,
    chains: Arc<WebPkiServerVerifier>,
}

impl Bundle {
    fn new(pem: &[u8]) -> Result<Bundle, ConfigError> {
        let certificates = client_http::tls::certificates(pem).map_err(|_| ConfigError::CaBundle)?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::new(ring::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|_| ConfigError::CaBundle)?;
        Ok(Bundle { certificates, chains })
    }
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // People put the serving certificate itself into the bundle, often one that says it is an authority: Go takes it as a chain
        // of one, and rustls would refuse an authority that serves.
        if !self.certificates.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) {
            return self.chains.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let (not_before, not_after) = validity::of(end_entity).ok_or(CertificateError::BadEncoding)?;
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if now.as_secs() < not_before {
            let not_before = at(not_before);
            return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
        }
        if now.as_secs() > not_after {
            let not_after = at(not_after);
            return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
