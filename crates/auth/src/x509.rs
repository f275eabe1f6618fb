//! Client certificate authentication.
//!
//! The TLS handshake only *requests* a certificate and verifies that the peer holds its key ([`AcceptAnyClientCert`]).
//! The certificate itself is verified here, so that an invalid one becomes a 401 with a message instead
//! of a broken connection. The result is valid for the connection until [`Authenticated::not_after`].

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, RawPublicKeyEntity,
    RequiredEkuNotFoundContext,
};

use crate::pki::{
    ANY_PURPOSE, CLIENT_AUTH, COMMON_NAME, KUBERNETES_UID, ORGANIZATION, Parsed, Signed, name_parts,
};
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
    /// Unix seconds; the connection must not reuse the cached result after this.
    pub not_after: u64,
}

/// The CAs whose client certificates are trusted.
#[derive(Clone, Debug)]
pub struct ClientCa {
    anchors: Vec<TrustAnchor<'static>>,
}

impl ClientCa {
    /// Unusable certificates are skipped: they could verify nothing.
    pub fn new(certificates: &[CertificateDer<'_>]) -> ClientCa {
        let anchors = certificates.iter().filter_map(|c| webpki::anchor_from_trusted_cert(c).ok());
        ClientCa { anchors: anchors.map(|a| a.to_owned()).collect() }
    }

    /// The CA names for the CertificateRequest, so that clients and browsers pick the right certificate.
    pub fn hints(&self) -> Vec<DistinguishedName> {
        self.anchors.iter().map(|a| DistinguishedName::in_sequence(&a.subject)).collect()
    }

    /// Whether one of these CAs signed the certificate, whatever its usage.
    pub(crate) fn has_issued(&self, certificate: &CertificateDer<'_>, at_unix: u64) -> bool {
        let verify = |usage: KeyUsage| verify(certificate, &[], &self.anchors, at_unix, usage).is_ok();
        verify(KeyUsage::client_auth()) || verify(KeyUsage::server_auth())
    }
}

/// The user of a client's certificate chain (leaf first), and how long a connection may cache it.
pub fn authenticate(
    chain: &[CertificateDer<'_>],
    ca: &ClientCa,
    now_unix: u64,
) -> Result<Authenticated, X509Error> {
    let (leaf, intermediates) = chain.split_first().ok_or(X509Error::NoCertificate)?;
    let parsed = Parsed::parse(leaf).ok_or(X509Error::Malformed)?;
    let verified = match verify(leaf, intermediates, &ca.anchors, now_unix, ForClients) {
        Err(webpki::Error::CaUsedAsEndEntity) => verify_authority(leaf, &parsed, &ca.anchors, now_unix),
        verified => verified,
    };
    verified.map_err(|error| match error {
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
    })?;
    let user = user_of(leaf, parsed.subject)?;
    Ok(Authenticated { user, not_after: parsed.not_after })
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

/// Valid for clientAuth or any purpose (the same to Go), or without extendedKeyUsage.
struct ForClients;

impl ExtendedKeyUsageValidator for ForClients {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut silent = true;
        for purpose in purposes {
            let purpose = purpose?;
            silent = false;
            if [CLIENT_AUTH, ANY_PURPOSE].iter().any(|good| KeyPurposeId::new(good) == purpose) {
                return Ok(());
            }
        }
        if silent { Ok(()) } else { Err(not_for_clients()) }
    }
}

fn not_for_clients() -> webpki::Error {
    let context = RequiredEkuNotFoundContext { required: KeyUsage::client_auth(), present: Vec::new() };
    webpki::Error::RequiredEkuNotFoundContext(context)
}

/// A client certificate that is itself a CA. webpki rejects it for that, Go accepts it; so this checks the shortest possible
/// path: a direct signature of a trust anchor, without intermediates.
fn verify_authority(
    leaf: &CertificateDer<'_>,
    parsed: &Parsed<'_>,
    anchors: &[TrustAnchor<'_>],
    at_unix: u64,
) -> Result<(), webpki::Error> {
    // webpki checks its form and extensions.
    let certificate = EndEntityCert::try_from(leaf)?;
    let signed = Signed::parse(leaf).ok_or(webpki::Error::BadDer)?;
    let time = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    if at_unix < parsed.not_before {
        let (time, not_before) = (time(at_unix), time(parsed.not_before));
        return Err(webpki::Error::CertNotValidYet { time, not_before });
    }
    if at_unix > parsed.not_after {
        let (time, not_after) = (time(at_unix), time(parsed.not_after));
        return Err(webpki::Error::CertExpired { time, not_after });
    }
    let good = |purpose: &&[u8]| [CLIENT_AUTH, ANY_PURPOSE].contains(purpose);
    if !parsed.purposes.is_empty() && !parsed.purposes.iter().any(good) {
        return Err(not_for_clients());
    }
    for anchor in anchors {
        if anchor.subject.as_ref() != certificate.issuer() || anchor.name_constraints.is_some() {
            continue;
        }
        let key = crate::pki::sequence(&anchor.subject_public_key_info);
        let key = SubjectPublicKeyInfoDer::from(key.as_slice());
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else { continue };
        let named = |a: &&&dyn rustls_pki_types::SignatureVerificationAlgorithm| {
            a.signature_alg_id().as_ref() == signed.algorithm
        };
        let mut algorithms = webpki::ALL_VERIFICATION_ALGS.iter().filter(named);
        if algorithms.any(|a| key.verify_signature(*a, signed.body, signed.signature).is_ok()) {
            return Ok(());
        }
    }
    Err(webpki::Error::UnknownIssuer)
}

fn verify(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    anchors: &[TrustAnchor<'_>],
    at_unix: u64,
    usage: impl ExtendedKeyUsageValidator,
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
