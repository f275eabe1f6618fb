//! The CA as a signer of certificate signing requests.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use ring::rand::SecureRandom;
use ring::signature::KeyPair;

use super::certificate::{self, CryptoError, Parsed, Request, Usage};
use super::der::{self, bits, integer, nest, value};
use super::request::{EMAIL, RequestError, SigningRequest, URI};
use super::{Authority, CLOCK_SKEW_SECONDS, PkiError, YEAR_SECONDS, key_pair, pem};

/// Signs with the cluster CA; its holder can issue a certificate for any user.
#[derive(Clone)]
pub struct Issuer {
    ca: Arc<Authority>,
}

#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    #[error("unable to verify certificate request signature: {0}")]
    Request(#[from] RequestError),
    #[error("unrecognized usage values: {0:?}")]
    Usages(Vec<String>),
    #[error("the signer has expired: NotAfter={0} (Unix seconds)")]
    SignerExpired(u64),
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

/// Shorter lifetimes are not reduced by the backdating.
const SHORT_SECONDS: u64 = 8 * 3600;

impl Issuer {
    pub(super) fn new(ca: Arc<Authority>) -> Issuer {
        Issuer { ca }
    }

    /// A CA that is not stored in a file, for tests.
    pub fn in_memory(now_unix: u64) -> Result<Issuer, PkiError> {
        let random = crate::random();
        let key = certificate::generate_key(&random)?;
        let key = key_pair(&key, &random).ok_or(CryptoError("use a key it generated"))?;
        let request = Request {
            usage: Usage::Authority,
            common_name: "kubernetes",
            organizations: &[],
            names: &[],
            not_before: now_unix.saturating_sub(CLOCK_SKEW_SECONDS),
            not_after: now_unix.saturating_add(10 * YEAR_SECONDS),
        };
        let certificate = certificate::issue(&request, &key, None, &random)?;
        let parsed = Parsed::parse(&certificate).ok_or(CryptoError("read a certificate it signed"))?;
        let (subject, not_after) = (parsed.subject.to_vec(), parsed.not_after);
        let pem = pem::encode(pem::CERTIFICATE, &certificate);
        let (path, certificates) = (std::path::PathBuf::new(), vec![certificate.into()]);
        let ca = Authority { path, key, certificates, pem, subject, not_after };
        Ok(Issuer { ca: Arc::new(ca) })
    }

    pub fn ca_pem(&self) -> &str {
        &self.ca.pem
    }

    pub fn client_ca(&self) -> crate::x509::ClientCa {
        crate::x509::ClientCa::new(&self.ca.certificates)
    }

    /// The certificate (PEM) for a request, for these usages; verifies the request's signature first.
    pub fn issue(
        &self,
        request: &SigningRequest,
        usages: &[&str],
        lifetime_seconds: u64,
        now_unix: u64,
    ) -> Result<String, IssueError> {
        request.verify()?;
        let purposes = extensions(request, usages, self.ca.key.public_key().as_ref())?;
        if now_unix >= self.ca.not_after {
            return Err(IssueError::SignerExpired(self.ca.not_after));
        }
        let short = lifetime_seconds < SHORT_SECONDS;
        let not_after = now_unix
            .saturating_add(lifetime_seconds)
            .saturating_sub(if short { 0 } else { CLOCK_SKEW_SECONDS })
            .min(self.ca.not_after);
        let random = crate::random();
        let mut serial = [0u8; 16];
        random.fill(&mut serial).map_err(|_| CryptoError("draw a serial number"))?;
        serial[0] = serial[0] & 0x7f | 0x01;
        let algorithm = certificate::ecdsa_with_sha256();
        let body = nest(
            der::SEQUENCE,
            &[
                nest(0xa0, &[integer(&[2])]),
                integer(&serial),
                algorithm.clone(),
                self.ca.subject.clone(),
                nest(
                    der::SEQUENCE,
                    &[der::time(now_unix.saturating_sub(CLOCK_SKEW_SECONDS)), der::time(not_after)],
                ),
                subject(request),
                request.public_key.clone(),
                nest(0xa3, &[nest(der::SEQUENCE, &purposes)]),
            ],
        );
        let signature = self.ca.key.sign(&random, &body).map_err(|_| CryptoError("sign a certificate"))?;
        let certificate = nest(der::SEQUENCE, &[body, algorithm, bits(signature.as_ref())]);
        Ok(pem::encode(pem::CERTIFICATE, &certificate))
    }
}

/// The expiration of a certificate (PEM), in Unix seconds.
pub fn not_after(pem: &[u8]) -> Option<u64> {
    let certificates = pem::certificates(pem).ok()?;
    Some(Parsed::parse(certificates.first()?)?.not_after)
}

/// The attributes Go supports, in its order. Others are dropped: a subject may only use these.
const SUBJECT: [&[u8]; 9] = [
    &[0x55, 4, 6],
    &[0x55, 4, 8],
    &[0x55, 4, 7],
    &[0x55, 4, 9],
    &[0x55, 4, 17],
    certificate::ORGANIZATION,
    &[0x55, 4, 11],
    certificate::COMMON_NAME,
    SERIAL_NUMBER,
];
const SERIAL_NUMBER: &[u8] = &[0x55, 4, 5];
const PRINTABLE_STRING: u8 = 0x13;

/// All values of one attribute are in one set, and DER sorts sets.
fn subject(request: &SigningRequest) -> Vec<u8> {
    let part = |kind: &[u8], text: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&b);
        let tag = if text.bytes().all(plain) { PRINTABLE_STRING } else { der::UTF8_STRING };
        nest(der::SEQUENCE, &[value(der::OID, kind), value(tag, text.as_bytes())])
    };
    let mut parts = Vec::new();
    for kind in SUBJECT {
        let mut of_kind =
            request.subject.iter().filter(|(oid, _)| oid == kind).map(|(_, text)| text.as_str());
        // Only one common name and one serial number is kept.
        let mut set: Vec<Vec<u8>> = if kind == certificate::COMMON_NAME || kind == SERIAL_NUMBER {
            of_kind
                .next_back()
                .filter(|text| !text.is_empty())
                .map(|text| part(kind, text))
                .into_iter()
                .collect()
        } else {
            of_kind.map(|text| part(kind, text)).collect()
        };
        if !set.is_empty() {
            set.sort();
            parts.push(nest(der::SET, &set));
        }
    }
    nest(der::SEQUENCE, &parts)
}

