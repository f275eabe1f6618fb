//! Whose credentials opened an image. Who may use it therefore is `kubelet::images`' to decide: an image pulled with a Secret is on
//! the node for all to see, and a pod without that Secret must not get it just because another pod's pull has brought it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Image;
use crate::keyring::{Credential, SecretSource};

/// Whose credentials opened an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PulledBy {
    /// Without credentials, or with those of the node: every pod of the node may use it.
    Node,
    Secrets(Vec<PulledSecret>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PulledSecret {
    #[serde(flatten)]
    pub source: SecretSource,
    pub credential_hash: String,
}

/// `imagePullCredentialsVerificationPolicy` of the kubelet's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Verification {
    NeverVerify,
    /// Imported images are for all.
    #[default]
    NeverVerifyPreloadedImages,
    /// Repositories, and `PREFIX/*`, that are for all.
    NeverVerifyAllowlistedImages(Vec<String>),
    AlwaysVerify,
}

impl PulledBy {
    pub fn from_credential(credential: Option<&Credential>) -> PulledBy {
        match credential.and_then(|credential| Some((credential, credential.source.clone()?))) {
            Some((credential, source)) => {
                PulledBy::Secrets(vec![PulledSecret { source, credential_hash: credential.hash() }])
            }
            None => PulledBy::Node,
        }
    }

    /// Adds to who may have it: what every pod may have stays so, and a Secret's newest credential counts.
    pub fn merge(&mut self, by: &PulledBy) {
        match (&mut *self, by) {
            (PulledBy::Node, _) => {}
            (_, PulledBy::Node) => *self = PulledBy::Node,
            (PulledBy::Secrets(known), PulledBy::Secrets(new)) => {
                known.retain(|old| !new.iter().any(|new| new.source == old.source));
                known.extend(new.iter().cloned());
                known.sort();
            }
        }
    }
}

/// Adds to who may have it.
pub(super) fn record(image: &mut Image, repository: &str, by: &PulledBy) {
    let pulled = image.pulled.get_or_insert_with(BTreeMap::new);
    pulled.entry(repository.to_owned()).or_insert_with(|| by.clone()).merge(by);
}
