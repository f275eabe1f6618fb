//! JSON Web Tokens in the compact form: parsing what strangers send, signing what we hand out.
//!
//! ```text
//! base64url(header) . base64url(payload) . base64url(signature)
//! └──────────── what is signed ─────────┘
//! ```
//! The key decides which algorithms count, never the token: `alg: none`, and an algorithm of another family of
//! keys, verify nothing.

mod keys;
#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codec::json;
use object::{Map, Value};

pub use keys::{KeyError, KeySet, PublicKey, SigningKey};

/// Longer tokens are refused before anything is decoded. Ours have some 1.2 KiB.
pub const MAX_BYTES: usize = 16 * 1024;

/// A token that has the right shape; nothing in it is proven.
pub struct Unverified<'a> {
    pub algorithm: String,
    /// Empty where the token names no key.
    pub key_id: String,
    pub payload: Value,
    signed: &'a str,
    signature: Vec<u8>,
    /// The header demands extensions we do not know.
    critical: bool,
}

/// The words are upstream's: a TokenReview shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
}

impl<'a> Unverified<'a> {
    /// `None` for anything that is no signed token.
    pub fn parse(token: &'a str) -> Option<Unverified<'a>> {
        if token.len() > MAX_BYTES {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        // Strict: unused bits must be zero, so that a token has one text only.
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

    /// Proven by one of the keys: by the one the token names, or by any if it names none.
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
