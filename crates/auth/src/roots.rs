//! Chains of certificates, judged as Go judges them. webpki differs twice: its trust anchors are valid for ever, and it refuses a
//! leaf that says it is an authority.

use std::sync::Arc;
use std::time::Duration;

use rustls::{CertificateError, OtherError};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, KeyUsage, RawPublicKeyEntity,
    RequiredEkuNotFoundContext,
};

use crate::pki::{ANY_PURPOSE, CLIENT_AUTH, COMMON_NAME, Parsed, SERVER_AUTH, Signed, name_parts};

/// Certificates that are trusted to sign others; and each to be what it says it is.
#[derive(Clone, Debug)]
pub struct Roots {
    /// The one that is valid longest first: a chain to it lasts longest.
    list: Vec<Root>,
}

#[derive(Clone, Debug)]
struct Root {
    certificate: CertificateDer<'static>,
    not_before: u64,
    not_after: u64,
}

/// What a leaf must be for, if it says what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Client,
    Server,
}

/// Why a chain is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChainError {
    Certificate(webpki::Error),
    /// It leads only to a root (its common name) that has expired, or is not valid yet.
    Root(String, webpki::Error),
}

impl Roots {
    /// Unusable certificates are skipped: they could verify nothing.
    pub fn new(certificates: &[CertificateDer<'_>]) -> Roots {
        let mut list: Vec<Root> = certificates.iter().filter_map(Root::new).collect();
        list.sort_by_key(|root| std::cmp::Reverse(root.not_after));
        Roots { list }
    }

    pub(crate) fn anchors(&self) -> impl Iterator<Item = TrustAnchor<'_>> {
        self.list.iter().filter_map(Root::anchor)
    }

    /// Until when (Unix seconds) all of the chain is valid. The roots' own times count as they are now.
    pub fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        purpose: Purpose,
        now_unix: u64,
    ) -> Result<u64, ChainError> {
        // A chain of one.
        if self.list.iter().any(|root| root.certificate == *leaf) {
            return check_leaf(leaf, purpose, now_unix).map_err(ChainError::Certificate);
        }
        let (valid, others): (Vec<&Root>, Vec<&Root>) =
            self.list.iter().partition(|root| root.check(now_unix).is_ok());
        let to_one_of = |roots: &[&Root]| match chain(leaf, intermediates, roots, purpose, now_unix) {
            Err(webpki::Error::CaUsedAsEndEntity) => authority(leaf, roots, purpose, now_unix),
            found => found,
        };
        to_one_of(&valid).map(|(_, until)| until).map_err(|error| {
            let other = to_one_of(&others).ok().map(|(at, _)| others[at]);
            match other.and_then(|root| Some((root.name(), root.check(now_unix).err()?))) {
                Some((name, not_valid)) => ChainError::Root(name, not_valid),
                None => ChainError::Certificate(error),
            }
        })
    }

    /// Whether one of them signed the certificate, whatever its purpose, and whatever has become of the root.
    pub(crate) fn have_issued(&self, certificate: &CertificateDer<'_>, at_unix: u64) -> bool {
        let all: Vec<&Root> = self.list.iter().collect();
        let issued = |purpose| chain(certificate, &[], &all, purpose, at_unix).is_ok();
        issued(Purpose::Client) || issued(Purpose::Server)
    }
}

impl Root {
    fn new(certificate: &CertificateDer<'_>) -> Option<Root> {
        let Parsed { not_before, not_after, .. } = Parsed::parse(certificate)?;
        let root = Root { certificate: certificate.clone().into_owned(), not_before, not_after };
        root.anchor().is_some().then_some(root)
    }

    fn anchor(&self) -> Option<TrustAnchor<'_>> {
        webpki::anchor_from_trusted_cert(&self.certificate).ok()
    }

    fn check(&self, now_unix: u64) -> Result<(), webpki::Error> {
        check_time(self.not_before, self.not_after, now_unix)
    }

    fn name(&self) -> String {
        let parts = Parsed::parse(&self.certificate).and_then(|parsed| name_parts(parsed.subject));
        let common = parts.unwrap_or_default().into_iter().rfind(|part| part.oid == COMMON_NAME);
        common.and_then(|part| part.text).unwrap_or_default()
    }
}

