//! Keys that sign and verify tokens: RSA, ECDSA P-256 and P-384, read from PEM.
//!
//! Differs from kube-apiserver: P-521 keys (ES512) and RSA keys below 2048 bits are rejected when they are
//! loaded, because ring does not support them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::{Map, Value};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm};
use rustls_pki_types::pem::{PemObject, SectionKind};

use crate::pki::der::{self, Reader, bits, nest, value};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("not valid PEM ({0})")]
    Pem(String),
    #[error("no key found: it must contain a PEM block such as BEGIN PUBLIC KEY or BEGIN PRIVATE KEY")]
    Empty,
    #[error("damaged, or not an RSA (2048 bits or more), ECDSA P-256 or ECDSA P-384 key")]
    Unusable,
    #[error("the cryptographic library failed to {0}")]
    Crypto(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Rsa,
    P256,
    P384,
}

/// Verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    family: Family,
    /// RSA: PKCS#1; otherwise the uncompressed point.
    key: Vec<u8>,
    id: String,
}

/// The keys that verify tokens, without duplicates, in the order they were given.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// Signs tokens.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
    random: SystemRandom,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl PublicKey {
    fn new(family: Family, key: &[u8]) -> Option<PublicKey> {
        let fits = match family {
            Family::Rsa => {
                let modulus = rsa_parts(key)?.0;
                (256..=1024).contains(&modulus.len())
            }
            Family::P256 => key.len() == 65 && key[0] == 4,
            Family::P384 => key.len() == 97 && key[0] == 4,
        };
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, &subject_public_key(family, key)));
        fits.then(|| PublicKey { family, key: key.to_vec(), id })
    }

    /// Every key of a PEM file; the public part of private keys and certificates.
    pub fn all_from_pem(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
        let mut keys = Vec::new();
        for section in sections(pem)? {
            let (kind, der) = section;
            keys.push(match kind {
                SectionKind::PublicKey => from_subject_public_key(&der).ok_or(KeyError::Unusable)?,
                SectionKind::Certificate => from_certificate(&der).ok_or(KeyError::Unusable)?,
                SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                    SigningKey::from_section(kind, &der)?.public
                }
                _ => continue,
            });
        }
        if keys.is_empty() { Err(KeyError::Empty) } else { Ok(keys) }
    }

    /// The SHA-256 of the SubjectPublicKeyInfo, as in kube-apiserver.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm for signing, as published in the JWKS.
    pub fn algorithm(&self) -> &'static str {
        match self.family {
            Family::Rsa => "RS256",
            Family::P256 => "ES256",
            Family::P384 => "ES384",
        }
    }

    pub fn to_pem(&self) -> String {
        crate::pki::pem::encode("PUBLIC KEY", &subject_public_key(self.family, &self.key))
    }

    pub(super) fn verifies(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        let how: &dyn VerificationAlgorithm = match (self.family, algorithm) {
            (Family::Rsa, "RS256") => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Family::Rsa, "RS384") => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Family::Rsa, "RS512") => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Family::Rsa, "PS256") => &signature::RSA_PSS_2048_8192_SHA256,
            (Family::Rsa, "PS384") => &signature::RSA_PSS_2048_8192_SHA384,
            (Family::Rsa, "PS512") => &signature::RSA_PSS_2048_8192_SHA512,
            (Family::P256, "ES256") => &signature::ECDSA_P256_SHA256_FIXED,
            (Family::P384, "ES384") => &signature::ECDSA_P384_SHA384_FIXED,
            _ => return false,
        };
        UnparsedPublicKey::new(how, &self.key).verify(signed, signature).is_ok()
    }

    /// As a JSON Web Key.
    fn to_jwk(&self) -> Value {
        let mut jwk = Map::default();
        jwk.set("use", "sig");
        jwk.set("kty", if self.family == Family::Rsa { "RSA" } else { "EC" });
        jwk.set("kid", self.id.as_str());
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self.family {
            Family::Rsa => {
                let (modulus, exponent) = rsa_parts(&self.key).unwrap_or_default();
                jwk.set("alg", self.algorithm());
                jwk.set("n", encode(modulus));
                jwk.set("e", encode(exponent));
            }
            Family::P256 | Family::P384 => {
                let (x, y) = self.key[1..].split_at(self.key.len() / 2);
                jwk.set("crv", if self.family == Family::P256 { "P-256" } else { "P-384" });
                jwk.set("alg", self.algorithm());
                jwk.set("x", encode(x));
                jwk.set("y", encode(y));
            }
        }
        Value::Map(jwk)
    }
}

impl KeySet {
    pub fn new(keys: impl IntoIterator<Item = PublicKey>) -> KeySet {
        let mut out = KeySet::default();
        for key in keys {
            if !out.keys.contains(&key) {
                out.keys.push(key);
            }
        }
        out
    }

    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    /// The document at `/openid/v1/jwks`.
    pub fn to_jwks(&self) -> Value {
        let mut out = Map::default();
        out.set("keys", self.keys.iter().map(PublicKey::to_jwk).collect::<Vec<_>>());
        Value::Map(out)
    }

    /// The algorithms tokens are signed with, sorted.
    pub fn algorithms(&self) -> Vec<&'static str> {
        let mut all: Vec<_> = self.keys.iter().map(PublicKey::algorithm).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

impl SigningKey {
    /// A new P-256 key in PKCS#8.
    pub fn generate_pkcs8() -> Result<Vec<u8>, KeyError> {
        let key = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P256_SHA256_FIXED_SIGNING, &crate::random());
        key.map(|k| k.as_ref().to_vec()).map_err(|_| KeyError::Crypto("generate a key"))
    }