/// Bits of the key usage, from the left.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// In Go's order.
const PURPOSES: [(&str, &[u8]); 13] = [
    ("any", &[0x55, 0x1d, 37, 0]),
    ("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[0x2b, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("s/mime", &[0x2b, 6, 1, 5, 5, 7, 3, 4]),
    ("ipsec end system", &[0x2b, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[0x2b, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[0x2b, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[0x2b, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[0x2b, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 10, 3, 3]),
    ("netscape sgc", &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x42, 4, 1]),
];

fn extensions(
    request: &SigningRequest,
    usages: &[&str],
    issuer_key: &[u8],
) -> Result<Vec<Vec<u8>>, IssueError> {
    let known = |usage: &&&str| {
        KEY_USAGES.iter().any(|(n, _)| n == *usage) || PURPOSES.iter().any(|(n, _)| n == *usage)
    };
    let unknown: Vec<String> = usages.iter().filter(|u| !known(u)).map(|u| (*u).to_owned()).collect();
    if !unknown.is_empty() {
        return Err(IssueError::Usages(unknown));
    }
    let mut out = Vec::new();
    let used = KEY_USAGES.iter().filter(|(name, _)| usages.contains(name));
    let key_usage = used.fold(0u16, |sum, (_, bit)| sum | 0x8000 >> bit);
    if key_usage != 0 {
        // A named bit list ends with its last one bit.
        let unused = (key_usage.trailing_zeros() % 8) as u8;
        let [high, low] = key_usage.to_be_bytes();
        let content = if low == 0 { vec![unused, high] } else { vec![unused, high, low] };
        out.push(extension(certificate::KEY_USAGE, true, &value(der::BIT_STRING, &content)));
    }
    let mut purposes: Vec<Vec<u8>> = Vec::new();
    for (name, oid) in PURPOSES {
        let oid = value(der::OID, oid);
        if usages.contains(&name) && !purposes.contains(&oid) {
            purposes.push(oid);
        }
    }
    if !purposes.is_empty() {
        out.push(extension(certificate::EXTENDED_KEY_USAGE, false, &nest(der::SEQUENCE, &purposes)));
    }
    out.push(extension(certificate::BASIC_CONSTRAINTS, true, &nest(der::SEQUENCE, &[])));
    let authority = value(0x80, &certificate::key_id(issuer_key));
    out.push(extension(certificate::AUTHORITY_KEY_ID, false, &nest(der::SEQUENCE, &[authority])));
    let text = |tag: u8, names: &[String]| -> Vec<Vec<u8>> {
        names.iter().map(|name| value(tag, name.as_bytes())).collect()
    };
    let addresses = request.addresses.iter().map(|ip| certificate::address(*ip));
    let mut names = text(certificate::DNS_NAME, &request.dns_names);
    names.extend(text(EMAIL, &request.emails));
    names.extend(addresses);
    names.extend(text(URI, &request.uris));
    if !names.is_empty() {
        out.push(extension(
            certificate::SUBJECT_ALT_NAME,
            request.subject.is_empty(),
            &nest(der::SEQUENCE, &names),
        ));
    }
    Ok(out)
}

fn extension(kind: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let mut parts = vec![value(der::OID, kind)];
    if critical {
        parts.push(value(der::BOOLEAN, &[0xff]));
    }
    parts.push(value(der::OCTET_STRING, content));
    nest(der::SEQUENCE, &parts)
}
