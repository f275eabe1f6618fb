//! Digests: the names of content. Only what hashes to its name is ever believed.

use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256, SHA384, SHA512};
use serde::{Deserialize, Serialize};

/// `sha256:…`, checked: it is safe as the name of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("invalid checksum digest format")]
    Format,
    #[error("invalid checksum digest length")]
    Length,
    #[error("unsupported digest algorithm")]
    Unsupported,
}

/// What an algorithm is called, how long its values are, and what computes them.
const ALGORITHMS: [(&str, usize, &ring::digest::Algorithm); 3] =
    [("sha256", 64, &SHA256), ("sha384", 96, &SHA384), ("sha512", 128, &SHA512)];

impl Digest {
    /// The SHA-256 of a text.
    pub fn of(content: &[u8]) -> Digest {
        let mut hasher = Hasher::sha256();
        hasher.update(content);
        hasher.finish()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn algorithm(&self) -> &str {
        self.0.split_once(':').map_or("", |(algorithm, _)| algorithm)
    }

    pub fn hex(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, hex)| hex)
    }

    /// Computes the digest to compare with this one.
    pub fn hasher(&self) -> Hasher {
        let named = ALGORITHMS.iter().find(|(name, ..)| *name == self.algorithm());
        let (name, _, algorithm) = *named.unwrap_or(&ALGORITHMS[0]);
        Hasher { name, context: Context::new(algorithm) }
    }

    pub fn matches(&self, content: &[u8]) -> bool {
        let mut hasher = self.hasher();
        hasher.update(content);
        hasher.finish() == *self
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let (name, hex) = text.split_once(':').ok_or(DigestError::Format)?;
        if name.is_empty() || hex.is_empty() {
            return Err(DigestError::Format);
        }
        let Some((_, length, _)) = ALGORITHMS.iter().find(|(known, ..)| *known == name) else {
            let plain = |c: char| c.is_ascii_alphanumeric() || "+._-".contains(c);
            return Err(if name.chars().all(plain) { DigestError::Unsupported } else { DigestError::Format });
        };
        if hex.len() != *length {
            return Err(DigestError::Length);
        }
        if !hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestError::Format);
        }
        Ok(Digest(text.to_owned()))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Digest, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest in the making.
pub struct Hasher {
    name: &'static str,
    context: Context,
}

impl Hasher {
    pub fn sha256() -> Hasher {
        Hasher { name: "sha256", context: Context::new(&SHA256) }
    }

    pub fn update(&mut self, content: &[u8]) {
        self.context.update(content);
    }

    pub fn finish(self) -> Digest {
        Digest(format!("{}:{}", self.name, hex(self.context.finish().as_ref())))
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_digests_parse() {
        let full = format!("sha256:{}", "a".repeat(64));
        assert_eq!(full.parse::<Digest>().unwrap().hex().len(), 64);
        for (text, error) in [
            ("", DigestError::Format),
            ("sha256", DigestError::Format),
            ("sha256:", DigestError::Format),
            (":abc", DigestError::Format),
            ("sha256:abc", DigestError::Length),
            ("md5:0123456789abcdef0123456789abcdef", DigestError::Unsupported),
            ("../x:00", DigestError::Format),
            (&format!("sha256:{}", "A".repeat(64)), DigestError::Format),
            (&format!("sha256:../{}", "a".repeat(61)), DigestError::Format),
        ] {
            assert_eq!(text.parse::<Digest>(), Err(error), "{text}");
        }
    }

    #[test]
    fn digests_are_computed_by_their_own_algorithm() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        let long: Digest = format!("sha512:{}", "0".repeat(128)).parse().unwrap();
        assert!(!long.matches(b""));
        assert_eq!(long.hasher().finish().algorithm(), "sha512");
    }
}
