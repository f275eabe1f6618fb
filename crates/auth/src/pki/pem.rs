//! PEM: base64 between BEGIN and END lines.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub const CERTIFICATE: &str = "CERTIFICATE";
pub const PRIVATE_KEY: &str = "PRIVATE KEY";

pub fn encode(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().map(|b| char::from(*b)));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// All certificates of a file, in order; an error message if one is damaged or there is none.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err("no PEM certificate found".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("not valid PEM ({error})")),
    }
}

/// Certificates alone, whatever else stood beside them: a file may hold a private key, too.
pub fn of_certificates(certificates: &[CertificateDer<'_>]) -> String {
    certificates.iter().map(|certificate| encode(CERTIFICATE, certificate)).collect()
}

/// The PKCS#8 private key of a file.
pub fn private_key(pem: &[u8]) -> Result<Vec<u8>, String> {
    match PrivateKeyDer::from_pem_slice(pem) {
        Ok(PrivateKeyDer::Pkcs8(key)) => Ok(key.secret_pkcs8_der().to_vec()),
        Ok(_) => Err("not in PKCS#8 format (BEGIN PRIVATE KEY)".to_owned()),
        Err(error) => Err(format!("no PEM private key found ({error})")),
    }
}
