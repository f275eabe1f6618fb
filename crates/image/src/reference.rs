//! Names of images, normalised as every container tool does.
//!
//! ```text
//! busybox                        docker.io/library/busybox  :latest
//! me/app:1                       docker.io/me/app           :1
//! [::1]:5000/app@sha256:…        [::1]:5000/app             @sha256:…
//! ```

use std::fmt;
use std::str::FromStr;

use crate::digest::{Digest, DigestError};

const DEFAULT_DOMAIN: &str = "docker.io";
const LEGACY_DOMAIN: &str = "index.docker.io";
const OFFICIAL: &str = "library/";
const DEFAULT_TAG: &str = "latest";
const MAX_PATH: usize = 255;

/// An image's full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    domain: String,
    path: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text names no image, in kubelet's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("couldn't parse image name {image:?}: {problem}")]
pub struct ReferenceError {
    pub image: String,
    pub problem: ReferenceProblem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceProblem {
    #[error("invalid reference format")]
    Format,
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    Uppercase(String),
    #[error("repository name must be lowercase")]
    NameUppercase,
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Identifier(String),
    #[error("repository name must not be more than {MAX_PATH} characters")]
    TooLong,
    #[error(transparent)]
    Digest(#[from] DigestError),
}

impl Reference {
    /// The name, with the tag `latest` if it has neither tag nor digest.
    pub fn parse(image: &str) -> Result<Reference, ReferenceError> {
        parse(image).map_err(|problem| ReferenceError { image: image.to_owned(), problem })
    }

    /// The registry's name, as written: `docker.io`, `localhost:5000`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The repository within the registry: `library/busybox`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The repository with its registry, without tag and digest.
    pub fn name(&self) -> String {
        if self.domain.is_empty() { self.path.clone() } else { format!("{}/{}", self.domain, self.path) }
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// The same repository, at a digest.
    pub fn at(&self, digest: &Digest) -> Reference {
        Reference { tag: None, digest: Some(digest.clone()), ..self.clone() }
    }

    /// What is pulled: of a name with tag and digest, the digest.
    pub fn pulled(&self) -> Reference {
        match &self.digest {
            Some(digest) => self.at(digest),
            None => self.clone(),
        }
    }

    /// The last part of the URL of its manifest.
    pub fn version(&self) -> &str {
        match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.as_str(),
            (None, Some(tag)) => tag,
            (None, None) => DEFAULT_TAG,
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(image: &str) -> Result<Reference, ReferenceError> {
        Reference::parse(image)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn parse(image: &str) -> Result<Reference, ReferenceProblem> {
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(ReferenceProblem::Identifier(image.to_owned()));
    }
    let (domain, remainder) = split_domain(image);
    let remote = remainder.split(':').next().unwrap_or_default();
    if remote.to_lowercase() != remote {
        return Err(ReferenceProblem::Uppercase(remote.to_owned()));
    }
    let full = format!("{domain}/{remainder}");
    let Some((name, tag, digest)) = split(&full) else {
        let lower = split(&full.to_lowercase()).is_some();
        return Err(if lower { ReferenceProblem::NameUppercase } else { ReferenceProblem::Format });
    };
    // What only looks like a host (`a_b.c/d`) is a part of the path.
    let (domain, path) = match name.split_once('/') {
        Some((domain, path)) if is_host(domain) => (domain, path),
        _ => ("", name),
    };
    if path.len() > MAX_PATH {
        return Err(ReferenceProblem::TooLong);
    }
    let digest = digest.map(str::parse).transpose()?;
    let tag = match (tag, &digest) {
        (Some(tag), _) => Some(tag.to_owned()),
        (None, None) => Some(DEFAULT_TAG.to_owned()),
        (None, Some(_)) => None,
    };
    Ok(Reference { domain: domain.to_owned(), path: path.to_owned(), tag, digest })
}

/// The registry a name means, and the rest of it.
fn split_domain(name: &str) -> (&str, String) {
    let Some((first, rest)) = name.split_once('/') else {
        return (DEFAULT_DOMAIN, format!("{OFFICIAL}{name}"));
    };
    let (domain, remainder) = if first == LEGACY_DOMAIN {
        (DEFAULT_DOMAIN, rest)
    } else if first == "localhost" || first.contains(['.', ':']) || first.to_lowercase() != first {
        (first, rest)
    } else {
        (DEFAULT_DOMAIN, name)
    };
    if domain == DEFAULT_DOMAIN && !remainder.contains('/') {
        return (domain, format!("{OFFICIAL}{remainder}"));
    }
    (domain, remainder.to_owned())
}

/// Name, tag and digest of a well-formed reference.
fn split(full: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
    let (rest, digest) = match full.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (full, None),
    };
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let with_host = name.split_once('/').is_some_and(|(host, path)| is_host(host) && is_path(path));
    let sound =
        (with_host || is_path(name)) && tag.is_none_or(is_tag) && digest.is_none_or(looks_like_a_digest);
    sound.then_some((name, tag, digest))
}

/// A domain name or an IPv6 address in brackets, with a port or without.
fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    if port.is_some_and(|port| port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit())) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
    }
    host.split('.').all(|part| {
        let edges = part.bytes().next().zip(part.bytes().last());
        edges.is_some_and(|(first, last)| first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

fn is_path(text: &str) -> bool {
    text.split('/').all(is_component)
}

/// Lower-case letters and digits, with `.`, `_`, `__` or any number of `-` between them.
fn is_component(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(|b| plain(*b)) || !bytes.last().is_some_and(|b| plain(*b)) {
        return false;
    }
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    separators.all(|s| matches!(s, "" | "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let bytes = text.as_bytes();
    bytes.len() <= 128
        && bytes.first().is_some_and(|b| word(*b))
        && bytes.iter().all(|b| word(*b) || matches!(b, b'.' | b'-'))
}

/// The form any digest has; whether it is a digest says [`Digest`].
fn looks_like_a_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let part = |part: &str| {
        part.as_bytes().first().is_some_and(u8::is_ascii_alphabetic)
            && part.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    algorithm.split(['-', '_', '+', '.']).all(part)
        && hex.len() >= 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn short_names_are_completed() {
        let at = |name: &str| format!("{name}@{SHA}");
        for (image, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/me/app", "docker.io/me/app:latest"),
            ("me/app", "docker.io/me/app:latest"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/app:1", "localhost:5000/app:1"),
            ("host:5000/a/b/c", "host:5000/a/b/c:latest"),
            ("UPPER/app", "UPPER/app:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("[::1]:5000/app", "[::1]:5000/app:latest"),
            ("[fe80::1]/app:x", "[fe80::1]/app:x"),
            ("a--b__c/e_f", "docker.io/a--b__c/e_f:latest"),
            ("a_b.c/d", "a_b.c/d:latest"),
            (&at("app"), &at("docker.io/library/app")),
            (&at("app:1"), &at("docker.io/library/app:1")),
        ] {
            assert_eq!(Reference::parse(image).map(|r| r.to_string()).as_deref(), Ok(full), "{image}");
        }
    }

    #[test]
    fn a_name_that_only_looks_like_a_host_has_no_domain() {
        let reference = Reference::parse("a_b.c/d").unwrap();
        assert_eq!((reference.domain(), reference.path()), ("", "a_b.c/d"));
    }

    #[test]
    fn wrong_names_are_refused_in_kubelets_words() {
        let (long, hex) = ("a/".repeat(128) + "a", "a".repeat(64));
        let tag = format!("app:{}", "t".repeat(129));
        let hex_said = format!("invalid repository name ({hex}), cannot specify 64-byte hexadecimal strings");
        for (image, problem) in [
            ("", "invalid reference format"),
            ("a b", "invalid reference format"),
            ("app:", "invalid reference format"),
            ("app@", "invalid reference format"),
            (":tag", "invalid reference format"),
            ("https://host/app", "invalid reference format"),
            ("a..b", "invalid reference format"),
            ("-a", "invalid reference format"),
            ("a/", "invalid reference format"),
            ("/a", "invalid reference format"),
            ("a//b", "invalid reference format"),
            ("a___b", "invalid reference format"),
            ("../a", "invalid reference format"),
            ("[::1/app", "invalid reference format"),
            ("[::g]/app", "invalid reference format"),
            ("host:port/app", "invalid reference format"),
            ("app@sha256:abc", "invalid reference format"),
            (&tag, "invalid reference format"),
            ("App", "invalid reference format: repository name (library/App) must be lowercase"),
            ("me/App:x", "invalid reference format: repository name (me/App) must be lowercase"),
            (&hex, &hex_said),
            (&long, "repository name must not be more than 255 characters"),
            ("app@md5:d41d8cd98f00b204e9800998ecf8427e", "unsupported digest algorithm"),
            ("app@sha256:d41d8cd98f00b204e9800998ecf8427e", "invalid checksum digest length"),
        ] {
            let said = Reference::parse(image).unwrap_err().to_string();
            assert_eq!(said, format!("couldn't parse image name {image:?}: {problem}"));
        }
    }

    #[test]
    fn a_digest_wins_over_a_tag() {
        let reference = Reference::parse(&format!("app:1@{SHA}")).unwrap();
        assert_eq!(reference.version(), SHA);
        assert_eq!(reference.pulled().to_string(), format!("docker.io/library/app@{SHA}"));
        assert_eq!(reference.name(), "docker.io/library/app");
    }
}
