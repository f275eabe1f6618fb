//! JSON Web Tokens in compact serialization: parsing untrusted ones, signing our own.
//!
//! ```text
//! base64url(header) . base64url(payload) . base64url(signature)
//! └──────────── what is signed ─────────┘
//! ```
//! The key decides which algorithms are accepted, never the token: `alg: none`, or an algorithm of another
//! key type, never verifies.

mod keys;
#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codec::json;
use object::{Map, Value};

pub use keys::{KeyError, KeySet, PublicKey, SigningKey};

/// Longer tokens are rejected before anything is decoded. Ours have about 1.2 KiB.
pub const MAX_BYTES: usize = 16 * 1024;

/// A well-formed token; nothing in it is verified.
pub struct Unverified<'a> {
    pub algorithm: String,
    /// Empty if the token has no `kid`.
    pub key_id: String,
    pub payload: Value,
    signed: &'a str,
    signature: Vec<u8>,
    /// The header requires extensions (`crit`) we do not support.
    critical: bool,
}

/// Worded as in kube-apiserver: a TokenReview shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
}

impl<'a> Unverified<'a> {
    /// `None` if it is not a signed token.
    pub fn parse(token: &'a str) -> Option<Unverified<'a>> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        // Strict: unused bits must be zero, so that a token has exactly one encoding.
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let object = |text: &str| json::parse(&bytes(text)?, None).ok().filter(|v| v.as_map().is_some());
        let header = object(header)?;
        let text = |name: &str| header.str_at(&[name]).unwrap_or_default().to_owned();
        Some(Unverified {
            algorithm: text("alg"),
            key_id: text("kid"),
            payload: object(payload)?,
            signed,
            signature: bytes(signature)?,
            critical: header.get("crit").is_some() || header.get("b64").is_some(),
        })
    }

    /// Verifies the signature with the key the token names, or with any key if it names none.
    pub fn verify(&self, keys: &KeySet) -> Result<(), VerifyError> {
        let mut tried = false;
        for key in keys.iter().filter(|k| self.key_id.is_empty() || k.id() == self.key_id) {
            tried = true;
            if !self.critical && key.verifies(&self.algorithm, self.signed.as_bytes(), &self.signature) {
                return Ok(());
            }
        }
        Err(if tried { VerifyError::Signature } else { VerifyError::NoKey })
    }
}

/// Signs a payload.
pub fn sign(key: &SigningKey, payload: &Value) -> Result<String, KeyError> {
    let mut header = Map::default();
    header.set("alg", key.public().algorithm());
    header.set("kid", key.public().id());
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(json::to_vec(value));
    let mut token = format!("{}.{}", part(&Value::Map(header)), part(payload));
    let signature = key.sign(token.as_bytes())?;
    token.push('.');
    token.push_str(&URL_SAFE_NO_PAD.encode(signature));
    Ok(token)
}
