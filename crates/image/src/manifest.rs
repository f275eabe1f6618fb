//! Manifests and indexes, of OCI's and of Docker's media types, and the choice of a platform among them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::config::or_default;
use crate::digest::Digest;

pub(crate) const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Bounds of what a registry or an archive may say.
const MAX_LAYERS: usize = 500;
const MAX_MANIFESTS: usize = 1000;
/// Manifests and configs are read into memory.
pub(crate) const MAX_DOCUMENT: u64 = 8 << 20;

/// Content by digest, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What an image runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    Manifest(Manifest),
    Index(Vec<Descriptor>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("the manifest cannot be read: {0}")]
    Syntax(String),
    #[error("unsupported manifest media type {0:?}")]
    MediaType(String),
    #[error("it has more than {0} entries")]
    TooMany(usize),
    #[error("no match for platform in manifest: not found")]
    Platform,
}

/// Reads a manifest or an index; `media_type` is the one it came with, or empty.
pub(crate) fn parse(content: &[u8], media_type: &str) -> Result<Document, ManifestError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Any {
        #[serde(default)]
        media_type: Option<String>,
        config: Option<Descriptor>,
        layers: Option<Vec<Descriptor>>,
        manifests: Option<Vec<Descriptor>>,
    }
    let any: Any =
        serde_json::from_slice(content).map_err(|error| ManifestError::Syntax(error.to_string()))?;
    let said = any.media_type.filter(|said| !said.is_empty());
    // The content is what the digest covers: it is believed before the registry's header. And one that could be read as both
    // would be another image for every reader.
    let kind = said.as_deref().unwrap_or(media_type.split(';').next().unwrap_or_default().trim());
    match (kind, any.config, any.manifests) {
        (OCI_INDEX | DOCKER_LIST | "", None, Some(manifests)) if any.layers.is_none() => {
            if manifests.len() > MAX_MANIFESTS {
                return Err(ManifestError::TooMany(MAX_MANIFESTS));
            }
            Ok(Document::Index(manifests))
        }
        (OCI_MANIFEST | DOCKER_MANIFEST | "", Some(config), None) => {
            let layers = any.layers.unwrap_or_default();
            if layers.len() > MAX_LAYERS {
                return Err(ManifestError::TooMany(MAX_LAYERS));
            }
            Ok(Document::Manifest(Manifest { config, layers }))
        }
        (OCI_INDEX | DOCKER_LIST | OCI_MANIFEST | DOCKER_MANIFEST | "", ..) => {
            Err(ManifestError::Syntax("it is neither a manifest nor an index".to_owned()))
        }
        (other, ..) => Err(ManifestError::MediaType(other.to_owned())),
    }
}

impl Platform {
    /// The machine this program runs on.
    pub fn current() -> Platform {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "x86" => ("386", ""),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        let text = str::to_owned;
        Platform { os: text("linux"), architecture: text(architecture), variant: text(variant) }
    }

    /// Both spellings of a platform are one.
    fn normalised(&self) -> Platform {
        let architecture = match self.architecture.to_lowercase().as_str() {
            "x86_64" | "x86-64" => "amd64".to_owned(),
            "aarch64" => "arm64".to_owned(),
            "i386" | "i686" => "386".to_owned(),
            other => other.to_owned(),
        };
        let variant = match (architecture.as_str(), self.variant.as_str()) {
            ("arm64", "" | "8") => "v8".to_owned(),
            ("arm", "") => "v7".to_owned(),
            ("arm", "5" | "6" | "7" | "8") => format!("v{}", self.variant),
            ("amd64", "v1") => String::new(),
            (_, variant) => variant.to_lowercase(),
        };
        Platform { os: self.os.to_lowercase(), architecture, variant }
    }

    /// How far an image of `other` is from this machine: 0 is exact, nothing does not run.
    fn distance(&self, other: &Platform) -> Option<u32> {
        let (mine, other) = (self.normalised(), other.normalised());
        if mine.os != other.os {
            return None;
        }
        let level = |variant: &str| variant.strip_prefix('v').and_then(|digits| digits.parse::<u32>().ok());
        match (mine.architecture.as_str(), other.architecture.as_str()) {
            (one, same) if one == same && mine.variant == other.variant => Some(0),
            // A later processor runs what was made for an earlier one.
            ("arm64" | "arm" | "amd64", same) if mine.architecture == same => {
                let base = u32::from(same == "amd64");
                let mine = level(&mine.variant).unwrap_or(base);
                mine.checked_sub(level(&other.variant).unwrap_or(base))
            }
            ("arm64", "arm") => 8u32.checked_sub(level(&other.variant)?).map(|gap| gap + 100),
            ("amd64", "386") => Some(100),
            _ => None,
        }
    }
}

