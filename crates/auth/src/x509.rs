//! Client certificate authentication.
//!
//! The TLS handshake only *requests* a certificate and verifies that the peer holds its key ([`AcceptAnyClientCert`]).
//! The certificate itself is verified here, so that an invalid one becomes a 401 with a message instead
//! of a broken connection. The result is valid for the connection until [`Authenticated::not_after`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use webpki::{EndEntityCert, RawPublicKeyEntity};

use crate::pki::{COMMON_NAME, KUBERNETES_UID, ORGANIZATION, Parsed, name_parts};
use crate::roots::{ChainError, Purpose, Roots};
use crate::{UserInfo, names};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum X509Error {
    #[error("the client sent no certificate")]
    NoCertificate,
    #[error("the client certificate is malformed")]
    Malformed,
    #[error("the client certificate expired {0} seconds ago; issue a new one")]
    Expired(u64),
    #[error("the client certificate is not valid before {0} seconds from now; check the clocks")]
    NotYetValid(u64),
    #[error("the client certificate is not signed by a CA this server trusts")]
    UnknownAuthority,
    #[error("the client certificate is signed by the CA {0:?}, which has expired or is not valid yet")]
    AuthorityNotValid(String),
    #[error(
        "the client certificate is not valid for client authentication: its extended key usage lacks clientAuth"
    )]
    NotForClients,
    #[error("the client certificate was rejected: {0}")]
    Refused(String),
    #[error("the client certificate's subject has no common name (CN)")]
    NoCommonName,
    #[error("the client certificate's subject is malformed")]
    UnreadableName,
    #[error("the client certificate's subject must have at most one uid, which must not be empty")]
    BadUid,
}

/// A verified client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: UserInfo,
    /// When the first certificate of the chain expires, in Unix seconds; the connection must not reuse the cached result after this.
    pub not_after: u64,
}

/// The CAs whose client certificates are trusted, each as long as it is valid.
#[derive(Clone, Debug)]
pub struct ClientCa {
    roots: Roots,
}

impl ClientCa {
    /// Unusable certificates are skipped: they could verify nothing.
    pub fn new(certificates: &[CertificateDer<'_>]) -> ClientCa {
        ClientCa { roots: Roots::new(certificates) }
    }

    /// The CA names for the CertificateRequest, so that clients and browsers pick the right certificate.
    pub fn hints(&self) -> Vec<DistinguishedName> {
        self.roots.anchors().map(|anchor| DistinguishedName::in_sequence(&anchor.subject)).collect()
    }

    /// Whether one of these CAs signed the certificate, whatever its usage.
    pub(crate) fn has_issued(&self, certificate: &CertificateDer<'_>, at_unix: u64) -> bool {
        self.roots.have_issued(certificate, at_unix)
    }
}

/// The user of a client's certificate chain (leaf first), and how long a connection may cache it.
pub fn authenticate(
    chain: &[CertificateDer<'_>],
    ca: &ClientCa,
    now_unix: u64,
) -> Result<Authenticated, X509Error> {
    let (leaf, parsed, not_after) = verify(chain, ca, now_unix)?;
    let user = user_of(leaf, parsed.subject)?;
    Ok(Authenticated { user, not_after })
}

/// Until when a chain is valid, whoever it names.
pub(crate) fn valid_until(
    chain: &[CertificateDer<'_>],
    ca: &ClientCa,
    now_unix: u64,
) -> Result<u64, X509Error> {
    verify(chain, ca, now_unix).map(|(_, _, not_after)| not_after)
}

/// The leaf, and until when its chain is valid.
fn verify<'c>(
    chain: &'c [CertificateDer<'_>],
    ca: &ClientCa,
    now_unix: u64,
) -> Result<(&'c [u8], Parsed<'c>, u64), X509Error> {
    let (leaf, intermediates) = chain.split_first().ok_or(X509Error::NoCertificate)?;
    let parsed = Parsed::parse(leaf).ok_or(X509Error::Malformed)?;
    let verified = ca.roots.verify(leaf, intermediates, Purpose::Client, now_unix);
    let error = match verified {
        Ok(not_after) => return Ok((leaf, parsed, not_after)),
        Err(ChainError::Root(name, _)) => return Err(X509Error::AuthorityNotValid(name)),
        Err(ChainError::Certificate(error)) => error,
    };
    Err(match error {
        webpki::Error::CertExpired { .. } => X509Error::Expired(now_unix.saturating_sub(parsed.not_after)),
        webpki::Error::CertNotValidYet { .. } => {
            X509Error::NotYetValid(parsed.not_before.saturating_sub(now_unix))
        }
        // Another cluster's CA often has the same subject as ours, but never the same key.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            X509Error::UnknownAuthority
        }
        webpki::Error::RequiredEkuNotFoundContext(_) => X509Error::NotForClients,
        webpki::Error::BadDer => X509Error::Malformed,
        other => X509Error::Refused(format!("{other:?}")),
    })
}

