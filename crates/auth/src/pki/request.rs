//! Certificate signing requests (PKCS#10): the requested subject, and proof of possession of the key.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use object::Value;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P384_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, ED25519,
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    UnparsedPublicKey, VerificationAlgorithm,
};
use rustls_pki_types::pem::{PemObject, SectionKind};

use super::certificate::{
    self, COMMON_NAME, CryptoError, DNS_NAME, IP_ADDRESS, ORGANIZATION, SUBJECT_ALT_NAME, general_names,
    ip_address, name_parts,
};
use super::der::{self, Reader, bits, integer, nest, value};
use super::{key_pair, pem};

/// Why a request is rejected, worded as in Go where clients may depend on it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    NotPem,
    #[error("x509: malformed certificate request")]
    Malformed,
    #[error("asn1: syntax error: trailing data")]
    TrailingData,
    #[error("x509: cannot verify signature: algorithm unimplemented")]
    Unsupported,
    #[error("{0}")]
    BadSignature(&'static str),
}

/// A parsed request. Its signature is not verified yet: see [`verify`](SigningRequest::verify).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    /// Attributes of the subject: type and value.
    pub(super) subject: Vec<(Vec<u8>, String)>,
    pub dns_names: Vec<String>,
    pub emails: Vec<String>,
    pub uris: Vec<String>,
    pub addresses: Vec<IpAddr>,
    /// The complete SubjectPublicKeyInfo, copied into the certificate.
    pub(super) public_key: Vec<u8>,
    signed: Vec<u8>,
    algorithm: Vec<u8>,
    signature: Vec<u8>,
}

/// The request inside a CertificateSigningRequest.
pub fn request_of(csr: &Value) -> Result<SigningRequest, RequestError> {
    let text = csr.str_at(&["spec", "request"]).unwrap_or("");
    let pem = STANDARD.decode(text).map_err(|_| RequestError::NotPem)?;
    SigningRequest::from_pem(&pem)
}

impl SigningRequest {
    pub fn from_pem(pem: &[u8]) -> Result<SigningRequest, RequestError> {
        match <(SectionKind, Vec<u8>)>::from_pem_slice(pem) {
            Ok((SectionKind::Csr, bytes)) => SigningRequest::from_der(&bytes),
            _ => Err(RequestError::NotPem),
        }
    }

    pub fn from_der(bytes: &[u8]) -> Result<SigningRequest, RequestError> {
        let mut whole = Reader::new(bytes);
        let mut request = whole.inside(der::SEQUENCE).ok_or(RequestError::Malformed)?;
        if !whole.is_empty() || !trailing(&request) {
            return Err(RequestError::TrailingData);
        }
        read(&mut request).ok_or(RequestError::Malformed)
    }

    pub fn common_name(&self) -> &str {
        // The last one is used, as in Go.
        self.texts(COMMON_NAME).last().unwrap_or("")
    }

    pub fn organizations(&self) -> Vec<&str> {
        self.texts(ORGANIZATION).collect()
    }

    /// Verifies that the requester holds the private key.
    pub fn verify(&self) -> Result<(), RequestError> {
        let (curve, key) = public_key(&self.public_key).ok_or(RequestError::Malformed)?;
        let (algorithm, broken): (&dyn VerificationAlgorithm, _) = match (curve, self.algorithm.as_slice()) {
            (Key::P256, ECDSA_SHA256) => (&ECDSA_P256_SHA256_ASN1, "x509: ECDSA verification failure"),
            (Key::P256, ECDSA_SHA384) => (&ECDSA_P256_SHA384_ASN1, "x509: ECDSA verification failure"),
            (Key::P384, ECDSA_SHA256) => (&ECDSA_P384_SHA256_ASN1, "x509: ECDSA verification failure"),
            (Key::P384, ECDSA_SHA384) => (&ECDSA_P384_SHA384_ASN1, "x509: ECDSA verification failure"),
            (Key::Rsa, RSA_SHA256) => (&RSA_PKCS1_2048_8192_SHA256, "crypto/rsa: verification error"),
            (Key::Rsa, RSA_SHA384) => (&RSA_PKCS1_2048_8192_SHA384, "crypto/rsa: verification error"),
            (Key::Rsa, RSA_SHA512) => (&RSA_PKCS1_2048_8192_SHA512, "crypto/rsa: verification error"),
            (Key::Ed25519, ED25519_OID) => (&ED25519, "x509: Ed25519 verification failure"),
            _ => return Err(RequestError::Unsupported),
        };
        let key = UnparsedPublicKey::new(algorithm, key);
        key.verify(&self.signed, &self.signature).map_err(|_| RequestError::BadSignature(broken))
    }

    fn texts<'a>(&'a self, kind: &'a [u8]) -> impl Iterator<Item = &'a str> {
        self.subject.iter().filter(move |(oid, _)| oid == kind).map(|(_, text)| text.as_str())
    }
}

