//! Names of fields without an allocation: those of the catalogue are borrowed from it, short ones held in place.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use catalog::Name;

/// A field's name, as large as a `String` and never one.
#[derive(Clone)]
pub enum FieldName {
    Static(&'static str),
    /// So many bytes of UTF-8. Nearly all names that are read from `FieldsV1` fit.
    Short(u8, [u8; FieldName::SHORT]),
    Shared(Arc<str>),
}

impl FieldName {
    const SHORT: usize = 22;

    pub fn new(text: &str) -> FieldName {
        let bytes = text.as_bytes();
        if bytes.len() > FieldName::SHORT {
            return FieldName::Shared(text.into());
        }
        let mut held = [0; FieldName::SHORT];
        held[..bytes.len()].copy_from_slice(bytes);
        FieldName::Short(bytes.len() as u8, held)
    }

    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            FieldName::Static(text) => text.as_bytes(),
            FieldName::Short(len, held) => &held[..usize::from(*len)],
            FieldName::Shared(text) => text.as_bytes(),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            FieldName::Static(text) => text,
            FieldName::Short(len, held) => {
                std::str::from_utf8(&held[..usize::from(*len)]).expect("made from a string")
            }
            FieldName::Shared(text) => text,
        }
    }
}

impl From<&Name> for FieldName {
    fn from(name: &Name) -> FieldName {
        match name {
            Name::Static(text) => FieldName::Static(text),
            Name::Shared(text) => FieldName::Shared(text.clone()),
        }
    }
}

impl Ord for FieldName {
    #[inline]
    fn cmp(&self, other: &FieldName) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}
impl PartialOrd for FieldName {
    fn partial_cmp(&self, other: &FieldName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for FieldName {
    fn eq(&self, other: &FieldName) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}
impl Eq for FieldName {}

impl fmt::Debug for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