/// The entry of an index that fits best. One that says no platform is taken if no other fits: only its content tells.
pub(crate) fn choose<'a>(
    index: &'a [Descriptor],
    platform: &Platform,
) -> Result<&'a Descriptor, ManifestError> {
    let is_image = |entry: &&Descriptor| {
        matches!(entry.media_type.as_str(), "" | OCI_MANIFEST | DOCKER_MANIFEST | OCI_INDEX | DOCKER_LIST)
    };
    (index.iter().filter(is_image))
        .filter_map(|entry| match &entry.platform {
            Some(other) => Some((platform.distance(other)?, entry)),
            None => Some((u32::MAX, entry)),
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, entry)| entry)
        .ok_or(ManifestError::Platform)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        Platform { os: part(), architecture: part(), variant: part() }
    }

    fn entry(text: &str) -> Descriptor {
        Descriptor {
            media_type: OCI_MANIFEST.to_owned(),
            digest: Digest::of(text.as_bytes()),
            size: 1,
            platform: (text != "none").then(|| platform(text)),
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn the_nearest_platform_that_runs_is_chosen() {
        for (mine, offered, chosen) in [
            ("linux/amd64", vec!["linux/arm64", "linux/amd64", "unknown/unknown"], Some("linux/amd64")),
            ("linux/amd64", vec!["windows/amd64"], None),
            ("linux/amd64", vec!["linux/x86_64"], Some("linux/x86_64")),
            ("linux/amd64", vec!["linux/amd64/v3"], None),
            ("linux/amd64", vec!["linux/386", "linux/arm64"], Some("linux/386")),
            ("linux/arm64/v8", vec!["linux/arm/v7", "linux/arm64"], Some("linux/arm64")),
            ("linux/arm/v7", vec!["linux/arm/v5", "linux/arm/v6", "linux/arm/v8"], Some("linux/arm/v6")),
            ("linux/amd64", vec!["none", "linux/amd64"], Some("linux/amd64")),
            ("linux/amd64", vec!["linux/arm64", "none"], Some("none")),
            ("linux/amd64", vec![], None),
        ] {
            let index: Vec<Descriptor> = offered.iter().map(|text| entry(text)).collect();
            let got = choose(&index, &platform(mine)).map(|entry| entry.digest.clone());
            assert_eq!(got.ok(), chosen.map(|text| Digest::of(text.as_bytes())), "{mine} of {offered:?}");
        }
    }

    #[test]
    fn a_document_is_what_its_content_says() {
        let digest = Digest::of(b"");
        let part = format!(r#"{{"mediaType": "x", "digest": "{digest}", "size": 2}}"#);
        let manifest = format!(r#"{{"schemaVersion": 2, "config": {part}, "layers": [{part}]}}"#);
        let index = format!(r#"{{"mediaType": "{OCI_INDEX}", "manifests": [{part}]}}"#);
        assert!(matches!(parse(manifest.as_bytes(), ""), Ok(Document::Manifest(m)) if m.layers.len() == 1));
        assert!(matches!(
            parse(manifest.as_bytes(), &format!("{OCI_MANIFEST}; x")),
            Ok(Document::Manifest(_))
        ));
        assert!(
            matches!(parse(index.as_bytes(), "text/plain"), Ok(Document::Index(list)) if list.len() == 1)
        );
        let both = format!(r#"{{"config": {part}, "layers": [], "manifests": []}}"#);
        for (content, media_type) in [
            ("", OCI_MANIFEST),
            ("{}", OCI_MANIFEST),
            (both.as_str(), OCI_MANIFEST),
            (&manifest, OCI_INDEX),
            (&manifest, "application/vnd.docker.distribution.manifest.v1+prettyjws"),
            (&manifest.replace("sha256:", "sha256:../"), ""),
            (&manifest.replace("\"size\": 2", "\"size\": -2"), ""),
        ] {
            assert!(parse(content.as_bytes(), media_type).is_err(), "{content} as {media_type}");
        }
    }
}