/// A new P-256 key (PKCS#8), and a certificate signing request (PEM) for it with this subject.
pub fn new_request(
    common_name: &str,
    organizations: &[String],
    names: &[String],
) -> Result<(Vec<u8>, String), CryptoError> {
    let random = crate::random();
    let key = certificate::generate_key(&random)?;
    let pair = key_pair(&key, &random).ok_or(CryptoError("use a key it generated"))?;
    let mut attributes = Vec::new();
    if !names.is_empty() {
        let names: Vec<Vec<u8>> = names.iter().map(|name| certificate::alternative_name(name)).collect();
        let names = value(der::OCTET_STRING, &nest(der::SEQUENCE, &names));
        let extension = nest(der::SEQUENCE, &[value(der::OID, SUBJECT_ALT_NAME), names]);
        let extensions = nest(der::SET, &[nest(der::SEQUENCE, &[extension])]);
        attributes.push(nest(der::SEQUENCE, &[value(der::OID, EXTENSION_REQUEST), extensions]));
    }
    let body = nest(
        der::SEQUENCE,
        &[
            integer(&[0]),
            certificate::name(common_name, organizations),
            certificate::p256_key(pair.public_key().as_ref()),
            nest(0xa0, &attributes),
        ],
    );
    let signature = pair.sign(&random, &body).map_err(|_| CryptoError("sign a request"))?;
    let algorithm = certificate::ecdsa_with_sha256();
    let request = nest(der::SEQUENCE, &[body, algorithm, bits(signature.as_ref())]);
    Ok((key, pem::encode("CERTIFICATE REQUEST", &request)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    P256,
    P384,
    Rsa,
    Ed25519,
    Other,
}

const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const ECDSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3];
const RSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 11];
const RSA_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 12];
const RSA_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 13];
const ED25519_OID: &[u8] = &[0x2b, 0x65, 0x70];
const RSA_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1];
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const P384: &[u8] = &[0x2b, 0x81, 4, 0, 34];
/// 1.2.840.113549.1.9.14
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14];
pub(super) const EMAIL: u8 = 0x81;
pub(super) const URI: u8 = 0x86;

/// Exactly three values are inside.
fn trailing(request: &Reader<'_>) -> bool {
    let mut rest = *request;
    (0..3).all(|_| rest.next().is_some()) && rest.is_empty()
}

fn read(request: &mut Reader<'_>) -> Option<SigningRequest> {
    let (tag, content, signed) = request.next()?;
    if tag != der::SEQUENCE {
        return None;
    }
    let algorithm = request.inside(der::SEQUENCE)?.expect(der::OID)?;
    let (&unused_bits, signature) = request.expect(der::BIT_STRING)?.split_first()?;
    if unused_bits != 0 {
        return None;
    }
    let mut body = Reader::new(content);
    if body.expect(der::INTEGER)? != [0] {
        return None;
    }
    let (_, _, subject) = body.next()?;
    let subject = name_parts(subject)?;
    let subject = subject.into_iter().map(|part| Some((part.oid.to_vec(), part.text?)));
    let (tag, _, key) = body.next()?;
    public_key(key).filter(|_| tag == der::SEQUENCE)?;
    let mut out = SigningRequest {
        subject: subject.collect::<Option<_>>()?,
        dns_names: Vec::new(),
        emails: Vec::new(),
        uris: Vec::new(),
        addresses: Vec::new(),
        public_key: key.to_vec(),
        signed: signed.to_vec(),
        algorithm: algorithm.to_vec(),
        signature: signature.to_vec(),
    };
    if !body.is_empty() {
        let mut attributes = body.inside(0xa0)?;
        while !attributes.is_empty() {
            let mut attribute = attributes.inside(der::SEQUENCE)?;
            if attribute.expect(der::OID)? == EXTENSION_REQUEST {
                out.extensions(attribute.inside(der::SET)?.inside(der::SEQUENCE)?)?;
            }
        }
    }
    Some(out)
}

impl SigningRequest {
    fn extensions(&mut self, extensions: Reader<'_>) -> Option<()> {
        for (tag, content) in general_names(extensions)? {
            let text = || std::str::from_utf8(content).ok().filter(|t| t.is_ascii()).map(str::to_owned);
            match tag {
                DNS_NAME => self.dns_names.push(text()?),
                EMAIL => self.emails.push(text()?),
                URI => self.uris.push(text()?),
                IP_ADDRESS => self.addresses.push(ip_address(content)?),
                _ => {}
            }
        }
        Some(())
    }
}

/// The algorithm and the bits of a SubjectPublicKeyInfo.
fn public_key(info: &[u8]) -> Option<(Key, &[u8])> {
    let mut info = Reader::new(info).inside(der::SEQUENCE)?;
    let mut algorithm = info.inside(der::SEQUENCE)?;
    let kind = match algorithm.expect(der::OID)? {
        RSA_KEY => Key::Rsa,
        ED25519_OID => Key::Ed25519,
        EC_KEY => match algorithm.expect(der::OID)? {
            P256 => Key::P256,
            P384 => Key::P384,
            _ => Key::Other,
        },
        _ => Key::Other,
    };
    let (&unused_bits, bits) = info.expect(der::BIT_STRING)?.split_first()?;
    (unused_bits == 0).then_some((kind, bits))
}
