//! Who may use an image that is here already, as kubelet's records of pulled images decide it.
//!
//! An image pulled with a Secret is on the node for all to see. A pod without that Secret must not get it just because another
//! pod's pull has brought it: it has to pull it itself, and so to show the registry its own credentials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Image, Store, StoreError};
use crate::keyring::{Credential, SecretSource};
use crate::reference::Reference;

/// More Secrets than this for one repository are not remembered while matching.
const MAX_SECRETS: usize = 100;

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
}

impl Store {
    /// Whether a pod with these credentials must pull an image that is here, to show that it may have it.
    pub fn must_pull(
        &self,
        image: &Image,
        reference: &Reference,
        credentials: &[Credential],
        policy: &Verification,
    ) -> Result<bool, StoreError> {
        let repository = reference.name();
        let verify = match policy {
            Verification::NeverVerify => false,
            Verification::NeverVerifyPreloadedImages => image.pulled.is_some(),
            Verification::NeverVerifyAllowlistedImages(list) => !allowed(list, &repository),
            Verification::AlwaysVerify => true,
        };
        if !verify {
            return Ok(false);
        }
        let known = match image.pulled.as_ref().and_then(|pulled| pulled.get(&repository)) {
            None => return Ok(true),
            Some(PulledBy::Node) => return Ok(false),
            Some(PulledBy::Secrets(known)) => known,
        };
        for (credential, source) in credentials.iter().filter_map(|c| Some((c, c.source.as_ref()?))) {
            let hash = credential.hash();
            for secret in known {
                let (same_hash, same_source) = (secret.credential_hash == hash, secret.source == *source);
                let room = known.len() < MAX_SECRETS;
                let accepted = same_hash || (same_source && room);
                if !accepted {
                    continue;
                }
                // The same login in another Secret, or a Secret whose login was renewed: good from now on as well.
                if same_hash != same_source && room {
                    let by = PulledBy::from_credential(Some(credential));
                    self.write(|index| {
                        if let Some(image) = index.images.get_mut(&image.id) {
                            record(image, &repository, &by);
                        }
                        Ok(())
                    })?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Adds to who may have it.
pub(super) fn record(image: &mut Image, repository: &str, by: &PulledBy) {
    let pulled = image.pulled.get_or_insert_with(BTreeMap::new);
    let known = pulled.entry(repository.to_owned()).or_insert_with(|| by.clone());
    match (known, by) {
        (PulledBy::Node, _) => {}
        (known, PulledBy::Node) => *known = PulledBy::Node,
        (PulledBy::Secrets(known), PulledBy::Secrets(new)) => {
            known.retain(|old| !new.iter().any(|new| new.source == old.source));
            known.extend(new.iter().cloned());
            known.sort();
        }
    }
}

fn allowed(list: &[String], repository: &str) -> bool {
    list.iter().any(|pattern| match pattern.strip_suffix("/*") {
        Some(prefix) => repository.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')),
        // As people write it: a name without a registry is Docker Hub's.
        None => {
            pattern == repository || Reference::parse(pattern).is_ok_and(|full| full.name() == repository)
        }
    })
}
