//! What handshakes are limited to: `tlsMinVersion`, `tlsCipherSuites` and `tlsCurvePreferences` of the configuration.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::version::TLS13;
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use crate::config::TlsOptions;

/// By IANA's names, and the shorter ones Go has for two of them. Those of TLS 1.3 are always there, as in Go.
const SUITES: [(&str, SupportedCipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", cipher_suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", cipher_suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", cipher_suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

static WITHOUT_TLS12: [&SupportedProtocolVersion; 1] = [&TLS13];

/// What handshakes may use; or what of it is not there.
pub fn protocol(
    options: &TlsOptions,
) -> Result<(CryptoProvider, &'static [&'static SupportedProtocolVersion]), String> {
    let versions = match options.min_version.as_str() {
        "" | "VersionTLS12" => rustls::ALL_VERSIONS,
        "VersionTLS13" => &WITHOUT_TLS12,
        other => {
            return Err(format!(
                "tlsMinVersion {other:?} is not supported: use VersionTLS12 or VersionTLS13"
            ));
        }
    };
    let mut provider = default_provider();
    let mut wanted: Vec<CipherSuite> = Vec::new();
    for name in &options.cipher_suites {
        let Some((_, suite)) = SUITES.iter().find(|(known, _)| known == name) else {
            let known: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "tlsCipherSuites: Cipher suite {name} not supported or doesn't exist: use one of {}",
                known.join(", ")
            ));
        };
        wanted.push(suite.suite());
    }
    if !wanted.is_empty() {
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
    }
    let groups = [(23, kx_group::SECP256R1), (24, kx_group::SECP384R1), (29, kx_group::X25519)];
    let mut preferred = Vec::new();
    for number in &options.curve_preferences {
        let Some((_, group)) = groups.iter().find(|(known, _)| known == number) else {
            return Err(format!(
                "tlsCurvePreferences: {number} is not supported: use 23 (P-256), 24 (P-384) or 29 (X25519)"
            ));
        };
        preferred.push(*group);
    }
    if !preferred.is_empty() {
        provider.kx_groups = preferred;
    }
    Ok((provider, versions))
}
