//! X.509 certificates: building, signing and parsing.

use std::net::IpAddr;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

use super::der::{self, Reader, bits, integer, nest, value};

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    Authority,
    Server,
    Client,
}

/// A certificate to be signed.
pub struct Request<'a> {
    pub usage: Usage,
    pub common_name: &'a str,
    /// Each becomes a separate `O=`: a client's groups.
    pub organizations: &'a [String],
    /// DNS names and IP addresses, for servers.
    pub names: &'a [String],
    pub not_before: u64,
    pub not_after: u64,
}

/// The issuer: its key and encoded subject.
pub struct Signer<'a> {
    pub key: &'a EcdsaKeyPair,
    pub subject: &'a [u8],
}

/// A failure of the cryptographic library: no randomness, or an unusable key.
#[derive(Debug, thiserror::Error)]
#[error("the cryptographic library failed to {0}")]
pub struct CryptoError(pub &'static str);

/// A new P-256 key in PKCS#8.
pub fn generate_key(random: &SystemRandom) -> Result<Vec<u8>, CryptoError> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, random);
    key.map(|k| k.as_ref().to_vec()).map_err(|_| CryptoError("generate a key"))
}

/// Signs. With `signer` `None` the certificate is self-signed: a CA.
pub fn issue(
    request: &Request<'_>,
    key: &EcdsaKeyPair,
    signer: Option<Signer<'_>>,
    random: &SystemRandom,
) -> Result<Vec<u8>, CryptoError> {
    let mut serial = [0u8; 16];
    random.fill(&mut serial).map_err(|_| CryptoError("draw a serial number"))?;
    // Never zero, never more than 16 bytes as a positive number.
    serial[0] = serial[0] & 0x7f | 0x01;

    let subject = name(request.common_name, request.organizations);
    let public = key.public_key().as_ref();
    let (signing_key, issuer) = match &signer {
        Some(signer) => (signer.key, signer.subject.to_vec()),
        None => (key, subject.clone()),
    };
    let algorithm = ecdsa_with_sha256();
    let body = nest(
        der::SEQUENCE,
        &[
            nest(0xa0, &[integer(&[2])]),
            integer(&serial),
            algorithm.clone(),
            issuer,
            nest(der::SEQUENCE, &[der::time(request.not_before), der::time(request.not_after)]),
            subject,
            p256_key(public),
            nest(
                0xa3,
                &[nest(der::SEQUENCE, &extensions(request, public, signing_key.public_key().as_ref()))],
            ),
        ],
    );
    let signature = signing_key.sign(random, &body).map_err(|_| CryptoError("sign a certificate"))?;
    Ok(nest(der::SEQUENCE, &[body, algorithm, bits(signature.as_ref())]))
}

/// The CA's signature algorithm.
pub fn ecdsa_with_sha256() -> Vec<u8> {
    nest(der::SEQUENCE, &[oid(ECDSA_WITH_SHA256)])
}

/// The SubjectPublicKeyInfo of a P-256 key.
pub fn p256_key(public: &[u8]) -> Vec<u8> {
    let algorithm = nest(der::SEQUENCE, &[oid(EC_PUBLIC_KEY), oid(PRIME256V1)]);
    nest(der::SEQUENCE, &[algorithm, bits(public)])
}

/// The parsed fields of a certificate, borrowed from its bytes.
pub struct Parsed<'a> {
    pub not_before: u64,
    pub not_after: u64,
    /// The complete encoded name, tag included.
    pub subject: &'a [u8],
    /// The key's bits, without the algorithm.
    pub public_key: &'a [u8],
    /// The complete SubjectPublicKeyInfo, tag included.
    pub key_info: &'a [u8],
    /// extendedKeyUsage; empty if absent.
    pub purposes: Vec<&'a [u8]>,
    /// DNS names and IP addresses of subjectAltName.
    pub names: Vec<String>,
}

