//! Client certificates: who the holder of a verified one is.
//!
//! The handshake only *requests* a certificate and proves that the peer holds its key ([`AcceptAnyClientCert`]).
//! Whether the certificate is good is decided here, so that a bad one becomes a 401 the user can read instead
//! of a broken connection. The result holds for the connection until [`Authenticated::not_after`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use crate::pki::{COMMON_NAME, KUBERNETES_UID, ORGANIZATION, Parsed, name_parts};
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
    #[error("the client certificate is not signed by an authority this server trusts")]
    UnknownAuthority,
    #[error("the client certificate is not meant for clients: its extended key usage lacks clientAuth")]
    NotForClients,
    #[error("the client certificate was refused: {0}")]
    Refused(String),
    #[error("the client certificate names nobody: its subject has no common name (CN)")]
    NoCommonName,
    #[error("the client certificate's subject holds text that cannot be read")]
    UnreadableName,
    #[error("the client certificate's subject must hold at most one uid, and not an empty one")]
    BadUid,
}

/// A verified client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticated {
    pub user: UserInfo,
    /// Unix seconds; after them the connection's cached answer must not be used any more.
    pub not_after: u64,
}

/// The authorities whose client certificates are believed.
#[derive(Clone, Debug)]
pub struct ClientCa {
    anchors: Vec<TrustAnchor<'static>>,
}

impl ClientCa {
    /// What is no usable certificate is left out: it could verify nothing.
    pub fn new(certificates: &[CertificateDer<'_>]) -> ClientCa {
        let anchors = certificates.iter().filter_map(|c| webpki::anchor_from_trusted_cert(c).ok());
        ClientCa { anchors: anchors.map(|a| a.to_owned()).collect() }
    }

    /// The names a server lists in its request, so that clients and browsers pick the right certificate.
    pub fn hints(&self) -> Vec<DistinguishedName> {
        self.anchors.iter().map(|a| DistinguishedName::in_sequence(&a.subject)).collect()
    }

    /// Whether one of these authorities signed the certificate, of whatever usage.
    pub(crate) fn has_issued(&self, certificate: &CertificateDer<'_>, at_unix: u64) -> bool {
        let verify = |usage| verify(certificate, &[], &self.anchors, at_unix, usage).is_ok();
        verify(KeyUsage::client_auth()) || verify(KeyUsage::server_auth())
    }
}

/// The user behind the chain a client sent, its own certificate first, and how long a connection may keep the answer.
pub fn authenticate(
    chain: &[CertificateDer<'_>],
    ca: &ClientCa,
    now_unix: u64,
) -> Result<Authenticated, X509Error> {
    let (leaf, intermediates) = chain.split_first().ok_or(X509Error::NoCertificate)?;
    let parsed = Parsed::parse(leaf).ok_or(X509Error::Malformed)?;
    verify(leaf, intermediates, &ca.anchors, now_unix, KeyUsage::client_auth()).map_err(
        |error| match error {
            webpki::Error::CertExpired { .. } => {
                X509Error::Expired(now_unix.saturating_sub(parsed.not_after))
            }
            webpki::Error::CertNotValidYet { .. } => {
                X509Error::NotYetValid(parsed.not_before.saturating_sub(now_unix))
            }
            // Another cluster's authority often has the same name as ours, but never the same key.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                X509Error::UnknownAuthority
            }
            webpki::Error::RequiredEkuNotFoundContext(_) => X509Error::NotForClients,
            webpki::Error::BadDer => X509Error::Malformed,
            other => X509Error::Refused(format!("{other:?}")),
        },
    )?;
    let user = user_of(leaf, parsed.subject)?;
    Ok(Authenticated { user, not_after: parsed.not_after })
}

/// A rustls verifier that asks for a certificate, takes any or none, and insists on proof of the key.
#[derive(Debug)]
pub struct AcceptAnyClientCert {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AcceptAnyClientCert {
    /// `hints`: see [`ClientCa::hints`]; empty asks for a certificate of any authority.
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
        rustls::crypto::verify_tls12_signature(message, leaf, signature, &self.algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, leaf, signature, &self.algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn verify(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    anchors: &[TrustAnchor<'_>],
    at_unix: u64,
    usage: KeyUsage,
) -> Result<(), webpki::Error> {
    let time = UnixTime::since_unix_epoch(Duration::from_secs(at_unix));
    let leaf = EndEntityCert::try_from(leaf)?;
    leaf.verify_for_usage(webpki::ALL_VERIFICATION_ALGS, anchors, intermediates, time, usage, None, None)?;
    Ok(())
}

fn user_of(leaf: &[u8], subject: &[u8]) -> Result<UserInfo, X509Error> {
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for part in name_parts(subject).ok_or(X509Error::Malformed)? {
        let readable = |text: Option<String>| text.ok_or(X509Error::UnreadableName);
        match part.oid {
            // Of several common names the last counts, as in Go.
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
