//! Who an object is: its uid, and the coordinates by which others refer to it.

use std::fmt;
use std::sync::Arc;

use runtime::owners::Owner;

/// A uid, small: there are two for every owned object of the cluster. Text that is no UUID is kept as it is, because the
/// writer of an owner reference may put anything there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Uid {
    Uuid([u8; 16]),
    Text(Arc<str>),
}

impl Uid {
    pub fn read(text: &str) -> Uid {
        uuid(text.as_bytes()).map_or_else(|| Uid::Text(text.into()), Uid::Uuid)
    }
}

/// The bytes of a UUID written the way the server writes them; any other spelling is another uid.
fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 36 {
        return None;
    }
    let (mut bytes, mut digits) = ([0u8; 16], 0usize);
    for (at, c) in text.iter().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            if *c != b'-' {
                return None;
            }
            continue;
        }
        let digit = match c {
            b'0'..=b'9' => c - b'0',
            b'a'..=b'f' => c - b'a' + 10,
            _ => return None,
        };
        bytes[digits / 2] = bytes[digits / 2] << 4 | digit;
        digits += 1;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Text(text) => f.write_str(text),
            Uid::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where an object is, or is said to be. Ordered by kind before namespace, so that the identities of one owner have the
/// same order wherever its dependents live.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    pub kind: String,
    pub api_version: String,
    /// Empty for what has none.
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Identity {
    /// What a reference in `namespace` says its owner is.
    pub fn referred(owner: &Owner, namespace: &str) -> Identity {
        Identity {
            kind: owner.kind.clone(),
            api_version: owner.api_version.clone(),
            namespace: namespace.to_owned(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        }
    }

    pub fn coordinates(&self) -> Coordinates<'_> {
        Coordinates {
            kind: &self.kind,
            api_version: &self.api_version,
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}

/// As upstream writes it, in events too.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { kind, api_version, namespace, name, uid } = self;
        write!(f, "[{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}]")
    }
}

/// An identity without its uid, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinates<'a> {
    pub kind: &'a str,
    pub api_version: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

impl Coordinates<'_> {
    /// Does a reference name this kind and name? Its uid and namespace are not looked at.
    pub fn is_named_by(&self, owner: &Owner) -> bool {
        owner.kind == self.kind && owner.api_version == self.api_version && owner.name == self.name
    }

    pub fn with_uid(&self, uid: &str) -> Identity {
        Identity {
            kind: self.kind.to_owned(),
            api_version: self.api_version.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}