impl<'a> Parsed<'a> {
    /// `None` if it is not a certificate we can use.
    pub fn parse(bytes: &'a [u8]) -> Option<Parsed<'a>> {
        let mut body = Reader::new(bytes).inside(der::SEQUENCE)?.inside(der::SEQUENCE)?;
        if body.peek() == Some(0xa0) {
            body.next()?;
        }
        body.expect(der::INTEGER)?;
        body.expect(der::SEQUENCE)?;
        body.expect(der::SEQUENCE)?;
        let mut validity = body.inside(der::SEQUENCE)?;
        let (not_before, not_after) = (validity.time()?, validity.time()?);
        let (tag, _, subject) = body.next()?;
        let (key_tag, key, key_info) = body.next()?;
        let mut key = Reader::new(key);
        key.expect(der::SEQUENCE)?;
        let (&unused_bits, public_key) = key.expect(der::BIT_STRING)?.split_first()?;
        if tag != der::SEQUENCE || key_tag != der::SEQUENCE || unused_bits != 0 {
            return None;
        }
        let (mut names, mut purposes) = (Vec::new(), Vec::new());
        while !body.is_empty() {
            let (tag, content, _) = body.next()?;
            if tag == 0xa3 {
                let extensions = Reader::new(content).inside(der::SEQUENCE)?;
                names = alternative_names(extensions)?;
                for (tag, content) in inside_extension(extensions, EXTENDED_KEY_USAGE)? {
                    purposes.push(content);
                    if tag != der::OID {
                        return None;
                    }
                }
            }
        }
        Some(Parsed { not_before, not_after, subject, public_key, key_info, purposes, names })
    }
}

/// The three parts of a certificate, for verifying its signature.
pub struct Signed<'a> {
    /// The signed part (TBSCertificate), tag included.
    pub body: &'a [u8],
    /// The content of the AlgorithmIdentifier.
    pub algorithm: &'a [u8],
    pub signature: &'a [u8],
}

impl<'a> Signed<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Signed<'a>> {
        let mut certificate = Reader::new(bytes).inside(der::SEQUENCE)?;
        let (_, _, body) = certificate.next()?;
        let algorithm = certificate.expect(der::SEQUENCE)?;
        let (&unused_bits, signature) = certificate.expect(der::BIT_STRING)?.split_first()?;
        (unused_bits == 0).then_some(Signed { body, algorithm, signature })
    }
}

/// An attribute of a name: its type, and its value if that is text.
pub struct NamePart<'a> {
    pub oid: &'a [u8],
    pub text: Option<String>,
}

pub const COMMON_NAME: &[u8] = &[0x55, 4, 3];
pub const ORGANIZATION: &[u8] = &[0x55, 4, 10];
/// 1.3.6.1.4.1.57683.2: a user's uid in Kubernetes.
pub const KUBERNETES_UID: &[u8] = &[0x2b, 6, 1, 4, 1, 0x83, 0xc2, 0x53, 2];

/// The attributes of an encoded name, in order; `None` if it is malformed.
pub fn name_parts(subject: &[u8]) -> Option<Vec<NamePart<'_>>> {
    let mut out = Vec::new();
    let mut sets = Reader::new(subject).inside(der::SEQUENCE)?;
    while !sets.is_empty() {
        let mut set = sets.inside(der::SET)?;
        while !set.is_empty() {
            let mut part = set.inside(der::SEQUENCE)?;
            let oid = part.expect(der::OID)?;
            let (tag, content, _) = part.next()?;
            out.push(NamePart { oid, text: text(tag, content) });
        }
    }
    Some(out)
}

const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 14];
pub const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
pub const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 17];
pub const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
pub const AUTHORITY_KEY_ID: &[u8] = &[0x55, 0x1d, 35];
pub const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
pub const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
pub const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];
pub const ANY_PURPOSE: &[u8] = &[0x55, 0x1d, 37, 0];
pub const DNS_NAME: u8 = 0x82;
pub const IP_ADDRESS: u8 = 0x87;

fn oid(content: &[u8]) -> Vec<u8> {
    value(der::OID, content)
}

pub fn name(common_name: &str, organizations: &[String]) -> Vec<u8> {
    let part = |kind: &[u8], text: &str| {
        let attribute = nest(der::SEQUENCE, &[oid(kind), value(der::UTF8_STRING, text.as_bytes())]);
        nest(der::SET, &[attribute])
    };
    let mut parts: Vec<Vec<u8>> = organizations.iter().map(|o| part(ORGANIZATION, o)).collect();
    // An empty common name is left out; certificates of that kind only exist in tests.
    if !common_name.is_empty() {
        parts.push(part(COMMON_NAME, common_name));
    }
    nest(der::SEQUENCE, &parts)
}