/// A rustls verifier that requests a certificate, accepts any or none, and requires proof of the key.
#[derive(Debug)]
pub struct AcceptAnyClientCert {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AcceptAnyClientCert {
    /// `hints`: see [`ClientCa::hints`]; empty requests a certificate of any CA.
    pub fn new(hints: Vec<DistinguishedName>) -> Arc<AcceptAnyClientCert> {
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        Arc::new(AcceptAnyClientCert { hints, algorithms })
    }
}

impl ClientCertVerifier for AcceptAnyClientCert {
    fn client_auth_mandatory(&self) -> bool {
        false
    }
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }
    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match unreadable_key(leaf)? {
            None => rustls::crypto::verify_tls12_signature(message, leaf, signature, &self.algorithms),
            Some(key) => {
                let of_scheme =
                    self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signature.scheme);
                let mut algorithms = of_scheme.flat_map(|(_, algorithms)| *algorithms);
                let refused = rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
                let key = RawPublicKeyEntity::try_from(&key).map_err(|_| refused.clone())?;
                let proves =
                    algorithms.any(|a| key.verify_signature(*a, message, signature.signature()).is_ok());
                proves.then(HandshakeSignatureValid::assertion).ok_or(refused)
            }
        }
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        use rustls::crypto::{verify_tls13_signature, verify_tls13_signature_with_raw_key};
        match unreadable_key(leaf)? {
            None => verify_tls13_signature(message, leaf, signature, &self.algorithms),
            Some(key) => verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms),
        }
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The key of a certificate that webpki cannot parse (it may have an unknown critical extension), so that even it
/// gets a 401. It authenticates nobody: [`authenticate`] parses with webpki first.
fn unreadable_key(
    leaf: &CertificateDer<'_>,
) -> Result<Option<SubjectPublicKeyInfoDer<'static>>, rustls::Error> {
    if EndEntityCert::try_from(leaf).is_ok() {
        return Ok(None);
    }
    let bad = rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding);
    let parsed = Parsed::parse(leaf).ok_or(bad)?;
    Ok(Some(SubjectPublicKeyInfoDer::from(parsed.key_info.to_vec())))
}

fn user_of(leaf: &[u8], subject: &[u8]) -> Result<UserInfo, X509Error> {
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for part in name_parts(subject).ok_or(X509Error::Malformed)? {
        let readable = |text: Option<String>| text.ok_or(X509Error::UnreadableName);
        match part.oid {
            // Of several common names the last is used, as in Go.
            COMMON_NAME => user.name = readable(part.text)?,
            ORGANIZATION => user.groups.push(readable(part.text)?),
            KUBERNETES_UID => uids.push(readable(part.text)?),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Err(X509Error::NoCommonName);
    }
    match uids.as_slice() {
        [] => {}
        [uid] if !uid.is_empty() => user.uid = uid.clone(),
        _ => return Err(X509Error::BadUid),
    }
    let digest = ring::digest::digest(&ring::digest::SHA256, leaf);
    let hex: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    user.extra = BTreeMap::from([(names::CREDENTIAL_ID_KEY.to_owned(), vec![format!("X509SHA256={hex}")])]);
    Ok(user)
}
