//! What to do for a container's image before it starts.

use super::{Image, Store, StoreError, Verification};
use crate::keyring::Credential;
use crate::reference::Reference;

/// `imagePullPolicy` of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is here, and the pod may have it.
    Use(Box<Image>),
    Pull,
    /// `ErrImageNeverPull`. An image the pod may not have is treated like one that is missing: that it is here is nobody's business.
    NeverPull,
}

impl Store {
    pub fn decide(
        &self,
        policy: PullPolicy,
        reference: &Reference,
        credentials: &[Credential],
        verification: &Verification,
    ) -> Result<Decision, StoreError> {
        if policy == PullPolicy::Always {
            return Ok(Decision::Pull);
        }
        if let Some(image) = self.find(reference)?
            && !self.must_pull(&image, reference, credentials, verification)?
        {
            return Ok(Decision::Use(Box::new(image)));
        }
        Ok(if policy == PullPolicy::Never { Decision::NeverPull } else { Decision::Pull })
    }
}