fn extensions(request: &Request<'_>, public: &[u8], issuer_public: &[u8]) -> Vec<Vec<u8>> {
    let extension = |kind: &[u8], critical: bool, content: Vec<u8>| {
        let mut parts = vec![oid(kind)];
        if critical {
            parts.push(value(der::BOOLEAN, &[0xff]));
        }
        parts.push(value(der::OCTET_STRING, &content));
        nest(der::SEQUENCE, &parts)
    };
    // The key usage's bits from the left: 0 digitalSignature, 5 keyCertSign, 6 cRLSign.
    let (constraints, usage, purpose) = match request.usage {
        Usage::Authority => (vec![value(der::BOOLEAN, &[0xff])], [1, 0b1000_0110], None),
        Usage::Server => (vec![], [7, 0b1000_0000], Some(SERVER_AUTH)),
        Usage::Client => (vec![], [7, 0b1000_0000], Some(CLIENT_AUTH)),
    };
    let mut out = vec![
        extension(KEY_USAGE, true, value(der::BIT_STRING, &usage)),
        extension(BASIC_CONSTRAINTS, true, nest(der::SEQUENCE, &constraints)),
        extension(SUBJECT_KEY_ID, false, value(der::OCTET_STRING, &key_id(public))),
        extension(AUTHORITY_KEY_ID, false, nest(der::SEQUENCE, &[value(0x80, &key_id(issuer_public))])),
    ];
    if let Some(purpose) = purpose {
        out.push(extension(EXTENDED_KEY_USAGE, false, nest(der::SEQUENCE, &[oid(purpose)])));
    }
    if !request.names.is_empty() {
        let names: Vec<Vec<u8>> = request.names.iter().map(|n| alternative_name(n)).collect();
        out.push(extension(SUBJECT_ALT_NAME, false, nest(der::SEQUENCE, &names)));
    }
    out
}

pub fn alternative_name(name: &str) -> Vec<u8> {
    match name.parse::<IpAddr>() {
        Ok(ip) => address(ip),
        Err(_) => value(DNS_NAME, name.as_bytes()),
    }
}

pub fn address(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => value(IP_ADDRESS, &ip.octets()),
        IpAddr::V6(ip) => value(IP_ADDRESS, &ip.octets()),
    }
}

/// Tag and content of each subjectAltName.
pub fn general_names(extensions: Reader<'_>) -> Option<Vec<(u8, &[u8])>> {
    inside_extension(extensions, SUBJECT_ALT_NAME)
}

/// Tag and content of each value in the extension of this type.
fn inside_extension<'a>(mut extensions: Reader<'a>, kind: &[u8]) -> Option<Vec<(u8, &'a [u8])>> {
    let mut out = Vec::new();
    while !extensions.is_empty() {
        let mut extension = extensions.inside(der::SEQUENCE)?;
        if extension.expect(der::OID)? != kind {
            continue;
        }
        if extension.peek() == Some(der::BOOLEAN) {
            extension.next()?;
        }
        let mut names = Reader::new(extension.expect(der::OCTET_STRING)?).inside(der::SEQUENCE)?;
        while !names.is_empty() {
            let (tag, content, _) = names.next()?;
            out.push((tag, content));
        }
    }
    Some(out)
}

pub fn ip_address(content: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(content).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(content).map(IpAddr::from);
    v4.or(v6).ok()
}

fn alternative_names(extensions: Reader<'_>) -> Option<Vec<String>> {
    let mut out = Vec::new();
    for (tag, content) in general_names(extensions)? {
        match tag {
            DNS_NAME => out.push(String::from_utf8(content.to_vec()).ok()?),
            IP_ADDRESS => out.push(ip_address(content)?.to_string()),
            _ => {}
        }
    }
    Some(out)
}

/// The first 20 bytes of the key's SHA-256, one of the forms RFC 7093 allows.
pub fn key_id(public: &[u8]) -> [u8; 20] {
    let digest = ring::digest::digest(&ring::digest::SHA256, public);
    let mut out = [0; 20];
    out.copy_from_slice(&digest.as_ref()[..20]);
    out
}

fn text(tag: u8, content: &[u8]) -> Option<String> {
    match tag {
        // UTF8, numeric, printable, teletex (which in practice is ASCII or UTF-8), IA5.
        0x0c | 0x12 | 0x13 | 0x14 | 0x16 => String::from_utf8(content.to_vec()).ok(),
        // BMP: two bytes a character.
        0x1e if content.len().is_multiple_of(2) => {
            let units: Vec<u16> = content.chunks(2).map(|c| u16::from_be_bytes([c[0], c[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}
