//! Whom to believe to be a webhook: the authorities of its bundle, or exactly the certificate in it.

use std::sync::Arc;

use auth::{Purpose, Roots};
use client_http::Config;
use env::Env;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::config::{ClientConfig, ConfigError};

pub(crate) fn connector(env: &Env, config: &ClientConfig) -> Result<TlsConnector, ConfigError> {
    let provider = ring::default_provider();
    let certificate_pem = config.credentials.as_ref().and_then(|known| known.certificate_pem.clone());
    // Where there is a bundle its own verifier follows; meanwhile nothing need be read from the machine.
    let base = Config { certificate_pem, skip_verify: config.ca_bundle.is_some(), ..Config::default() };
    let protocols: &[&[u8]] = if config.target.http2() { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    let mut tls = client_http::tls::client_config(&base, provider, protocols)
        .map_err(|error| ConfigError::Tls(error.to_string()))?;
    finish(&mut tls, env, config.ca_bundle.as_deref())?;
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
    finish(&mut tls, env, ca_bundle.filter(|_| !skip_verify))?;
    Ok(tls)
}

fn finish(tls: &mut rustls::ClientConfig, env: &Env, ca_bundle: Option<&[u8]>) -> Result<(), ConfigError> {
    tls.time_provider = Arc::new(client_http::tls::Clock(env.clone()));
    // A session that is resumed is not verified again, whatever has ended meanwhile.
    tls.resumption = Resumption::disabled();
    if let Some(bundle) = ca_bundle {
        tls.dangerous().set_certificate_verifier(Arc::new(Bundle::new(bundle)?));
    }
    Ok(())
}

/// Judges when it is asked: certificates end.
#[derive(Debug)]
struct Bundle {
    roots: Roots,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Bundle {
    fn new(pem: &[u8]) -> Result<Bundle, ConfigError> {
        let certificates = client_http::tls::authorities(pem).map_err(ConfigError::CaBundle)?;
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Ok(Bundle { roots: Roots::new(&certificates), algorithms })
    }
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.roots.verify(end_entity, intermediates, Purpose::Server, now.as_secs())?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