    pub fn from_pkcs8(pkcs8: &[u8]) -> Result<SigningKey, KeyError> {
        let random = crate::random();
        let curves = [
            (Family::P256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            (Family::P384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
        ];
        for (family, algorithm) in curves {
            if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random) {
                let public = PublicKey::new(family, pair.public_key().as_ref()).ok_or(KeyError::Unusable)?;
                return Ok(SigningKey { pair: Pair::Ecdsa(pair), public, random });
            }
        }
        SigningKey::rsa(RsaKeyPair::from_pkcs8(pkcs8).map_err(|_| KeyError::Unusable)?)
    }

    /// The first private key of a PEM file: PKCS#8, PKCS#1 or SEC 1.
    pub fn from_pem(pem: &[u8]) -> Result<SigningKey, KeyError> {
        let private = |kind: &SectionKind| {
            matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
        };
        let found = sections(pem)?.into_iter().find(|(kind, _)| private(kind));
        let (kind, der) = found.ok_or(KeyError::Empty)?;
        SigningKey::from_section(kind, &der)
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(super) fn sign(&self, text: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::Crypto("sign a token");
        match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&self.random, text).map(|s| s.as_ref().to_vec()).map_err(failed),
            Pair::Rsa(pair) => {
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &self.random, text, &mut out).map_err(failed)?;
                Ok(out)
            }
        }
    }

    fn rsa(pair: RsaKeyPair) -> Result<SigningKey, KeyError> {
        let public = PublicKey::new(Family::Rsa, pair.public().as_ref()).ok_or(KeyError::Unusable)?;
        Ok(SigningKey { pair: Pair::Rsa(pair), public, random: crate::random() })
    }

    fn from_section(kind: SectionKind, der: &[u8]) -> Result<SigningKey, KeyError> {
        match kind {
            SectionKind::RsaPrivateKey => {
                SigningKey::rsa(RsaKeyPair::from_der(der).map_err(|_| KeyError::Unusable)?)
            }
            // PKCS#8 wraps SEC 1; the curve is found by trying.
            SectionKind::EcPrivateKey => [PRIME256V1, SECP384R1]
                .into_iter()
                .find_map(|curve| {
                    let algorithm = nest(der::SEQUENCE, &[oid(EC_PUBLIC_KEY), oid(curve)]);
                    let version = der::integer(&[0]);
                    let key = value(der::OCTET_STRING, der);
                    SigningKey::from_pkcs8(&nest(der::SEQUENCE, &[version, algorithm, key])).ok()
                })
                .ok_or(KeyError::Unusable),
            _ => SigningKey::from_pkcs8(der),
        }
    }
}

const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const PRIME256V1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const SECP384R1: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const RSA_ENCRYPTION: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const NULL: u8 = 0x05;

fn oid(content: &[u8]) -> Vec<u8> {
    value(der::OID, content)
}

fn sections(pem: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyError> {
    let found = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    found.map_err(|e| KeyError::Pem(e.to_string()))
}

/// The SubjectPublicKeyInfo of X.509.
fn subject_public_key(family: Family, key: &[u8]) -> Vec<u8> {
    let algorithm = match family {
        Family::Rsa => [oid(RSA_ENCRYPTION), value(NULL, &[])],
        Family::P256 => [oid(EC_PUBLIC_KEY), oid(PRIME256V1)],
        Family::P384 => [oid(EC_PUBLIC_KEY), oid(SECP384R1)],
    };
    nest(der::SEQUENCE, &[nest(der::SEQUENCE, &algorithm), bits(key)])
}

fn from_subject_public_key(encoded: &[u8]) -> Option<PublicKey> {
    let mut whole = Reader::new(encoded).inside(der::SEQUENCE)?;
    let mut algorithm = whole.inside(der::SEQUENCE)?;
    let family = match algorithm.expect(der::OID)? {
        RSA_ENCRYPTION => Family::Rsa,
        EC_PUBLIC_KEY => match algorithm.expect(der::OID)? {
            PRIME256V1 => Family::P256,
            SECP384R1 => Family::P384,
            _ => return None,
        },
        _ => return None,
    };
    let (unused_bits, key) = whole.expect(der::BIT_STRING)?.split_first()?;
    (*unused_bits == 0).then(|| PublicKey::new(family, key))?
}

fn from_certificate(encoded: &[u8]) -> Option<PublicKey> {
    let mut body = Reader::new(encoded).inside(der::SEQUENCE)?.inside(der::SEQUENCE)?;
    // The version is optional; serial, algorithm, issuer, validity and subject come before the key.
    if body.peek() == Some(0xa0) {
        body.next()?;
    }
    for _ in 0..5 {
        body.next()?;
    }
    from_subject_public_key(body.next()?.2)
}

/// Modulus and exponent without leading zeros.
fn rsa_parts(pkcs1: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = Reader::new(pkcs1).inside(der::SEQUENCE)?;
    let number = |bytes: &'_ [u8]| bytes.iter().position(|b| *b != 0);
    let (modulus, exponent) = (parts.expect(der::INTEGER)?, parts.expect(der::INTEGER)?);
    Some((&modulus[number(modulus)?..], &exponent[number(exponent)?..]))
}