/// The index of the root a chain leads to, and until when all of it is valid.
fn chain(
    leaf: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &[&Root],
    purpose: Purpose,
    now_unix: u64,
) -> Result<(usize, u64), webpki::Error> {
    let (indexes, anchors): (Vec<usize>, Vec<TrustAnchor<'_>>) =
        roots.iter().enumerate().filter_map(|(at, root)| Some((at, root.anchor()?))).unzip();
    let certificate = EndEntityCert::try_from(leaf)?;
    let path = certificate.verify_for_usage(
        webpki::ALL_VERIFICATION_ALGS,
        &anchors,
        intermediates,
        time(now_unix),
        purpose,
        None,
        None,
    )?;
    let root = anchors.iter().position(|anchor| std::ptr::eq(anchor, path.anchor()));
    let root = root.ok_or(webpki::Error::UnknownIssuer)?;
    let root = indexes[root];
    let mut until = roots[root].not_after;
    let between = path.intermediate_certificates().map(|certificate| certificate.der());
    for certificate in between.chain([leaf.clone()]) {
        until = until.min(Parsed::parse(&certificate).ok_or(webpki::Error::BadDer)?.not_after);
    }
    Ok((root, until))
}

/// The same of a leaf that is an authority: the shortest possible chain only, a direct signature of a root.
fn authority(
    leaf: &CertificateDer<'_>,
    roots: &[&Root],
    purpose: Purpose,
    now_unix: u64,
) -> Result<(usize, u64), webpki::Error> {
    let until = check_leaf(leaf, purpose, now_unix)?;
    let certificate = EndEntityCert::try_from(leaf)?;
    let signed = Signed::parse(leaf).ok_or(webpki::Error::BadDer)?;
    for (at, root) in roots.iter().enumerate() {
        let Some(anchor) = root.anchor() else { continue };
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
            return Ok((at, until.min(root.not_after)));
        }
    }
    Err(webpki::Error::UnknownIssuer)
}

/// What webpki checks of a leaf besides its issuer, except that it may be an authority. Until when it is valid.
fn check_leaf(leaf: &CertificateDer<'_>, purpose: Purpose, now_unix: u64) -> Result<u64, webpki::Error> {
    // Its form and extensions.
    EndEntityCert::try_from(leaf)?;
    let parsed = Parsed::parse(leaf).ok_or(webpki::Error::BadDer)?;
    check_time(parsed.not_before, parsed.not_after, now_unix)?;
    let good = |named: &&[u8]| purpose.accepted().contains(named);
    if !parsed.purposes.is_empty() && !parsed.purposes.iter().any(good) {
        return Err(purpose.lacking());
    }
    Ok(parsed.not_after)
}

fn check_time(not_before: u64, not_after: u64, now: u64) -> Result<(), webpki::Error> {
    match (time(now), time(not_before), time(not_after)) {
        (time, not_before, _) if time < not_before => {
            Err(webpki::Error::CertNotValidYet { time, not_before })
        }
        (time, _, not_after) if time > not_after => Err(webpki::Error::CertExpired { time, not_after }),
        _ => Ok(()),
    }
}

fn time(unix: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(unix))
}

impl Purpose {
    /// Its own, and any, which is the same to Go.
    fn accepted(self) -> [&'static [u8]; 2] {
        match self {
            Purpose::Client => [CLIENT_AUTH, ANY_PURPOSE],
            Purpose::Server => [SERVER_AUTH, ANY_PURPOSE],
        }
    }

    fn lacking(self) -> webpki::Error {
        let required = match self {
            Purpose::Client => KeyUsage::client_auth(),
            Purpose::Server => KeyUsage::server_auth(),
        };
        let context = RequiredEkuNotFoundContext { required, present: Vec::new() };
        webpki::Error::RequiredEkuNotFoundContext(context)
    }
}

/// A certificate without extendedKeyUsage is good for everything.
impl ExtendedKeyUsageValidator for Purpose {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        let mut silent = true;
        for purpose in purposes {
            let purpose = purpose?;
            silent = false;
            if self.accepted().iter().any(|good| KeyPurposeId::new(good) == purpose) {
                return Ok(());
            }
        }
        if silent { Ok(()) } else { Err(self.lacking()) }
    }
}

/// As rustls itself says it of webpki's errors.
impl From<ChainError> for rustls::Error {
    fn from(error: ChainError) -> rustls::Error {
        use webpki::Error as E;
        let (ChainError::Certificate(error) | ChainError::Root(_, error)) = error;
        let error = match error {
            E::BadDer | E::BadDerTime | E::TrailingData(_) => CertificateError::BadEncoding,
            E::CertNotValidYet { time, not_before } => {
                CertificateError::NotValidYetContext { time, not_before }
            }
            E::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
            E::InvalidCertValidity => CertificateError::Expired,
            E::UnknownIssuer => CertificateError::UnknownIssuer,
            E::InvalidSignatureForPublicKey => CertificateError::BadSignature,
            E::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
            E::UnsupportedCriticalExtension => CertificateError::UnhandledCriticalExtension,
            other => CertificateError::Other(OtherError(Arc::new(other))),
        };
        error.into()
    }
}
