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
use rustls_pki_types::pem::{PemObject, SectionKind};
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
            roots.add_parsable_certificates(authorities(pem).map_err(|problem| wrong(field, problem))?);
            Some(roots)
        }
        None => {
            let pem = MACHINE_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok());
            let pem =
                pem.ok_or_else(|| wrong(field, "none is given, and this machine has none".to_owned()))?;
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(authorities(&pem).map_err(|problem| wrong(field, problem))?);
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

/// The authorities of a PEM file, as Go's clients read them: one that cannot be read among others is no reason to fail. An error is in
/// client-go's words.
pub fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let (mut found, mut readable) = (Vec::new(), RootCertStore::empty());
    let mut problem = "unable to parse bytes as PEM block";
    let mut sections = sections(pem).filter_map(|section| PemObject::from_pem_slice(section).ok()).peekable();
    if sections.peek().is_some() {
        problem = "no valid certificate authority data seen";
    }
    for (kind, der) in sections {
        if kind != SectionKind::Certificate {
            continue;
        }
        let certificate = CertificateDer::from(der);
        match readable.add(certificate.clone()) {
            Ok(()) => found.push(certificate),
            Err(_) => problem = "failed to parse certificate: x509: malformed certificate",
        }
    }
    if found.is_empty() { Err(problem.to_owned()) } else { Ok(found) }
}

/// What begins with a BEGIN line and goes on to the next one: a section without an end does not spoil those behind it.
fn sections(pem: &[u8]) -> impl Iterator<Item = &[u8]> {
    let begins = memchr::memmem::find_iter(pem, b"-----BEGIN ")
        .filter(|at| *at == 0 || matches!(pem[at - 1], b'\n' | b'\r'))
        .collect::<Vec<_>>();
    let ends = begins.iter().skip(1).copied().chain([pem.len()]).collect::<Vec<_>>();
    begins.into_iter().zip(ends).map(|(begin, end)| &pem[begin..end])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_that_cannot_be_read_are_skipped() {
        let issuer = auth::pki::Issuer::in_memory(1_767_225_600).unwrap();
        let good = issuer.ca_pem();
        let count = |pem: &str| authorities(pem.as_bytes()).map(|found| found.len());
        assert_eq!(count(good), Ok(1));
        let section =
            |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
        let broken = section("CERTIFICATE", "eA==");
        let damaged = [
            broken.clone(),
            section("CERTIFICATE", "!"),
            section("CERTIFICATE", "Proc-Type: 4\n\neA=="),
            section("PRIVATE KEY", "eA=="),
            section("SOMETHING", "eA=="),
            "-----BEGIN CERTIFICATE-----\neA==\n".to_owned(),
            "-----BEGIN CERTIFICATE\neA==\n-----END CERTIFICATE-----\n".to_owned(),
            "words -----BEGIN CERTIFICATE-----\n".to_owned(),
        ];
        for damaged in damaged {
            assert_eq!(count(&format!("{damaged}{good}{damaged}{good}{damaged}")), Ok(2), "{damaged}");
        }
        for (pem, problem) in [
            ("", "unable to parse bytes as PEM block"),
            ("rubbish", "unable to parse bytes as PEM block"),
            (&*section("PRIVATE KEY", "eA=="), "no valid certificate authority data seen"),
            (&*broken, "failed to parse certificate: x509: malformed certificate"),
        ] {
            assert_eq!(count(pem), Err(problem.to_owned()), "{pem}");
        }
    }
}
