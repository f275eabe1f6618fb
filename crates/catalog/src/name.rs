//! A name shared by many objects: a field of the catalogue, a group, a kind.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

/// An interned, immutable string. Names of the built-in catalogue are slices of its embedded text
/// and cost nothing to clone; names that come later (custom resources, label keys) are shared.
#[derive(Clone)]
pub enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Name {
    pub const EMPTY: Name = Name::Static("");

    pub fn as_str(&self) -> &str {
        match self {
            Name::Static(s) => s,
            Name::Shared(s) => s,
        }
    }
}

impl std::ops::Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}
impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}
impl From<&'static str> for Name {
    fn from(s: &'static str) -> Self {
        Name::Static(s)
    }
}
impl From<String> for Name {
    fn from(s: String) -> Self {
        Name::Shared(s.into())
    }
}
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}
impl Eq for Name {}
impl PartialEq<str> for Name {
    /// Members are looked up by a linear scan, and nearly all comparisons fail: at the length, or at the first
    /// byte, without a call.
    #[inline]
    fn eq(&self, other: &str) -> bool {
        let own = self.as_str();
        own.len() == other.len() && own.as_bytes().first() == other.as_bytes().first() && own == other
    }
}
impl PartialEq<&str> for Name {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}
impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}
impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state)
    }
}
impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// By name. Nobody but the catalogue adds names, so none are chosen to collide, and several are looked up in every request.
pub(crate) type NameMap<V> = HashMap<Name, V, BuildHasherDefault<NameHasher>>;

#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        // An odd number with its bits all over, as in many such hashes.
        const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(MIX);
        }
    }
    fn finish(&self) -> u64 {
        // The map looks at the lowest bits and the highest; the lowest are the worst mixed.
        self.0 ^ (self.0 >> 32)
    }
}
